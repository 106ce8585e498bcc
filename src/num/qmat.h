/* num/qmat.h: a quantized matrix in memory, the one form that every container is read into and
 * written from, that rounding produces and that the forward pass reads.
 *
 *     W[r][c] = (value(r, c) - zero[R][g]) * scale[R][g] + offset[R][g] + sparse[r][c],
 *     R = r / row_group,  g = g_idx ? g_idx[c] : c / group
 *
 * formed in float32 in that order. There are four parts; the last two may be missing:
 *
 * 1. Codes, rows x stride bytes. The format's codec (num/codec.h) says what value() is and how many
 *    columns a code stands for: code i of a row, of the columns from i * span on, sits at bits
 *    [i*b, i*b+b) of that row's LE bit stream, LSB first; unused bits are 0. `levels` is the table
 *    that codes are looked up in, where the codec has one, or of the columns' factors.
 * 2. Scales, [ceil(rows / row_group)][groups] float32, each exactly representable in scale_dtype
 *    (for NVFP4: times global), and what codes count from, pith_qmat_zero(): zeros where they are
 *    stated, or 0 with offsets, or the format's middle (a symmetric grid states none). Offsets
 *    are GGUF's minimums, negated, or of a grid with hqq -z * scale for zero points z that are any
 *    numbers of scale_dtype: exact when that has 16 bits. What the scales were made of is stored
 *    with them: `nested` where they were quantized again, `gguf` where they are that type's, with
 *    `outer` where it has two levels (scale = d * integer, offset = -dmin * integer).
 * 3. Weights off the grid, `sparse`.
 * 4. The order of columns, g_idx.
 *
 * A block format (mxfp4, nvfp4, ...) is stored as its element format in groups of the block, with
 * scales of the block's dtype. */
#ifndef PITH_NUM_QMAT_H
#define PITH_NUM_QMAT_H

#include "base/status.h"
#include "num/codec.h"
#include "num/format.h"
#include "num/gguf/kquant.h"
#include "num/grid.h"

struct pith_pack;

/* Whose arithmetic the rounding of inputs follows, where they differ: num/input.h. */
enum pith_input_rule { PITH_INPUT_CT, PITH_INPUT_BNB, PITH_INPUT_MODELOPT };

/* What is done to a linear's input before the product: x is multiplied by a Hadamard matrix in
 * blocks, then rounded to a grid (num/input.h). All zero: nothing. */
struct pith_input {
    struct pith_grid grid; /* format NULL: not rounded */
    float scale;           /* static grids: the scale; nvfp4: its scale of the tensor */
    float zero;            /* static asymmetric grids: the zero point, in unsigned codes */
    float threshold;   /* > 0, LLM.int8(): columns of a call with a larger |x| are not rounded */
    uint32_t hadamard; /* > 1: width of the blocks */
    enum pith_input_rule rule;
    enum pith_dtype scale_dtype; /* F16 or BF16: what a dynamic scale is rounded to; else nothing */
};
/* Equal in everything that what is computed depends on. */
bool pith_input_equal(const struct pith_input *a, const struct pith_input *b);

/* Weights off the grid: of row r, those at [start[r], start[r + 1]), columns ascending. One
 * allocation. */
struct pith_sparse {
    uint32_t *start; /* [rows + 1] */
    uint32_t *col;   /* [start[rows]] */
    float *value;    /* likewise; F16 holds each */
};
/* How many weights of a matrix are that percentage: to the nearest, at most all. */
size_t pith_sparse_count(uint32_t rows, uint32_t cols, double percent);
/* Bytes of so many weights. */
size_t pith_sparse_bytes(uint32_t rows, size_t count);
/* Room for `count` weights, zeroed. On failure NULL. */
struct pith_sparse *pith_sparse_new(uint32_t rows, size_t count);
/* NULL is allowed. */
void pith_sparse_free(struct pith_sparse *s);
/* To the bit; NULL equals NULL alone. */
bool pith_sparse_equal(const struct pith_sparse *a, const struct pith_sparse *b, uint32_t rows);
/* PITH_FORMAT when columns are out of order or range, or a value is not finite. start[rows] is what
 * was allocated. */
enum pith_status pith_sparse_check(const struct pith_sparse *s, uint32_t rows, uint32_t cols,
                                   struct pith_error *err);

/* Scales that were quantized again ("double quantization", num/codebook.h), for containers that
 * store them so. One allocation. */
struct pith_nested {
    uint8_t *code; /* [scales] */
    float *absmax; /* [ceil(scales / 256)] */
    float offset;
};

/* A matrix without its numbers: what its form and its sizes are decided by. */
struct pith_qspec {
    uint32_t rows, cols;
    struct pith_grid grid;
    enum pith_dtype scale_dtype; /* not looked at for block formats, which have their own */
    size_t outliers;             /* weights off the grid */
    bool ordered;                /* each column says its group */
};
/* Bytes of such a matrix in memory (what memory estimates use); 0 when there is none on that grid,
 * SIZE_MAX when the size does not fit. */
size_t pith_qspec_bytes(const struct pith_qspec *s);
/* Bits per weight with scales and offsets (of scale_dtype), zeros (of the format's bits), g_idx
 * (32), levels (16) and sparse weights (16 and 32 for the column, 32 a row) counted; 0 when there
 * is no such matrix. */
double pith_qspec_bits(const struct pith_qspec *s);

struct pith_outer {
    float d, dmin;
};

#define PITH_ALL_ROWS UINT32_MAX

struct pith_qmat {
    uint32_t rows, cols;

    const struct pith_format *format; /* element format, which has a codec */
    size_t stride;                    /* bytes of codes a row */
    uint8_t *codes;                   /* owned unless borrowed; so are all parts below */
    bool borrowed;                    /* codes belong to another, and are only read */
    float *levels;                    /* NULL: the codec has no table */

    uint32_t row_group; /* rows a scale covers: 1, a block's, or PITH_ALL_ROWS */
    uint32_t group;     /* columns a scale covers; cols when per channel or tensor */
    uint32_t groups;    /* ceil(cols / group) */
    enum pith_dtype scale_dtype;
    /* A factor within every scale, 1 for most: NVFP4's; of floats by tensor that share their scale
     * with other matrices, that scale before it was rounded. */
    float global;
    float *scales;
    uint8_t *zeros; /* like the scales; one of zeros and offsets, or none */
    float *offsets;
    struct pith_nested *nested; /* one of nested and gguf, or none */
    const struct pith_kquant *gguf;
    struct pith_outer *outer; /* [rows][cols / 256], or NULL */

    struct pith_sparse *sparse; /* NULL: none */
    uint32_t *g_idx;            /* [cols], each below groups; NULL: c / group */
    struct pith_input input;
};

/* Allocates codes, scales, what they count from, and the codec's table, all zeroed.
 * group 0 means cols; a group above cols makes one group. scale_dtype is not looked at for block
 * formats, which have their own. On failure *q owns nothing. PITH_ARG when a size is 0 or too
 * large, the format has no codes of at most 8 bits, scales go by token, asym is not of integers,
 * cols are no multiple of a block of GGUF's, or rows or cols none of the codec's side. */
enum pith_status pith_qmat_init(struct pith_qmat *q, uint32_t rows, uint32_t cols,
                                const struct pith_grid *grid, enum pith_dtype scale_dtype,
                                struct pith_error *err);
/* Frees q's codes and reads others instead, of the same layout: they must outlive q and are not
 * changed through it. */
void pith_qmat_borrow(struct pith_qmat *q, const uint8_t *codes);
/* Room for the scales of q. On failure NULL. */
struct pith_nested *pith_nested_new(const struct pith_qmat *q);
/* Quantizes q's scales again: q->nested keeps their codes, q->scales become what these stand for.
 * On failure (PITH_NOMEM) q is as before. */
enum pith_status pith_qmat_nest_scales(struct pith_qmat *q, struct pith_error *err);
/* Frees what q owns and zeroes it. */
void pith_qmat_free(struct pith_qmat *q);

/* pith_qspec_bytes() of what init makes, with nested scales where the grid has them. */
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

/* Index of the scale (and zero, and offset) of a row and group. */
static inline size_t pith_qmat_scale_index(const struct pith_qmat *q, uint32_t row, uint32_t group)
{
    return (size_t)(row / q->row_group) * q->groups + group;
}
/* The zero of the scale with that index: what is stated, 0 with offsets, else the format's. */
static inline float pith_qmat_zero(const struct pith_qmat *q, size_t index)
{
    if (q->zeros) return (float)q->zeros[index];
    return q->offsets ? 0.0f : (float)pith_format_middle(q->format);
}
/* Codes of a row, and floats of the codec's table. */
static inline uint32_t pith_qmat_codes(const struct pith_qmat *q)
{
    return (uint32_t)pith_codec_codes(q->format->codec, q->cols);
}
static inline size_t pith_qmat_level_count(const struct pith_qmat *q)
{
    return (size_t)pith_codec_floats(q->format->codec, q->format->bits, q->rows,
                                     q->cols);
}
/* Rows of scales, and all scales. */
static inline uint32_t pith_qmat_scale_rows(const struct pith_qmat *q)
{
    return (q->rows - 1) / q->row_group + 1;
}
static inline size_t pith_qmat_scale_count(const struct pith_qmat *q)
{
    return (size_t)pith_qmat_scale_rows(q) * q->groups;
}
/* Two levels of scales: groups of a block, and what a row's block has that a group is in. */
static inline uint32_t pith_qmat_block_groups(const struct pith_qmat *q)
{
    return PITH_KBLOCK / q->group;
}
static inline struct pith_outer *pith_qmat_outer(const struct pith_qmat *q, uint32_t row,
                                                 uint32_t group)
{
    const uint32_t each = pith_qmat_block_groups(q);
    return q->outer + (size_t)row * (q->groups / each) + group / each;
}
static inline bool pith_qmat_per_tensor(const struct pith_qmat *q)
{
    return q->row_group == PITH_ALL_ROWS;
}

/* What a matrix may have in addition to codes, scales and whole zero points. */
enum pith_qmat_part { PITH_QMAT_OFFSETS = 1, PITH_QMAT_SPARSE = 2, PITH_QMAT_ORDER = 4 };
/* Those that q has; a g_idx that says c / group is no order. */
unsigned pith_qmat_parts(const struct pith_qmat *q);
/* The name of a part of q beyond `supported` for messages, or NULL: "permuted groups". */
const char *pith_qmat_beyond(const struct pith_qmat *q, unsigned supported);

/* Rows [row, row + n) as float32, n * cols values. The reference dequantization. */
void pith_qmat_decode(const struct pith_qmat *q, uint32_t row, uint32_t n, float *out);
/* Columns [col, col + n) of one row. */
void pith_qmat_decode_part(const struct pith_qmat *q, uint32_t row, uint32_t col, uint32_t n,
                           float *out);
/* The same for a caller that reads many parts of q, which must outlive the reader. */
void pith_reader_open(struct pith_reader *in, const struct pith_qmat *q);
void pith_reader_get(const struct pith_reader *in, uint32_t row, uint32_t col, uint32_t n,
                     float *out);

/* What pith_qspec_bytes() and pith_qspec_bits() need of q. */
struct pith_qspec pith_qmat_spec(const struct pith_qmat *q);

/* What decides how a matrix is packed: its form, and which parts it has. */
struct pith_qform {
    struct pith_qmat q; /* of a spec without any part */
    bool zeros, offsets, outer, ordered, sparse;
};
/* A matrix's own; the parts stay q's. */
struct pith_qform pith_qmat_form(const struct pith_qmat *q);
/* That of what pith_qmat_init() would make; false when there is no such matrix. */
bool pith_qspec_form(const struct pith_qspec *s, struct pith_qform *out);

/* The grid of q, as far as q has it; how scales were found is not known, and the scales of a
 * block format distinguish it from its elements'. A matrix of one group a row is by channel. */
struct pith_grid pith_qmat_grid(const struct pith_qmat *q);

/* pith_qspec_bits() of it. */
double pith_qmat_bits_per_weight(const struct pith_qmat *q);

/* Zero points that are not stored, since all are the middle, come to be stored, with `any` as
 * offsets: an integer format's; any other matrix, and one with offsets, stays as it is.
 * PITH_NOMEM. */
enum pith_status pith_qmat_state_zeros(struct pith_qmat *q, bool any, struct pith_error *err);

/* Equal in everything that the product depends on: the format, every code, every weight's scale,
 * zero and offset, levels, the sparse part and the input, to the bit. How scales are shared may
 * differ (g_idx NULL equals its identity, one scale equals many alike). */
bool pith_qmat_equal(const struct pith_qmat *a, const struct pith_qmat *b);

/* PITH_FORMAT when a scale, offset, level or sparse weight is not finite, a zero is out of range,
 * g_idx points past the groups, sparse columns are out of order or range, or a code (of FP8) means
 * NaN or infinity: what a reader calls on numbers that came from a
 * file. */
enum pith_status pith_qmat_check(const struct pith_qmat *q, struct pith_error *err);

/* One linear's matrix [rows=out, cols=in], in any form. */
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
