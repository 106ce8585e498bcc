/* num/gaussian.h: the quantizer of least squared error for normally distributed numbers (Max 1960,
 * Lloyd 1982), which is what a coordinate of a vector is after a rotation that knows nothing of it.
 *
 * TurboQuant (Zandieh et al. 2025): a row's norm is stored, and of each element the nearest of
 * 2^bits levels for a variance of 1; x' = level * norm / sqrt(n). */
#ifndef PITH_NUM_GAUSSIAN_H
#define PITH_NUM_GAUSSIAN_H

#include <stddef.h>
#include <stdint.h>

/* Its levels, ascending; bits is 2, 3 or 4, NULL for another. They are symmetric about 0. */
const float *pith_gaussian_levels(unsigned bits);
/* sqrt(mean of x^2), summed in double, in the form of half precision: what levels are multiplied
 * by. NaN when a value is not finite, 65504 at most. */
float pith_gaussian_scale(const float *x, size_t n);
/* The codes of x / scale, upwards from the lowest level; ties to the lower. A scale of 0: 0. */
void pith_gaussian_encode(unsigned bits, float scale, const float *x, size_t n, uint8_t *codes);

#endif
