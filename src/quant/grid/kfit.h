/* quant/grid/kfit.h: the scales of one of GGUF's blocks, for least squared error. */
#ifndef PITH_QUANT_GRID_KFIT_H
#define PITH_QUANT_GRID_KFIT_H

#include "num/gguf/kquant.h"
#include "quant/scale.h"

/* Scales, offsets, d and dmin of *out for t->elements weights, side by side, so that the sum of
 * importance * (w - value)^2 over all is small when each weight then takes its nearest code.
 * importance is not negative; NULL: all count alike. Each scale is one that the type can hold, or
 * not finite when a weight is not, or too large for it. kern: the CPU's kernels, which give the
 * same bits; NULL: the scalar ones. */
void pith_kfit(const struct pith_kquant *t, const struct pith_kern *kern, const float *w,
               const float *importance, struct pith_kblock *out);

/* Nearest codes of an element format under any scales, also negative ones, and offsets. */
void pith_kfit_round(const struct pith_format *f, const struct pith_grid_line *line);

#endif
