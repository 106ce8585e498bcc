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
    PITH_NEED_RANGE = 16   /* the smallest and the largest x_j, 0 inside */
};

/* Only what was needed is non-NULL. x is [dim] a token. */
struct pith_stats {
    uint32_t dim;
    uint64_t tokens; /* that the averages are over */
    float *absmean;  /* [dim] */
    float *squares;  /* [dim] */
    float *lo, *hi;  /* [dim] */
    float *samples;  /* [sample_count][dim] */
    size_t sample_count;
    float *hessian; /* [dim][dim], symmetric */
};

#endif
