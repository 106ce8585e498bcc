/* num/rowcode.h: a row of keys or values on a grid, as codes and scales: what num/input.h makes of
 * a row, stored instead of being computed with at once.
 *
 *     x'[c] = (value(code[c]) - zero[g]) * scale[g] + offset[g],  g = c / width
 *
 * each step rounded to float32; value() is code - middle for integers and a level for others. x' is
 * what pith_input_row() gives, to the bit but for the sign of zeros. A static scale takes no bytes,
 * others what their form (num/qmat.h's scale_dtype) takes: e8m0 of the mx formats, e4m3 of nvfp4,
 * f16 of GGUF's types and of groups of integers, bf16 of groups of floats, f32 of tokens. Zeros
 * take a byte, offsets a half. nvfp4 is ModelOpt's (PITH_INPUT_MODELOPT): its static scale
 * multiplies those of blocks. */
#ifndef PITH_NUM_ROWCODE_H
#define PITH_NUM_ROWCODE_H

#include "num/input.h"

enum { PITH_ROW_LEVELS = 256 };

/* What one group of a row has in addition to its codes. */
struct pith_row_scale {
    float scale, zero, offset;
};
struct pith_kv_kind;
struct pith_row_code;
/* x[cols] to codes[cols], a byte each, and of[groups]. `scale` is that of a static grid, or of the
 * head in question. */
typedef void pith_row_encode_fn(const struct pith_row_code *r, float scale, const float *x,
                                uint8_t *codes, struct pith_row_scale *of);
/* Codes and scales to x'[cols]. */
typedef void pith_row_decode_fn(const struct pith_row_code *r, const uint8_t *codes,
                                const struct pith_row_scale *of, float *x);

struct pith_row_code {
    pith_row_encode_fn *encode;      /* NULL: rows are not encoded one by one */
    pith_row_decode_fn *decode;      /* NULL: as above */
    const struct pith_kv_kind *kind; /* whose pages hold such rows (backend/cache/kinds.h); NULL:
                                        those of grids */
    struct pith_input in;   /* the rule; its scale, where it is static, comes with each call */
    uint32_t cols;          /* of a row */
    uint32_t width, groups; /* columns that share a scale, and how often there is one */
    uint32_t bits;          /* of a code, 2 to 8 */
    enum pith_dtype scale;  /* its form */
    uint32_t scale_bytes;   /* 0 where it is static */
    bool zeros, offsets;
    float beyond;       /* of its values */
    bool channels;      /* of keys: not columns of a row share these, but a column's neighbours */
    float middle;       /* of integers */
    const float *level; /* [2^bits] of other formats, borrowed; NULL: integers */
};

/* How rows of `cols` are stored on a grid; level[PITH_ROW_LEVELS] is filled in where it is needed
 * and must outlive *out. PITH_UNSUPPORTED for a grid whose rows cannot be stored one by one. */
enum pith_status pith_row_code_make(const struct pith_grid *grid, uint32_t cols, float *level,
                                    struct pith_row_code *out, struct pith_error *err);
/* The same for codes of num/gaussian.h. */
enum pith_status pith_row_code_gaussian(unsigned bits, uint32_t cols, float *level,
                                        struct pith_row_code *out, struct pith_error *err);
/* Bytes of a group's scale, zero and offset. */
static inline uint32_t pith_row_group_bytes(const struct pith_row_code *r)
{
    return r->scale_bytes + (r->zeros ? 1 : 0) + (r->offsets ? 2 : 0);
}
/* By r->encode, which must be there, and by r->decode: the reference of storing and of reading. */
void pith_row_encode(const struct pith_row_code *r, float scale, const float *x, uint8_t *codes,
                     struct pith_row_scale *of);
void pith_row_decode(const struct pith_row_code *r, const uint8_t *codes,
                     const struct pith_row_scale *of, float *x);
/* A group's numbers in pith_row_group_bytes() bytes, and back. */
void pith_row_scale_put(const struct pith_row_code *r, float scale, const struct pith_row_scale *of,
                        uint8_t *bytes);
struct pith_row_scale pith_row_scale_get(const struct pith_row_code *r, float scale,
                                         const uint8_t *bytes);

#endif
