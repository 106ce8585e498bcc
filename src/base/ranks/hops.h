/* base/ranks/hops.h: by which messages between two ranks what some have becomes everyone's. A
 * schedule of bytes and ranks alone, which the ranks follow (base/ranks/ranks.h); nothing is sent
 * here.
 *
 * It goes in rounds; in each a rank receives from one at most, and sends to one at most. With
 * D = ceil(log2(ranks)):
 *
 *   - what one rank has, up to 64 KiB, or of two ranks: whole, down a binomial tree, D rounds;
 *   - what one rank has, more: its parts down that tree, each rank's with those behind it (D
 *     rounds), then the parts to all (D rounds);
 *   - parts of all to all, D rounds: in round k a rank receives the 2^k parts behind those that
 *     follow its own, from the rank 2^k further, round the end.
 *
 * So it takes D or 2 D delays, and a link carries the bytes D times when they are few, at most
 * twice when they are many, whatever the number of ranks is. Nobody receives what it has. Where two
 * ranks send to each other in a round, both cut it into pieces so short that MPI does not ask
 * before it sends one: the question would wait behind what goes the same way. (Thakur,
 * Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005;
 * Bruck et al., Efficient Algorithms for All-to-All Communications in Multiport Message-Passing
 * Systems, 1997.) */
#ifndef PITH_BASE_RANKS_HOPS_H
#define PITH_BASE_RANKS_HOPS_H

#include <stdbool.h>
#include <stddef.h>

/* The data are cut into as many parts as there are ranks. */
struct pith_hops {
    unsigned ranks;      /* at least 1 */
    unsigned from;       /* the one that has all parts; each different, 0 */
    bool own;            /* part k is all that rank k has */
    size_t items, size;  /* pith_ranks_cut() of so many items of `size` bytes */
    const size_t *edges; /* instead, unless NULL: [ranks + 1], bytes [edges[k], edges[k + 1]), of
                          * which edges[0] is 0 */
};

/* What comes to a rank in a round: bytes [first, end) of the data, in two runs where the parts go
 * round the end. Both empty: nothing. */
struct pith_hop {
    unsigned from;
    struct pith_hop_run {
        size_t first, end;
    } run[2];
};

/* Bytes of a piece. */
enum { PITH_HOPS_PIECE = 32 << 10 };

/* Bytes of the data. */
size_t pith_hops_bytes(const struct pith_hops *s);
unsigned pith_hops_rounds(const struct pith_hops *s);
void pith_hops_in(const struct pith_hops *s, unsigned round, unsigned to, struct pith_hop *hop);
/* What goes from that rank in a round: its hop, whose `from` is the one it goes to. */
void pith_hops_out(const struct pith_hops *s, unsigned round, unsigned from, struct pith_hop *hop);
/* Whether what comes to a rank and what goes from it in a round go between the same two. */
bool pith_hops_cross(const struct pith_hop *in, const struct pith_hop *out);

#endif
