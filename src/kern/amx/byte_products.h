/* kern/amx/byte_products.h: the tile of 32 vectors by 32 rows of W, four tiles of sums.
 *
 *     x:  [word / 16][digits][32 vectors][16 words]   W:  lines of 64 bytes, a word of 16 rows
 *         tile 4: vectors  0 to 15                        tile 6: the first panel, 16 lines
 *         tile 5: vectors 16 to 31                        tile 7: the second
 *
 * so that every load of a tile reads 1 KiB straight on. Codes are unpacked as signed bytes with the
 * zero point taken off, so that a block needs no more than its products; only bytes with zero
 * points of their own (`codes`) stay unsigned, and theirs are taken off afterwards.
 *
 * A step of 64 columns is four loads (8 cycles each, on two ports that load 64 bytes) and four
 * products (16 cycles each), 64 cycles. When a block ends its sums go to memory (16 cycles a tile:
 * one store of 64 bytes a cycle) and come back to the vector units, which turn them into float32
 * and add them up. These work on other ports, so all depends on that both happen at once: while the
 * products of some columns are made, the sums of columns before are turned, a share of them beside
 * each block or digit, since the processor sees no further ahead than that. (Cycles: Intel 64 and
 * IA-32 Architectures Optimization Reference Manual, chapter 20.) */
#ifndef PITH_KERN_AMX_BYTE_PRODUCTS_H
#define PITH_KERN_AMX_BYTE_PRODUCTS_H

#include "kern/amx/shapes.h"

#include <stdalign.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

enum { ROWS = 32, COLS = 32, SUMS = ROWS * COLS, SHARE = 4 /* rows */, HALF = 16 };
enum { LINE_WORDS = 16, STRIDE = COLS * 4 /* bytes of a row of sums */ };

INLINE size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* --- products -------------------------------------------------------------------------------- */

/* Where word `word` of a digit of the first vector of a tile is, and bytes to the next vector. */
struct place {
    const uint32_t *at;
    size_t stride;
};

INLINE struct place x_at(const struct pith_byte_tile *a, size_t digits, size_t digit, size_t word)
{
    const size_t line = word / LINE_WORDS, left = a->cols / 4 - line * LINE_WORDS;
    const size_t width = least(left, LINE_WORDS);
    return (struct place){a->x + line * LINE_WORDS * digits * ROWS + digit * ROWS * width +
                              word % LINE_WORDS,
                          4 * width};
}

#define STEP(product, x, x_stride, first, second)                                                  \
    {                                                                                              \
        const char *const x_ = (const char *)(x);                                                  \
        _tile_loadd(6, first, AMX_LINE);                                                           \
        _tile_loadd(4, x_, x_stride);                                                              \
        product(0, 4, 6);                                                                          \
        _tile_loadd(7, second, AMX_LINE);                                                          \
        product(1, 4, 7);                                                                          \
        _tile_loadd(5, x_ + AMX_ROWS * (x_stride), x_stride);                                      \
        product(2, 5, 6);                                                                          \
        product(3, 5, 7);                                                                          \
    }

/* What fills less than a step, with zeros behind it. */
struct rest {
    alignas(64) uint32_t x[ROWS][LINE_WORDS];
    uint8_t w[2][AMX_TILE];
};

INLINE void fill_rest(struct place x, const uint8_t *const w[2], size_t words, struct rest *r)
{
    memset(r, 0, sizeof *r);
    for (size_t i = 0; i < ROWS; i++) memcpy(r->x[i], (const char *)x.at + i * x.stride, 4 * words);
    for (size_t i = 0; i < 2; i++) memcpy(r->w[i], w[i], words * AMX_LINE);
    /* gcc 12 does not know that a tile is loaded from memory. */
    __asm__ volatile("" : : "r"(r) : "memory");
}

/* Adds the products of words [word, end) of a digit to the sums. A step stays within a line of x.
 */
INLINE void multiply(const struct pith_byte_tile *a, bool codes, size_t digits, size_t digit,
                     size_t word, size_t end)
{
    const size_t step = pith_bytes_step(a->block);
    struct rest rest;
    for (size_t n; word < end; word += n) {
        const size_t room = LINE_WORDS - word % LINE_WORDS;
        const size_t line = (word - a->col / 4) * AMX_LINE;
        const uint8_t *const w[2] = {a->w[0] + line, a->w[1] + line};
        const struct place x = x_at(a, digits, digit, word);
        n = least(least(room, step), end - word);
        if (n < step) {
            fill_rest(x, w, n, &rest);
            if (codes) STEP(_tile_dpbsud, rest.x, AMX_LINE, rest.w[0], rest.w[1])
            else STEP(_tile_dpbssd, rest.x, AMX_LINE, rest.w[0], rest.w[1])
        } else if (codes) {
            STEP(_tile_dpbsud, x.at, x.stride, w[0], w[1])
        } else {
            STEP(_tile_dpbssd, x.at, x.stride, w[0], w[1])
        }
    }
}

INLINE void sums_zero(void)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

INLINE void sums_load(const int32_t *d)
{
    _tile_loadd(0, d, STRIDE);
    _tile_loadd(1, d + HALF, STRIDE);
    _tile_loadd(2, d + SUMS / 2, STRIDE);
    _tile_loadd(3, d + SUMS / 2 + HALF, STRIDE);
}

INLINE void sums_store(int32_t *d)
{
    _tile_stored(0, d, STRIDE);
    _tile_stored(1, d + HALF, STRIDE);
    _tile_stored(2, d + SUMS / 2, STRIDE);
    _tile_stored(3, d + SUMS / 2 + HALF, STRIDE);
}

/* --- sums in float32 ------------------------------------------------------------------------- */

/* Two panels of SHARE vectors. */
struct amx_sums {
    __m512 v[SHARE][2];
};
#define EACH_SUM                                                                                   \
    _Pragma("GCC unroll 4") for (size_t i = 0; i < SHARE; i++)                                     \
        _Pragma("GCC unroll 2") for (size_t j = 0; j < 2; j++)

INLINE void load(struct amx_sums *s, bool zero, const float *from)
{
    EACH_SUM s->v[i][j] = zero ? _mm512_setzero_ps() : _mm512_loadu_ps(from + i * COLS + j * HALF);
}

INLINE void store(const struct amx_sums *s, float *to)
{
    EACH_SUM _mm512_storeu_ps(to + i * COLS + j * HALF, s->v[i][j]);
}

/* Sixteen integers that wait in d; of codes with the zero points taken off: less * zero. */
INLINE __m512i whole_sum(bool codes, const int32_t *d, int32_t less, const int32_t *zero)
{
    const __m512i sum = _mm512_load_si512(d);
    if (!codes) return sum;
    return _mm512_add_epi32(sum,
                            _mm512_mullo_epi32(_mm512_loadu_si512(zero), _mm512_set1_epi32(less)));
}

INLINE void end_group(struct amx_sums *y, struct amx_sums *t, const float *scale, size_t panel)
{
    EACH_SUM
    {
        y->v[i][j] = _mm512_fmadd_ps(_mm512_loadu_ps(scale + j * panel), t->v[i][j], y->v[i][j]);
        t->v[i][j] = _mm512_setzero_ps();
    }
}

/* Where the block at `col` ends, if it does so before the call's columns do, and whether the group
 * ends there too. */
struct reach {
    size_t end;
    bool block, group;
};

INLINE struct reach reach_of(const struct pith_byte_tile *a, size_t col)
{
    const size_t group_end = least((col / a->group + 1) * a->group, a->cols);
    const size_t block_end = least((col / a->block + 1) * a->block, group_end);
    const size_t end = least(block_end, a->col + a->n);
    return (struct reach){end, end == block_end, end == group_end};
}

#endif
