/* quant/grid/hqq.h: the half-quadratic zero point before it is rounded to a dtype. */
#ifndef PITH_QUANT_GRID_HQQ_H
#define PITH_QUANT_GRID_HQQ_H

#include "quant/grid/line.h"

/* The zero point that the iterations of quant/grid/hqq.c reach from `zero`, for codes 0..top. */
float pith_hqq_zero(const struct pith_weights *x, float scale, float top, float zero);

#endif
