/* num/format.h: number formats: how bits encode one value. One row of num/formats.def is one
 * format; the quantizer, the containers, the planner and the KV cache all read that row.
 *
 * Element formats encode single values (f32, bf16, fp8_e4m3, fp4_e2m1, int4, nf4, e8m0, ...).
 * Block formats (mxfp8, mxfp6, mxfp4, nvfp4) pair an element format with a scale format shared
 * by `block` consecutive elements: OCP Microscaling Formats 1.0; NVFP4 adds one f32 scale for
 * the whole tensor. GGUF's (q4_k, ...) have scales in one or two levels, and some minimums. */
#ifndef PITH_NUM_FORMAT_H
#define PITH_NUM_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pith_format_kind {
    PITH_KIND_FLOAT,    /* sign, exponent, mantissa; or E8M0 */
    PITH_KIND_INT,      /* two's complement; asymmetric use shifts it by a zero point */
    PITH_KIND_CODEBOOK, /* 2^bits arbitrary levels: nf4, bitsandbytes' fp4 */
    PITH_KIND_LEVELS,   /* 2^bits levels of each row's own; decode() gives their number */
    PITH_KIND_TRELLIS,  /* walks through a trellis, bits a weight: num/trellis.h */
    PITH_KIND_BLOCK,    /* elements of `element` with one `scale` a block */
    PITH_KIND_GGUF      /* the same with scales as in num/gguf/kquant.h, by the format's name */
};

struct pith_codec;

struct pith_format {
    uint16_t id;           /* pinned; may be stored */
    const char *name;      /* "fp8_e4m3": the name in GRID strings */
    const char *aliases;   /* names that others use, lower case, space between, or "" */
    const char *summary;   /* one line for `pith formats` */
    enum pith_format_kind kind;
    uint8_t bits;          /* a code's width, for blocks the element's */
    uint8_t exponent_bits, mantissa_bits; /* floats only */
    float max;             /* largest value (ints: 2^(b-1)-1; blocks: the element's) */
    uint16_t block;        /* elements that share a scale; 1 for element formats */
    const char *element;   /* block formats: names of the element and scale formats, else NULL */
    const char *scale;
    /* Value of a code (upper bits ignored); NaN and Inf where the format has them. NULL for
     * blocks and trellises. */
    float (*decode)(uint32_t code);
    /* Nearest code, ties to even code, saturating to the ends of the finite range (also for
     * +-Inf); NaN encodes NaN where the format has one, else what is nearest to zero. Codebooks:
     * bitsandbytes' rule, a value on a threshold takes the level nearer to the lower end (nf4) or
     * to zero (bnb_fp4). e8m0: a tie takes the larger power, 2^-127 stands for zero, NaN for
     * negative values. NULL for blocks and trellises. */
    uint32_t (*encode)(float x);
    /* How a matrix on it is read, num/codec.h; NULL: none is stored in it (blocks are in their
     * element's), of more than 8 bits. */
    const struct pith_codec *codec;
};

/* All rows, in order of id; *count receives their number. */
const struct pith_format *pith_formats(size_t *count);
/* By name or alias (case-insensitive); NULL when unknown. */
const struct pith_format *pith_format_find(const char *name);
/* By pinned id; NULL when unknown. */
const struct pith_format *pith_format_by_id(uint16_t id);
/* Bits a weight costs with a block's scale counted: 4.25 for mxfp4, 4.5 for nvfp4, bits for the
 * others. */
double pith_format_bits(const struct pith_format *f);

/* Plain storage types of tensors: what safetensors calls a dtype. */
enum pith_dtype {
    PITH_BOOL, PITH_F4, PITH_F6_E2M3, PITH_F6_E3M2, PITH_U8, PITH_I8, PITH_F8_E5M2, PITH_F8_E4M3,
    PITH_F8_E8M0, PITH_F8_E4M3FNUZ, PITH_F8_E5M2FNUZ, PITH_I16, PITH_U16, PITH_F16, PITH_BF16,
    PITH_I32, PITH_U32, PITH_F32, PITH_C64, PITH_F64, PITH_I64, PITH_U64, PITH_DTYPE_COUNT
};
/* "BF16"; never NULL for a value below PITH_DTYPE_COUNT. The order above is the order that the
 * reference safetensors writer sorts by. */
const char *pith_dtype_name(enum pith_dtype t);
/* Bits of one element, 4 to 64; 0 for a value that is no dtype. */
unsigned pith_dtype_bits(enum pith_dtype t);
/* False when the name is unknown. */
bool pith_dtype_find(const char *name, enum pith_dtype *out);

/* Single values. Narrowing rounds to nearest even; overflow gives infinity, as IEEE 754 says. */
float pith_f16_to_f32(uint16_t h);
uint16_t pith_f32_to_f16(float x);
float pith_bf16_to_f32(uint16_t h);
uint16_t pith_f32_to_bf16(float x);
/* x rounded to what dtype F16, BF16 or F32 can hold; other dtypes return x. */
float pith_round_to(enum pith_dtype t, float x);

/* n values of dtype F32, F16, BF16 or F64, unaligned, to f32. False for another dtype. */
bool pith_dtype_decode(enum pith_dtype t, const void *src, size_t n, float *dst);
/* The reverse, to F32, F16 or BF16. */
bool pith_dtype_encode(enum pith_dtype t, const float *src, size_t n, void *dst);

/* The zero point of codes without a stored one: codes of integers count from their middle,
 * 2^(bits - 1), the values of all others from 0. The whole tree has this rule from here. */
static inline unsigned pith_format_middle(const struct pith_format *f)
{
    return f->kind == PITH_KIND_INT ? 1u << (f->bits - 1) : 0;
}

/* Whether a format brings its own blocks with it, and their scales. */
static inline bool pith_format_has_blocks(const struct pith_format *f)
{
    return f->kind == PITH_KIND_BLOCK || f->kind == PITH_KIND_GGUF;
}

#endif
