/* num/block.h: one block of a block format: elements that share a scale. Scalar code that
 * defines what MXFP8, MXFP6, MXFP4 and NVFP4 mean; faster versions are compared with it. */
#ifndef PITH_NUM_BLOCK_H
#define PITH_NUM_BLOCK_H

#include "num/format.h"

/* Microscaling, OCP MX 1.0: value = element * 2^(scale - 127).
 *
 * The scale of n values (n up to f->block, f one of the mx formats) by the specification's rule:
 * the exponent of the largest magnitude less the exponent of the element format's largest value,
 * so that the largest element falls into the top binade, where it may saturate. Zeros and what
 * lies too low get 2^-127; a block with a NaN or an infinity gets the NaN scale, 255. */
uint8_t pith_mx_scale(const struct pith_format *f, const float *x, size_t n);

/* Element codes, one a byte, for a given scale: x / 2^(scale - 127) to nearest even, saturating.
 * All zero under the NaN scale. */
void pith_mx_encode(const struct pith_format *f, const float *x, size_t n, uint8_t scale,
                    uint8_t *codes);

/* The values. Products above the range of float32 become infinite; under the NaN scale all are
 * NaN. */
void pith_mx_decode(const struct pith_format *f, const uint8_t *codes, size_t n, uint8_t scale,
                    float *out);

/* NVFP4: value = (element * scale) * global, with an E4M3 scale a block of 16 and one float32 a
 * tensor (ModelOpt's weight_scale_2; compressed-tensors stores its inverse).
 *
 * The global scale of a tensor with that largest magnitude: amax / (6 * 448), with which the
 * largest block scale is 448; 1 when amax is 0, or so small that the quotient is not a normal
 * number. */
float pith_nvfp4_global(float amax);

/* Engines disagree on which of the two is stored, the factor (ModelOpt, GGUF) or a divisor
 * (compressed-tensors), and float32 has no inverse of most numbers. This gives the smallest factor
 * from `global` on for which there is a divisor such that scale * factor == scale / divisor for
 * every E4M3 scale, to the bit: a matrix on it means the same in all files. It is larger by some
 * units in the last place; global itself when there is none near. */
float pith_nvfp4_twin(float global);
/* That divisor: the inverse of a factor that pith_nvfp4_twin() gave; of others about so. */
float pith_nvfp4_divisor(float global);

/* The E4M3 code of the scale of n values: amax / (6 * global) to nearest even, clamped to
 * 2^-9..448, so that it is never 0. A block with a NaN gets the NaN scale, 0x7f. */
uint8_t pith_nvfp4_scale(const float *x, size_t n, float global);

/* Element codes, one a byte, of x / (scale * global): formed with the scale as it was rounded. */
void pith_nvfp4_encode(const float *x, size_t n, float global, uint8_t scale, uint8_t *codes);

/* The values. element * scale is exact, its product with global is rounded once. */
void pith_nvfp4_decode(const uint8_t *codes, size_t n, float global, uint8_t scale, float *out);

#endif
