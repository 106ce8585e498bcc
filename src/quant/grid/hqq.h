/* quant/grid/hqq.h: the half-quadratic zero point before it is rounded to a dtype. */
#ifndef PITH_QUANT_GRID_HQQ_H
#define PITH_QUANT_GRID_HQQ_H

#include "quant/grid/line.h"

/* Where the turns that quant/grid/hqq.c describes lead from `zero`, for codes 0..top. */
float pith_hqq_zero(const struct pith_weights *x, float scale, float top, float zero);

#endif
