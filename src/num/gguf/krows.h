/* num/gguf/krows.h: one block of 32 values on GGUF's simple types by ggml's own rule, which is what
 * llama.cpp does to keys and values as they come (--cache-type-k q8_0): no search, one look at the
 * block. Weights are fitted by quant/grid/kquant.c instead, which searches.
 *
 * With v the value of largest magnitude (the first of them), all in float32, the inverse of d taken
 * before d is rounded to a half, 0 for a d of 0:
 *   q4_0, q5_0  d = v / -2^(b-1), u = trunc(x (1/d) + 2^(b-1) + 1/2), at most 2^b - 1
 *   q4_1, q5_1  m = min(x), d = (max(x) - m) / (2^b - 1), u = trunc((x - m) (1/d) + 1/2), at most
 *               2^b - 1
 *   q8_0        d = |v| / 127, q = x (1/d) to nearest, halves away from 0
 *   iq4_nl      codes of the levels nearest to x (-127 / v) (half-way: the upper), then d by least
 *               squares, each counting by x^2
 * Source: ggml/src/ggml-quants.c, the quantize_row functions that end in _ref. */
#ifndef PITH_NUM_GGUF_KROWS_H
#define PITH_NUM_GGUF_KROWS_H

struct pith_kblock;

/* x[32] to codes, scale[0] and offset[0], which are as a half holds them (maybe not finite, where
 * it cannot). A block with a value that is not finite becomes one with a scale of NaN. */
void pith_krow_q4_0(const float *x, struct pith_kblock *out);
void pith_krow_q4_1(const float *x, struct pith_kblock *out);
void pith_krow_q5_0(const float *x, struct pith_kblock *out);
void pith_krow_q5_1(const float *x, struct pith_kblock *out);
void pith_krow_q8_0(const float *x, struct pith_kblock *out);
void pith_krow_iq4_nl(const float *x, struct pith_kblock *out);

#endif
