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
    /* With HESSIAN, DRIFT and SQUARES: a separate one for each group of each linear's rows, in
     * which a token counts by how much the model's loss feels what those rows give (calib/guide.h).
     * */
    PITH_NEED_GUIDED = 32,
    /* With GUIDED: what the model's loss feels of pairs of a linear's outputs. */
    PITH_NEED_OUTPUTS = 128,
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
    /* Of one linear: the mean over tokens of g g^T |x|^2, g the gradient of the model's loss at its
     * outputs, in blocks of `output_block` along the diagonal (pith_outputs_of()); all 0: nothing
     * was felt. Not the statistics' own. */
    const float *outputs;
    /* [rows], what the matrix's rows have been divided by since g was found, so that g is that
     * many times larger; NULL: 1. Not the statistics' own. */
    const float *outputs_by;
    uint32_t output_block;
    uint32_t views; /* 1; guided: the linears of the site times the groups of their rows */
};

/* The first row of group `group` of a matrix's rows, of `groups`; that of group `groups` is rows.
 */
static inline uint32_t pith_rows_from(uint32_t groups, uint32_t group, uint32_t rows)
{
    return (uint32_t)((uint64_t)rows * group / groups);
}

/* So many outputs, rounded up to whole tiles of rows. */
static inline uint32_t pith_output_block(uint32_t outputs)
{
    return (outputs + 63) / 64 * 64;
}

/* Where in memory the block of outputs is that begins with row `first`, n rows, as [n][n]; with
 * `first` the number of rows: how many floats there are. */
static inline size_t pith_outputs_at(uint32_t rows, uint32_t block, uint32_t first)
{
    return (size_t)first * (rows < block ? rows : block);
}
/* Guided, groups of rows have separate blocks: where those of group `group` of all rows begin; of
 * group `groups`: how many floats there are. */
static inline size_t pith_outputs_of(uint32_t rows, uint32_t block, uint32_t groups, uint32_t group)
{
    size_t floats = 0;
    for (uint32_t g = 0; g < group; g++) {
        const uint32_t n = pith_rows_from(groups, g + 1, rows) - pith_rows_from(groups, g, rows);
        floats += pith_outputs_at(n, block, n);
    }
    return floats;
}

#endif
