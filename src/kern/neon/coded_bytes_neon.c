/* Attention over codes by rows of bytes: products of signed bytes in 16 bits, where those of 32
 * codes less 8 fit, 32 * 8 * 127 < 2^15, and of two bytes, 2 * 128 * 127 < 2^15. */
#include "kern/neon/vec_neon.h"
#include "kern/ops.h"
#include "kern/template/coded_block.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* Over 32 rows of codes: of sixteen bytes the low and the high halves, less 8; or of 32 bytes. */
struct block_sum {
    int16x8_t low[2], high[2];
    int32x4_t whole[8];
};

/* Of two rows the bytes less 128 that are 16 * half on. */
struct pair {
    int8x16_t a, b;
};

INLINE struct pair pair_at(const uint8_t *at, size_t stride, size_t half)
{
    const uint8x16_t middle = vdupq_n_u8(128);
    return (struct pair){vreinterpretq_s8_u8(veorq_u8(vld1q_u8(at + 16 * half), middle)),
                         vreinterpretq_s8_u8(veorq_u8(vld1q_u8(at + stride + 16 * half), middle))};
}

INLINE void add_eight(int16x8_t p, int32x4_t *to)
{
    to[0] = vaddw_s16(to[0], vget_low_s16(p));
    to[1] = vaddw_s16(to[1], vget_high_s16(p));
}

INLINE void sums_of_bytes(size_t rows, const uint8_t *at, size_t stride,
                          const struct coded_block *q, struct block_sum *s)
{
    UNROLL
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < 8; i++) s[r].whole[i] = vdupq_n_s32(0);
    for (size_t i = 0; i < 32; i += 2, at += 2 * stride)
        for (size_t h = 0; h < 2; h++) {
            const struct pair w = pair_at(at, stride, h);
            UNROLL
            for (size_t r = 0; r < rows; r++) {
                const int8_t *e = q->q + r * q->ld * 32 + i;
                const int8x8_t x = vdup_n_s8(e[0]), y = vdup_n_s8(e[1]);
                int32x4_t *to = s[r].whole + 4 * h;
                add_eight(vmlal_s8(vmull_s8(vget_low_s8(w.a), x), vget_low_s8(w.b), y), to);
                add_eight(vmlal_s8(vmull_s8(vget_high_s8(w.a), x), vget_high_s8(w.b), y), to + 2);
            }
        }
}

INLINE void sums_of_halves(size_t rows, const uint8_t *at, size_t stride,
                           const struct coded_block *q, struct block_sum *s)
{
    const int8x16_t eight = vdupq_n_s8(8);
    UNROLL
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < 2; i++) s[r].low[i] = s[r].high[i] = vdupq_n_s16(0);
    for (size_t i = 0; i < 32; i++, at += stride) {
        const uint8x16_t x = vld1q_u8(at);
        const int8x16_t l = vsubq_s8(vreinterpretq_s8_u8(vandq_u8(x, vdupq_n_u8(15))), eight);
        const int8x16_t h = vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(x, 4)), eight);
        UNROLL
        for (size_t r = 0; r < rows; r++) {
            const int8x8_t y = vdup_n_s8(q->q[r * q->ld * 32 + i]);
            s[r].low[0] = vmlal_s8(s[r].low[0], vget_low_s8(l), y);
            s[r].low[1] = vmlal_s8(s[r].low[1], vget_high_s8(l), y);
            s[r].high[0] = vmlal_s8(s[r].high[0], vget_low_s8(h), y);
            s[r].high[1] = vmlal_s8(s[r].high[1], vget_high_s8(h), y);
        }
    }
}

INLINE float32x4_t four_floats(int16x4_t x)
{
    return vcvtq_f32_s32(vmovl_s16(x));
}

INLINE void block_sums(size_t bits, size_t rows, const uint8_t *at, size_t stride,
                       const struct coded_block *q, struct block_sum *s)
{
    if (bits == 8) sums_of_bytes(rows, at, stride, q, s);
    else sums_of_halves(rows, at, stride, q, s);
}

INLINE v16 sixteen_sums(size_t bits, const struct block_sum *s, size_t half)
{
    const int32x4_t *w = s->whole + 4 * half;
    if (bits == 8)
        return (v16){vcvtq_f32_s32(w[0]), vcvtq_f32_s32(w[1]), vcvtq_f32_s32(w[2]),
                     vcvtq_f32_s32(w[3])};
    const int16x8_t x = vzip1q_s16(s->low[half], s->high[half]);
    const int16x8_t y = vzip2q_s16(s->low[half], s->high[half]);
    return (v16){four_floats(vget_low_s16(x)), four_floats(vget_high_s16(x)),
                 four_floats(vget_low_s16(y)), four_floats(vget_high_s16(y))};
}

INLINE void block_to_bytes(v16 a, v16 b, int8_t *q, float *scale, int32_t *sum)
{
    float x[32];
    v16_store(x, a);
    v16_store(x + 16, b);
    pith_to_bytes_neon(32, 32, x, q, scale, sum);
}
#undef INLINE
#undef UNROLL

#define BLOCK_PREFETCHES 0
#include "kern/template/coded_bytes_template.h"

void pith_attn_scores_bytes_neon(const struct pith_coded *k, const struct pith_coded_bytes *q,
                                 float *s, size_t lds)
{
    attn_scores_bytes(k, q, s, lds);
}

void pith_attn_values_bytes_neon(const struct pith_coded *v, const struct pith_coded_sums *s)
{
    attn_values_bytes(v, s);
}
