/* Products with trellises (kern/trellis.h), four weights a register: rows r and r + 8 of a tile are
 * eight, those of t being two, one of either row. */
#include "kern/ops.h"
#include "kern/trellis.h"

#include <arm_neon.h>

#define INLINE static inline __attribute__((always_inline))

enum { VECTORS = 4 /* at a time */ };

/* A block of m, and its tiles. */
struct block {
    const struct pith_trellis_strip *m;
    struct pith_trellis_windows w;
    size_t block;
    struct pith_trellis_block tiles;
};

/* The windows of t of a row of tile c. */
INLINE uint32x4_t windows(const struct block *b, size_t c, size_t row, size_t t)
{
    const size_t r = row % 8, lane = row / 8 * 4;
    const bool head = r == 0 || b->m->bits == 1;
    const uint8x16_t x =
        vqtbl1q_u8(vld1q_u8(pith_trellis_at(&b->tiles, c, r * b->m->bits + b->w.from[t], head)),
                   vld1q_u8(b->w.pick[t][lane]));
    const int32x4_t right = vreinterpretq_s32_u32(vld1q_u32(b->w.right[t] + lane));
    return vandq_u32(vshlq_u32(vreinterpretq_u32_u8(x), vnegq_s32(right)), vdupq_n_u32(0xffff));
}

/* (x & 0x8fff) ^ 0x3b60 of the upper half of a word, as float32: the upper bits of the exponent are
 * the constant's. */
INLINE float32x4_t upper_half(uint32x4_t x)
{
    const int32x4_t lower = vshrq_n_s32(vreinterpretq_s32_u32(x), 3);
    return vreinterpretq_f32_u32(veorq_u32(
        vandq_u32(vreinterpretq_u32_s32(lower), vdupq_n_u32(0x81ffe000)), vdupq_n_u32(0x3f6c0000)));
}

/* What is made of windows, once for all vectors: sums of bytes, or the bits of floats. */
INLINE uint32x4_t number(enum pith_trellis_code code, uint32x4_t s)
{
    if (code == PITH_TRELLIS_MUL1)
        return vpaddlq_u16(vpaddlq_u8(vreinterpretq_u8_u32(vmulq_n_u32(s, 0x83dcd12d))));
    s = code == PITH_TRELLIS_MCG ? vmulq_n_u32(s, 0xcbac1fed)
                                 : vmlaq_u32(vdupq_n_u32(64248484), s, vdupq_n_u32(89226354));
    return vreinterpretq_u32_f32(vaddq_f32(upper_half(vshlq_n_u32(s, 16)), upper_half(s)));
}

/* sum with a vector's products, from word `at` on; as the bits of what it is. */
INLINE float32x4_t add(enum pith_trellis_code code, uint32x4_t weights, const void *x, size_t at,
                       float32x4_t sum)
{
    if (code != PITH_TRELLIS_MUL1)
        return vfmaq_f32(sum, vreinterpretq_f32_u32(weights), vld1q_f32((const float *)x + at));
    const int32x4_t q = vmovl_s16(vshr_n_s16(vld1_s16((const int16_t *)x + at), 8));
    return vreinterpretq_f32_s32(
        vmlaq_s32(vreinterpretq_s32_f32(sum), vreinterpretq_s32_u32(weights), q));
}

/* y with the sum of a row's chains in a block. */
INLINE void finish(enum pith_trellis_code code, const float32x4_t s[2], float scale, float *y)
{
    const bool bytes = code == PITH_TRELLIS_MUL1;
    const float32x4_t u =
        bytes ? vcvtq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(s[0]), vreinterpretq_s32_f32(s[1])))
              : vaddq_f32(s[0], s[1]);
    const float32x2_t pairs = vadd_f32(vget_low_f32(u), vget_high_f32(u));
    const float sum = vget_lane_f32(vpadd_f32(pairs, pairs), 0);
    *y = bytes ? vget_lane_f32(vfma_n_f32(vdup_n_f32(*y), vdup_n_f32(sum), scale), 0) : *y + sum;
}

/* Vectors [v, v + n) of it. code and n are known where this is inlined. */
INLINE void vectors(const struct block *b, enum pith_trellis_code code, size_t v, size_t n)
{
    const struct pith_trellis_strip *m = b->m;
    const size_t first = b->block * m->count + v;
    for (size_t row = 0; row < PITH_TRELLIS_TILE; row++) {
        float32x4_t acc[VECTORS][2];
        for (size_t i = 0; i < n; i++) acc[i][0] = acc[i][1] = vdupq_n_f32(0);
        for (size_t c = 0; c < PITH_TRELLIS_SIDE; c++) {
            const size_t from = first * PITH_TRELLIS_STEP + c * PITH_TRELLIS_WORDS + row / 8 * 4;
            for (size_t t = 0; t < 4; t++) {
                const uint32x4_t w = number(code, windows(b, c, row, t));
                for (size_t i = 0; i < n; i++)
                    acc[i][t % 2] =
                        add(code, w, m->x, from + i * PITH_TRELLIS_STEP + 8 * t, acc[i][t % 2]);
            }
        }
        for (size_t i = 0; i < n; i++)
            finish(code, acc[i], m->scale ? m->scale[first + i] : 1.0f,
                   m->y + (v + i) * m->ldy + row);
    }
}

INLINE void rows(const struct pith_trellis_strip *m, enum pith_trellis_code code)
{
    struct block b = {.m = m};
    pith_trellis_find(m->bits, 1, &b.w);
    for (; b.block < m->blocks; b.block++) {
        const size_t rest = m->count % VECTORS, whole = m->count - rest;
        const size_t at = b.block * PITH_TRELLIS_SIDE * pith_trellis_bytes(m->bits);
        pith_trellis_open(&b.tiles, m->tiles + at, m->bits);
        for (size_t v = 0; v < whole; v += VECTORS) vectors(&b, code, v, VECTORS);
        if (rest & 2) vectors(&b, code, whole, 2);
        if (rest & 1) vectors(&b, code, whole + (rest & 2), 1);
    }
}

void pith_trellis_bytes_neon(const struct pith_trellis_strip *m)
{
    rows(m, PITH_TRELLIS_MUL1);
}

void pith_trellis_floats_neon(const struct pith_trellis_strip *m)
{
    if (m->code == PITH_TRELLIS_MCG) rows(m, PITH_TRELLIS_MCG);
    else rows(m, PITH_TRELLIS_3INST);
}
