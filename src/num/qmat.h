/* num/qmat.h: a quantized matrix in memory, the one form that every container is read into and
 * written from, that rounding produces and that the forward pass reads.
 *
 *     W[r][c] = (value(code[r][c]) - zero[r][g]) * scale[r][g],   g = g_idx ? g_idx[c] : c / group
 *
 * For int formats value(code) is the *unsigned* stored code u in 0..2^b-1 and zero is in the
 * same units: a symmetric grid has zero = 2^(b-1) everywhere and stores none. For other formats
 * value() is the format's decode and there is no zero. The product is formed in float32 and is
 * what pith computes with.
 *
 *     codes:  rows x stride bytes; code c of a row sits at bits [c*b, c*b+b) of that row's LE
 *             bit stream, LSB first; stride = ceil(cols * b / 8); unused bits are 0
 *     scales: [rows][groups] float32, each exactly representable in scale_dtype; per tensor: one
 *     zeros:  [rows][groups] uint8_t, or NULL */
#ifndef PITH_NUM_QMAT_H
#define PITH_NUM_QMAT_H

#include "base/status.h"
#include "num/format.h"
#include "num/grid.h"

struct pith_pack;

struct pith_qmat {
    uint32_t rows, cols;
    const struct pith_format *format; /* element format, bits <= 8 */
    bool per_tensor;                  /* one scale for all; groups == 1 then */
    uint32_t group;                   /* columns a scale covers; cols when per channel or tensor */
    uint32_t groups;                  /* ceil(cols / group) */
    size_t stride;                    /* bytes of codes a row */
    enum pith_dtype scale_dtype;
    float global;                     /* a factor within every scale (NVFP4's); 1 otherwise */
    uint8_t *codes;                   /* owned unless borrowed; the following are owned */
    bool borrowed;                    /* codes belong to another, and are only read */
    float *scales;
    uint8_t *zeros;                   /* NULL: symmetric, or not an integer format */
    uint32_t *g_idx;                  /* NULL: c / group */
};

/* Allocates codes, scales and, when asym, zeros, all zeroed. group 0 means cols; a group above
 * cols makes one group. On failure *q owns nothing. PITH_ARG when a size is 0 or too large, the
 * format has no codes of at most 8 bits (block formats have none), scales go by block or token,
 * or asym is not of integers. */
enum pith_status pith_qmat_init(struct pith_qmat *q, uint32_t rows, uint32_t cols,
                                const struct pith_grid *grid, enum pith_dtype scale_dtype,
                                struct pith_error *err);
/* Frees q's codes and reads others instead, of the same layout: they must outlive q and are not
 * changed through it. */
void pith_qmat_borrow(struct pith_qmat *q, const uint8_t *codes);
/* Frees what q owns and zeroes it. */
void pith_qmat_free(struct pith_qmat *q);

/* Bytes that pith_qmat_init() allocates for that shape (the number that memory estimates use); 0
 * when it would refuse the grid's format, SIZE_MAX when the size does not fit. */
size_t pith_qmat_bytes(uint32_t rows, uint32_t cols, const struct pith_grid *grid);

/* One row's codes, unpacked to a byte each / packed from a byte each. */
void pith_qmat_get_codes(const struct pith_qmat *q, uint32_t row, uint8_t *codes);
void pith_qmat_set_codes(struct pith_qmat *q, uint32_t row, const uint8_t *codes);
/* `count` codes of `bits` (1..8) from a little-endian bit stream, starting at code `first` (that
 * is, at bit first * bits), and back: the primitive of every dense packing. Touches no byte of
 * the stream that holds none of these codes; put keeps the bits outside the range and ignores
 * upper bits of a code. */
void pith_bits_get(const uint8_t *stream, size_t first, unsigned bits, size_t count,
                   uint8_t *codes);
void pith_bits_put(uint8_t *stream, size_t first, unsigned bits, size_t count,
                   const uint8_t *codes);

/* Index of the scale (and zero) of a row and group. */
static inline size_t pith_qmat_scale_index(const struct pith_qmat *q, uint32_t row, uint32_t group)
{
    return q->per_tensor ? 0 : (size_t)row * q->groups + group;
}

/* Rows [row, row + n) as float32, n * cols values. The reference dequantization. */
void pith_qmat_decode(const struct pith_qmat *q, uint32_t row, uint32_t n, float *out);

/* Bits per weight with scales (of scale_dtype), zeros (of the format's bits) and g_idx (32)
 * counted. */
double pith_qmat_bits_per_weight(const struct pith_qmat *q);

/* Equal in everything that W depends on: the format, every code, and every weight's scale and
 * zero, to the bit. How scales are shared may differ (g_idx NULL equals its identity, one scale
 * equals many alike). */
bool pith_qmat_equal(const struct pith_qmat *a, const struct pith_qmat *b);

/* PITH_FORMAT when a scale is not finite, a zero is out of range, g_idx points past the groups
 * or a code (of FP8) means NaN or infinity: what a reader calls on numbers that came from a
 * file. */
enum pith_status pith_qmat_check(const struct pith_qmat *q, struct pith_error *err);

/* One linear's matrix [rows=out, cols=in], in whatever form it is held. */
struct pith_weight {
    uint32_t rows, cols;
    enum pith_dtype dtype;         /* of `dense`: F32, F16, BF16 */
    const void *dense;             /* row-major, maybe unaligned, not owned; NULL when quantized */
    const struct pith_qmat *quant; /* not owned; NULL when dense or packed */
    const struct pith_pack *pack;  /* not owned: backend/pack.h's form for computing, or NULL */
};

/* Rows [row, row + n) of a matrix that is not packed, as float32. */
void pith_weight_decode(const struct pith_weight *w, uint32_t row, uint32_t n, float *out);

#endif
