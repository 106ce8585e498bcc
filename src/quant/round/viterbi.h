/* quant/round/viterbi.h: the walk through a trellis (num/trellis.h) that comes nearest to given
 * numbers (Viterbi 1967), closed in two passes: the first finds the state at the seam, going over
 * it, the second the best walk from that state back to it (QTIP: Tseng et al. 2024). */
#ifndef PITH_QUANT_VITERBI_H
#define PITH_QUANT_VITERBI_H

#include "kern/ops.h"
#include "num/trellis.h"

struct pith_viterbi {
    const struct pith_kern *kern;
    unsigned bits;
    const float *table; /* pith_viterbi_table()'s */
};

/* What all windows say, [PITH_TRELLIS_STATES] in the order of pith_trellis_step_fn. */
void pith_viterbi_table(enum pith_trellis_code code, unsigned bits, float *table);
/* Scratch bytes of a thread. */
size_t pith_viterbi_bytes(unsigned bits);
/* The windows of a tile whose weights, in the order of the walk, are x[PITH_TRELLIS_WEIGHTS],
 * finite; the same for any kernels. scratch is aligned to 64 bytes. */
void pith_viterbi_walk(const struct pith_viterbi *v, const float *x, void *scratch,
                       uint16_t window[PITH_TRELLIS_WEIGHTS]);

#endif
