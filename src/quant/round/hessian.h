/* quant/round/hessian.h: what is looked at in a Hessian before it is factored. */
#ifndef PITH_QUANT_ROUND_HESSIAN_H
#define PITH_QUANT_ROUND_HESSIAN_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* PITH_NUMERIC when h[n][n] holds a value that is not finite, or a negative one on its diagonal. */
enum pith_status pith_hessian_check(const float *h, size_t n, struct pith_error *err);

/* perm[n]: the columns by decreasing diagonal. Runs of `width`, which divides n, stay together in
 * their order and go by their largest; of equal ones the first comes first. Nothing leaves its
 * block of `block` columns, a multiple of width; n: one block. */
enum pith_status pith_hessian_order(const float *h, uint32_t n, uint32_t width, uint32_t block,
                                    uint32_t *perm, struct pith_error *err);

#endif
