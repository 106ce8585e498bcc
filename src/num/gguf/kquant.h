/* num/gguf/kquant.h: the tensor types of GGUF, block by block, as ggml defines them: every type
 * that this program reads and writes is one row of a table. A block is taken apart into the codes
 * and scales that struct pith_qmat holds, and put together again without loss. Facts: ggml's
 * ggml-common.h (layouts) and its dequantize_row functions (values). */
#ifndef PITH_NUM_GGUF_KQUANT_H
#define PITH_NUM_GGUF_KQUANT_H

#include "num/format.h"

enum { PITH_KBLOCK = 256, PITH_KSUBS = 16 };

/* One block taken apart; sub-block i is elements [i * sub, (i + 1) * sub). The value of element e:
 *
 *     (value(codes[e]) - zero) * scale[e / sub] + offset[e / sub]
 *
 * with value() and zero as struct pith_qmat has them: the element format's decode, or for integers
 * the unsigned code itself; zero is 2^(bits-1) for integers, 0 for types with minimums. Formed in
 * float32, product first, this is what ggml computes, to the bit.
 *
 * Types with two levels of scales have scale = d * integer and offset = -dmin * integer, products
 * that float32 holds exactly; in the others d and dmin are 0. */
struct pith_kblock {
    uint8_t codes[PITH_KBLOCK];
    float scale[PITH_KSUBS], offset[PITH_KSUBS];
    float d, dmin; /* exact in F16 */
};

/* Bits of the codes as they lie in a block: `bits` of each code, those from bit `up` on. The
 * block's bytes from `at` on go in runs: byte l of a run holds elements l, l + run, l + 2 run, ...
 * of the 8 / bits * run elements that the run covers, the first in the lowest bits. */
struct pith_kplane {
    uint8_t at, bits, run, up;
};

struct pith_kquant {
    uint16_t id;        /* ggml's number of the type */
    uint16_t file_type; /* general.file_type of a file that consists of it, no matter the mixture */
    const char *name;   /* "Q4_K", as GGUF's tools print it */
    const char *format; /* the name of the grid, "q4_k" */
    const char *element;         /* the format of its codes, as a matrix holds them */
    uint16_t elements, bytes;    /* of a block */
    uint16_t sub;                /* elements that share a scale */
    bool minimums;               /* there are offsets, and the zero is 0 */
    uint8_t flip;                /* these bits of a code are stored inverted */
    bool copied;                 /* blocks are read and copied, but nothing is rounded to them */
    int scale_least, scale_most; /* range of the integers that scale d; 0, 0: scales stand alone */
    int min_most;                /* of the integers that scale dmin: from 0 up; 0: stand alone */
    enum pith_dtype scale_dtype; /* of d, or of the scales that stand alone */
    struct pith_kplane plane[2]; /* none: get and put have the codes too */
    /* The scales, or the integers of both levels, between a block's bytes and numbers. */
    void (*get)(const uint8_t *block, struct pith_kblock *out);
    bool (*put)(const struct pith_kblock *in, uint8_t *block);
    /* A block of values that come one by one (activations, keys and values) by ggml's own rule,
     * num/gguf/krows.h; NULL where that is not done. */
    void (*row)(const float *x, struct pith_kblock *out);
};

/* All rows, in order of id; *count receives their number. */
const struct pith_kquant *pith_kquants(size_t *count);
/* By ggml's number; NULL when this program does not know the type. */
const struct pith_kquant *pith_kquant_by_id(uint32_t id);
/* By GGUF's name or the format's, without regard to case; NULL when unknown. */
const struct pith_kquant *pith_kquant_find(const char *name);

/* A block of t->bytes, taken apart. False when it holds a scale that is not a number. */
bool pith_kquant_unpack(const struct pith_kquant *t, const uint8_t *block, struct pith_kblock *out);
/* The reverse. False when a scale, an offset or a code is not one that the type can hold. unpack
 * then pack gives the same values, and the same bytes but for scales of 0, codes of NVFP4's scale
 * of NaN and bytes of TQ1_0, which have more than one form. */
bool pith_kquant_pack(const struct pith_kquant *t, const struct pith_kblock *in, uint8_t *block);
/* Values of a block: t->elements floats. */
void pith_kquant_values(const struct pith_kquant *t, const struct pith_kblock *in, float *out);

#endif
