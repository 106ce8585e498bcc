/* calib/pairs.h: what is felt of pairs of outputs (calib/guide.h), over windows of which several
 * ranks have some, to the bits that one rank alone would have.
 *
 * A block of pairs is a sum over the text's tokens in their order. So a rank keeps what its windows
 * felt, and then the blocks go from rank to rank like a baton (calib/relay.h), one behind another.
 * Inside calib/ only, but for the room. */
#ifndef PITH_CALIB_PAIRS_H
#define PITH_CALIB_PAIRS_H

#include "calib/guide.h"

/* Of a linear in one window: [n][rows], at that place of the room. */
struct pith_pairs_rows {
    uint32_t linear;
    size_t n, at;
};
struct pith_pairs {
    float *room; /* [floats], the caller's */
    uint64_t floats, used;
    struct pith_pairs_rows *rows; /* [most], owned, in the order in which they came */
    size_t count, most;
};
/* Floats that windows of so many tokens in all keep of a layer, whichever it is; 0: of pairs
 * nothing is felt. */
uint64_t pith_pairs_floats(const struct pith_guide *g, size_t tokens);
void pith_pairs_free(struct pith_pairs *p);

/* Keeps a linear's gradients, each token's times the norm of what it read. PITH_NOMEM. */
enum pith_status pith_pairs_keep(const struct pith_guide *g, const struct pith_tape_gave *gave,
                                 struct pith_error *err);
/* What all ranks stored of a layer's linears is added to its pairs, everywhere, and dropped.
 */
enum pith_status pith_pairs_meet(const struct pith_guide *g, uint32_t layer,
                                 struct pith_ranks *ranks, struct pith_error *err);

#endif
