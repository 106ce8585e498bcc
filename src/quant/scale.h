/* quant/scale.h: stage 3, the grid: where the representable values of one group of weights lie.
 *
 * Integer grids, b bits, stored codes u in 0..2^b-1:
 *   symmetric   scale = 2 max|w| / (2^b - 1), zero = 2^(b-1)        (GPTQ's and compressed-tensors' rule)
 *   asymmetric  lo = min(w, 0), hi = max(w, 0), scale = (hi - lo) / (2^b - 1), zero = round(-lo / scale)
 *   mse         the range is shrunk by p = 1 - i/100, i = 0..79, and the p with the least sum of
 *               |w - q|^2.4 is kept (GPTQ's search)
 * The scale is rounded to the dtype that will be stored *before* codes are chosen, so what is judged is
 * what is stored. A group of zeros gets scale 1. A scale that would underflow to 0 in that dtype becomes
 * its smallest normal number. */
#ifndef PITH_QUANT_SCALE_H
#define PITH_QUANT_SCALE_H

#include "num/grid.h"
#include "num/qmat.h"

/* One way to place a grid; kinds of formats differ. Row of quant/grids.def. */
struct pith_gridder {
    const char *name;
    const char *summary;
    enum pith_format_kind kind;
    /* Scale and zero point for n weights (stride in elements between them). */
    void (*fit)(const struct pith_grid *grid, enum pith_dtype scale_dtype, const float *w, size_t n,
                size_t stride, float *scale, float *zero);
    /* Code of one weight, ties to even, clamped to the grid. */
    uint8_t (*encode)(const struct pith_format *f, float w, float scale, float zero);
};
const struct pith_gridder *const *pith_gridders(size_t *count);
/* The gridder for a grid; NULL when this version has none for its format. */
const struct pith_gridder *pith_gridder_for(const struct pith_grid *grid);

/* Fits every scale (and zero) of q from w[rows][cols] (q->g_idx NULL). */
void pith_fit_scales(const struct pith_grid *grid, const float *w, struct pith_qmat *q);

#endif
