/* num/gguf/kmat.h: whole matrices between GGUF's blocks and the form that the program computes
 * with. A matrix of [rows][cols] is rows one after another, each cols / t->elements blocks. */
#ifndef PITH_NUM_GGUF_KMAT_H
#define PITH_NUM_GGUF_KMAT_H

#include "num/gguf/kquant.h"
#include "num/qmat.h"

/* Bytes of such a matrix; 0 when cols are no multiple of a block, SIZE_MAX when the size does not
 * fit. */
size_t pith_kmat_bytes(const struct pith_kquant *t, uint32_t rows, uint32_t cols);

/* Gives q, which is on one of GGUF's types, the scales of block `at` of a row. */
void pith_kmat_set_scales(struct pith_qmat *q, uint32_t row, uint32_t at,
                          const struct pith_kblock *b);

/* Makes q, which the caller frees, from blocks of pith_kmat_bytes(). global: what NVFP4's values
 * are multiplied by besides; 1 for the other types. W is what ggml computes, to the bit (but for
 * the sign of a zero of the FP4 types). PITH_ARG when cols are no multiple of a block; PITH_FORMAT
 * names the row and block whose scale is not a number. On failure *q owns nothing. */
enum pith_status pith_kmat_unpack(const struct pith_kquant *t, const uint8_t *blocks, uint32_t rows,
                                  uint32_t cols, float global, struct pith_qmat *q,
                                  struct pith_error *err);

/* Rows [row, row + n) of q as blocks, without loss (q->global is not in them).
 * PITH_UNSUPPORTED when the type cannot hold the matrix, or one of its scales. */
enum pith_status pith_kmat_pack(const struct pith_kquant *t, const struct pith_qmat *q,
                                uint32_t row, uint32_t n, uint8_t *blocks, struct pith_error *err);

#endif
