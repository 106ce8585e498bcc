/* calib/relay.h: statistics over a text whose windows lie on several ranks, to the bits that one
 * rank alone would have.
 *
 * Sums are in the order of the windows (calib/collect.h), so they go from rank to rank like a
 * baton: each receives the sum over the windows before its own, adds these, and hands it on; the
 * last has what all want. So that nobody waits for the rank before while there is something to do,
 * a rank first runs its windows and keeps what the sites read in a file; then, of a Hessian, whose
 * sums are what takes time, panels of rows go along one behind another:
 *
 *     rank 0   panel 0  panel 1  panel 2  ...
 *     rank 1            panel 0  panel 1  ...      each over its own windows, in their order
 *     rank 2                     panel 0  ...
 *
 * This is in place of adding parts in a tree, which would need a sum a level and other bits than
 * those of a machine alone. */
#ifndef PITH_CALIB_RELAY_H
#define PITH_CALIB_RELAY_H

#include "base/ranks/ranks.h"

struct pith_relay {
    struct pith_ranks *ranks; /* borrowed; NULL: one */
    float *rows;              /* [tokens of this rank][width], for what sites read */
    size_t width;
    /* Makes room for so many floats (one such room at a time), for rows of experts' tokens. */
    enum pith_status (*room)(void *ctx, size_t floats, float **out, struct pith_error *err);
    void *room_ctx;
};

/* An expert's statistics are one rank's from the start, its owner's: the rows of the tokens that
 * take it go there. */
static inline unsigned pith_relay_owner_of(unsigned ranks, uint32_t expert)
{
    return expert % ranks;
}
static inline unsigned pith_relay_owner(const struct pith_relay *relay, uint32_t expert)
{
    return pith_relay_owner_of(pith_ranks_count(relay->ranks), expert);
}

/* A sum on its way: from the rank before (rank 0 begins it), to the one behind, or, when the last
 * has it, to all. */
enum pith_relay_way { PITH_RELAY_RECEIVE, PITH_RELAY_SEND, PITH_RELAY_SHARE };
enum pith_status pith_relay_pass(struct pith_ranks *r, enum pith_relay_way way, void *data,
                                 size_t bytes, struct pith_error *err);

/* out[floats], of that window of `all`, from the rank that has it to everyone. */
enum pith_status pith_relay_window(const struct pith_relay *relay, size_t all, size_t window,
                                   float *out, size_t floats, struct pith_error *err);

#endif
