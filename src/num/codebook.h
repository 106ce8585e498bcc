/* num/codebook.h: blocks of codebook formats (nf4, bnb_fp4) with one float scale each, and the
 * quantization of those scales, "double quantization", as bitsandbytes does both. */
#ifndef PITH_NUM_CODEBOOK_H
#define PITH_NUM_CODEBOOK_H

#include "num/format.h"

/* The sixteen levels of a 4-bit codebook in ascending order, the code of each, and where a value
 * leaves one for the next: it takes level k + 1 as soon as it exceeds threshold k. The format's
 * encode() and decode() say the same. */
enum { PITH_BOOK_LEVELS = 16 };
struct pith_codebook {
    float threshold[PITH_BOOK_LEVELS - 1], level[PITH_BOOK_LEVELS];
    uint8_t code[PITH_BOOK_LEVELS];
};
/* f is one of the codebook formats that have encode(). */
const struct pith_codebook *pith_codebook_of(const struct pith_format *f);

/* Codes (one a byte) and largest magnitude of a block: code of x / absmax, where the division is
 * a product with the rounded reciprocal. A block with a NaN or an infinity gets absmax NaN, so
 * that it stays visible. */
void pith_codebook_encode(const struct pith_format *f, const float *x, size_t n, uint8_t *codes,
                          float *absmax);
/* level(code) * absmax. */
void pith_codebook_decode(const struct pith_format *f, const uint8_t *codes, size_t n, float absmax,
                          float *out);

enum { PITH_DOUBLE_QUANT_BLOCK = 256 };

/* The 256 ascending levels of the second quantization: a signed map whose resolution falls with
 * the decade, 2^i points in [10^(i-7), 10^(i-6)) for i = 0..6, both signs, and 0 and 1. */
void pith_dynamic_map(float map[256]);

/* Quantizes the n (at least 1) scales of a tensor. *offset is their mean; codes[n] index the
 * map; nested receives the largest distance to the mean in each run of 256, ceil(n / 256)
 * values. */
void pith_double_quant_encode(const float *absmax, size_t n, uint8_t *codes, float *nested,
                              float *offset);
/* absmax[i] = map[codes[i]] * nested[i / 256] + offset. */
void pith_double_quant_decode(const uint8_t *codes, const float *nested, float offset, size_t n,
                              float *absmax);

#endif
