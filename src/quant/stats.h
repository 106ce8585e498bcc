/* quant/stats.h: what a stage may ask to know about a site's inputs. calib/ gathers exactly the
 * union of what the recipe's stages need. */
#ifndef PITH_QUANT_STATS_H
#define PITH_QUANT_STATS_H

#include <stddef.h>
#include <stdint.h>

enum pith_needs {
    PITH_NEED_ABSMEAN = 1, /* mean over tokens of |x_j| */
    PITH_NEED_SAMPLES = 2, /* some of the input vectors themselves */
    PITH_NEED_HESSIAN = 4, /* 2 X X^T / n */
    PITH_NEED_SQUARES = 8, /* mean over tokens of x_j^2 */
    PITH_NEED_RANGE = 16,  /* the smallest and the largest x_j, 0 inside */
    /* With HESSIAN, DRIFT and SQUARES: one of its own for each group of each linear's rows, in
     * which a token counts by how much the model's loss feels what those rows give (calib/guide.h).
     */
    PITH_NEED_GUIDED = 32,
    PITH_NEED_DRIFT = 64 /* 2 (X' - X) X^T / n, X' the inputs in the model as it was; guided too */
};

/* Only what was needed is non-NULL. x is [dim] a token. */
struct pith_stats {
    uint32_t dim;
    uint64_t tokens; /* that the averages are over */
    float *absmean;  /* [dim] */
    float *squares;  /* [dim]; guided: [views] of these, linear by linear */
    float *lo, *hi;  /* [dim] */
    float *samples;  /* [sample_count][dim] */
    size_t sample_count;
    float *hessian; /* [dim][dim], symmetric; guided: [views] of these */
    float *drift;   /* like the Hessians, not symmetric */
    uint32_t views; /* 1; guided: the linears of the site times the groups of their rows */
};

/* The first row of group `group` of a matrix's rows, of `groups`; that of group `groups` is rows.
 */
static inline uint32_t pith_rows_from(uint32_t groups, uint32_t group, uint32_t rows)
{
    return (uint32_t)((uint64_t)rows * group / groups);
}

#endif
