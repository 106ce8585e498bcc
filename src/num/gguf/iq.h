/* num/gguf/iq.h: GGUF's types IQ1 to IQ3 and TQ1_0, whose codes are no planes of bits. Eight or
 * four weights side by side are one vector of a grid, given by its place there, and their
 * signs: a grid holds a few of all vectors, so that whatever is rounded has to be fitted to
 * whole vectors. Here such blocks are taken apart and put together again; nothing is rounded to
 * them.
 *
 * In memory a weight is a separate code of 4 bits on the levels of the type's element format:
 *
 *     iq2, iq3, odd4   the digit of the vector, and 8 for the minus sign
 *     iq1              the digit (-1, 0, 1), and 8 where the 1/8 that the type adds is subtracted
 *
 * and a scale is d (2 s + 1) with the block's half d and a whole s: the products with the levels,
 * which have the rest of ggml's factors in them, take 22 bits, so that the values are ggml's to the
 * bit. Facts: ggml's ggml-common.h (layouts, grids) and its dequantize_row functions. */
#ifndef PITH_NUM_GGUF_IQ_H
#define PITH_NUM_GGUF_IQ_H

#include "num/gguf/kquant.h"

/* The vectors of each grid, ascending; element i of one is its digit i, of 2 bits where there are
 * eight elements, of 3 where there are four. */
extern const uint16_t pith_iq1_grid[2048], pith_iq2_xxs_grid[256], pith_iq2_xs_grid[512],
    pith_iq2_s_grid[1024], pith_iq3_xxs_grid[256], pith_iq3_s_grid[512];

/* struct pith_kquant's get and put of each type. put is false also for codes that no block has. */
#define PITH_IQ_TYPE(name)                                                                         \
    void pith_get_##name(const uint8_t *block, struct pith_kblock *out);                           \
    bool pith_put_##name(const struct pith_kblock *in, uint8_t *block);
PITH_IQ_TYPE(iq1_s)
PITH_IQ_TYPE(iq1_m)
PITH_IQ_TYPE(iq2_xxs)
PITH_IQ_TYPE(iq2_xs)
PITH_IQ_TYPE(iq2_s)
PITH_IQ_TYPE(iq3_xxs)
PITH_IQ_TYPE(iq3_s)
PITH_IQ_TYPE(tq1_0)
#undef PITH_IQ_TYPE

#endif
