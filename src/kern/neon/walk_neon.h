/* kern/neon/walk_neon.h: what products with trellises share on NEON, four weights a register: rows
 * r and r + 8 of a tile are eight, those of t being two, one of either row. A file has before it
 * `word`, `number` (a register of what is made of windows), `sum` (one of sums), and behind it
 *
 *     number number_of(kind, windows)         what is made of windows
 *     sum sum_add(sum, number, words)         sums with a vector's products
 *     float sum_close(even, odd)              those of a row, of even and of odd t
 *     float sum_end(y, sum, scale)            y with them */
#ifndef PITH_KERN_WALK_NEON_H
#define PITH_KERN_WALK_NEON_H

#include "kern/trellis.h"

#include <arm_neon.h>

#define INLINE static inline __attribute__((always_inline))

enum { PAIRS = 2, VECTORS = 2, ROWS = 2 /* of a pair */ };

struct walk {
    unsigned from[4];
    struct pith_trellis_windows at;
};
struct numbers {
    number of[PITH_TRELLIS_SIDE][4][PAIRS][ROWS];
};
struct walk_sums {
    sum of[8][ROWS][2];
};

#include "kern/template/walk_template.h"

INLINE number number_of(unsigned kind, uint32x4_t windows);
INLINE sum sum_none(void);
INLINE sum sum_add(sum s, number w, const word *x);
INLINE float sum_close(sum even, sum odd);
INLINE float sum_end(float y, float s, float scale);

INLINE struct walk walk_init(unsigned bits)
{
    struct walk w;
    pith_trellis_find(bits, 1, &w.at);
    memcpy(w.from, w.at.from, sizeof w.from);
    return w;
}

/* The windows of t of row r, or of row r + 8, of tile c. */
INLINE uint32x4_t windows(const struct walking *b, size_t c, size_t r, size_t row, size_t t)
{
    const uint8x16_t x =
        vqtbl1q_u8(vld1q_u8(walk_at(b, c, r, t)), vld1q_u8(b->w.at.pick[t][4 * row]));
    const int32x4_t right = vreinterpretq_s32_u32(vld1q_u32(b->w.at.right[t] + 4 * row));
    return vandq_u32(vshlq_u32(vreinterpretq_u32_u8(x), vnegq_s32(right)), vdupq_n_u32(0xffff));
}

INLINE void decode(const struct walking *b, unsigned kind, size_t r, struct numbers *to)
{
    for (size_t c = 0; c < PITH_TRELLIS_SIDE; c++)
        for (size_t t = 0; t < 4; t++)
            for (size_t i = 0; i < PAIRS * ROWS; i++)
                to->of[c][t][i / ROWS][i % ROWS] =
                    number_of(kind, windows(b, c, r + i / ROWS, i % ROWS, t));
}

INLINE void multiply(unsigned kind, const struct numbers *from, size_t n, const word *x, size_t r,
                     struct walk_sums *sums)
{
    sum acc[VECTORS][PAIRS][ROWS][2];
    (void)kind;
#pragma GCC unroll 16
    for (size_t i = 0; i < n * PAIRS * ROWS * 2; i++) ((sum *)acc)[i] = sum_none();
    for (size_t c = 0; c < PITH_TRELLIS_SIDE; c++, x += PITH_TRELLIS_WORDS)
#pragma GCC unroll 4
        for (size_t t = 0; t < 4; t++)
#pragma GCC unroll 8
            for (size_t i = 0; i < n * PAIRS * ROWS; i++) {
                const size_t v = i / (PAIRS * ROWS), pair = i / ROWS % PAIRS, row = i % ROWS;
                const word *words = x + v * PITH_TRELLIS_STEP + 8 * t + 4 * row;
                acc[v][pair][row][t % 2] =
                    sum_add(acc[v][pair][row][t % 2], from->of[c][t][pair][row], words);
            }
#pragma GCC unroll 16
    for (size_t v = 0; v < n; v++) memcpy(sums[v].of + r, acc[v], sizeof acc[v]);
}

INLINE void multiply_one(const struct walking *b, unsigned kind, size_t r, const word *x,
                         struct walk_sums *sums)
{
    struct numbers w;
    decode(b, kind, r, &w);
    multiply(kind, &w, 1, x, r, sums);
}

INLINE void finish(unsigned kind, const struct walk_sums *sums, float scale, float *y)
{
    (void)kind;
    for (size_t row = 0; row < PITH_TRELLIS_TILE; row++) {
        const sum *s = sums->of[row % 8][row / 8];
        y[row] = sum_end(y[row], sum_close(s[0], s[1]), scale);
    }
}

#endif
