/* kern/coded.h: keys and values as codes, the form that attention reads from pages in place.
 *
 *     x = (value(code) - zero) * scale + offset, each step rounded
 *
 * with value() the unsigned code itself, that less the middle of its range, the number that an FP8
 * code stands for (there are no codes of NaN), or a level. Of keys, element e of 32 neighbours lies
 * at codes + e * stride, a little-endian stream; of values, the elements of one at codes + j *
 * stride. */
#ifndef PITH_KERN_CODED_H
#define PITH_KERN_CODED_H

#include <stddef.h>
#include <stdint.h>

enum pith_code_kind {
    PITH_CODE_U8,
    PITH_CODE_U4,
    PITH_CODE_S8, /* less 128 */
    PITH_CODE_S4, /* less 8 */
    PITH_CODE_U2,
    PITH_CODE_UN, /* unsigned, of `bits` other bits; AFTER bytes behind all may be read */
    PITH_CODE_E4M3,
    PITH_CODE_E5M2,
    PITH_CODE_LEVELS, /* of 4 bits */
    PITH_CODE_FEW,    /* levels of `bits` 2 or 3; reads as PITH_CODE_UN does */
    PITH_CODE_KINDS
};
enum { PITH_CODED_AFTER = 7 }; /* since a code is taken from 8 bytes */

struct pith_coded {
    enum pith_code_kind kind;
    unsigned bits;
    size_t dim, width; /* elements; how many share a scale, for values a multiple of 16 */
    const uint8_t *codes;
    size_t stride;
    /* keys: [groups][32]; values: [values][groups]. Either zeros or
     * offsets, and of unsigned codes; NULL: none */
    const float *zero, *scale, *offset;
    const float *level; /* [16], of few bits [8] */
    /* As many codes that are read next, to prefetch; NULL: none. */
    const uint8_t *next;
};

/* Of the kinds that are multiplied as bytes. */
static inline size_t pith_coded_bits(const struct pith_coded *c)
{
    return c->kind == PITH_CODE_U8 || c->kind == PITH_CODE_S8 ? 8 : 4;
}

/* Rows of numbers as bytes, in blocks of PITH_CODED_BLOCK: x ~ q * scale, as to_bytes has it. */
enum { PITH_CODED_BLOCK = 32 };
struct pith_coded_bytes {
    size_t rows, blocks;
    const int8_t *q;    /* [rows][blocks][32] */
    const float *scale; /* [rows][blocks] */
    const int32_t *sum; /* [rows][blocks]: of q */
    const float *total; /* [rows][blocks]: of x, where keys have offsets */
};

#endif
