/* quant/round/column_order.h: the order in which GPTQ and trellises with feedback take columns. A
 * recipe's `act_order` says whether they are sorted at all (quant/round.h). */
#ifndef PITH_QUANT_ROUND_COLUMN_ORDER_H
#define PITH_QUANT_ROUND_COLUMN_ORDER_H

#include "base/status.h"

#include <stdint.h>

/* perm[n]: the columns by decreasing diagonal of the Hessian h[n][n]. Runs of `width`, which
 * divides n, stay together in their order and go by their largest; of equal ones the first comes
 * first. Nothing leaves its block of `block` columns, a multiple of width; n: one block. */
enum pith_status pith_column_order(const float *h, uint32_t n, uint32_t width, uint32_t block,
                                   uint32_t *perm, struct pith_error *err);

#endif
