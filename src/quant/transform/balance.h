/* quant/transform/balance.h: scales s of the inputs' columns at which products of x / s and w s
 * are expected to lose least when both are rounded to integers. Only transforms call it.
 *
 * Values that share a step err by a variance of step^2 / 12 each, and the step is their largest
 * magnitude times a constant. With errors that are independent of each other, the squared error of
 * all outputs is, but for that 1/12,
 *
 *     e^2 sum over blocks of columns of [sum over rows of max (v_rc f_c)^2] [sum over c of p_c]
 *
 * for each operand: v its rows, f_c = 1 / s_c for inputs and s_c for weights, e its step at a
 * largest magnitude of 1, p_c the other operand's sum of squares in column c, scaled too. That is
 * sums and maxima of exponentials of log s, so convex in it: whatever descends finds the one least
 * value. */
#ifndef PITH_QUANT_TRANSFORM_BALANCE_H
#define PITH_QUANT_TRANSFORM_BALANCE_H

#include "base/pool.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct pith_balance_side {
    const float *magnitude; /* [rows][dim], finite, not negative */
    size_t rows;
    size_t span; /* columns of a row that share a step; the last block may be shorter */
    double each; /* e^2, times how many rows each of them stands for; 0: rounding is no loss */
};

/* Side 0 is the inputs, the others are the matrices that read them. */
struct pith_balance {
    struct pith_pool *pool;
    size_t dim, sides;
    const struct pith_balance_side *side;
    const double *inputs;  /* [dim] sums of squares of the inputs' columns */
    const double *weights; /* [dim] of all matrices together */
    const size_t *first;   /* [dim] the column whose scale this one has; itself where not tied */
};

/* s[dim], which holds where to begin, becomes the best found; *loss that sum there, never more than
 * at the beginning. The same bytes for any thread count. PITH_NOMEM. */
enum pith_status pith_balance(const struct pith_balance *b, float *s, double *loss,
                              struct pith_error *err);
/* What that takes with this pool; `steps`: the most rows times blocks that a side has. */
uint64_t pith_balance_bytes(const struct pith_pool *pool, size_t dim, size_t steps);
/* So many blocks has a row. */
static inline size_t pith_balance_blocks(size_t dim, size_t span)
{
    return (dim + span - 1) / span;
}

#endif
