/* num/kivi.h: KIVI's groups of a cache (Liu et al. 2024): 32 neighbours of a channel of keys, or 32
 * channels of a value, on 2^bits steps from the least of them to the greatest.
 *
 *     scale = (max - min) / (2^bits - 1),  code = clamp((x - min) / scale) rounded,
 *     x' = code * scale + min
 *
 * Numbers are halves and each step is rounded to one, ties to even, as the authors' code has it; x'
 * is float32, as their kernels compute it. */
#ifndef PITH_NUM_KIVI_H
#define PITH_NUM_KIVI_H

#include <stddef.h>
#include <stdint.h>

enum { PITH_KIVI_GROUP = 32 };

/* x[n] to codes[n] from 0 on, with the group's scale and least number, which are halves. What is
 * beyond half precision becomes its largest number; with a number that is not finite *least is NaN.
 * Codes are 0 where there is no range, or one below a half's. */
void pith_kivi_encode(unsigned bits, const float *x, size_t n, uint8_t *codes, float *scale,
                      float *least);

#endif
