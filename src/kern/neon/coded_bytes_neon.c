/* Attention over codes by rows of bytes: products of signed bytes in 16 bits, where those of 32
 * codes less 8 fit, 32 * 8 * 127 < 2^15. */
#include "kern/neon/vec_neon.h"
#include "kern/ops.h"
#include "kern/template/coded_block.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

/* Of sixteen bytes the low and the high halves, less 8, over 32 rows of codes. */
struct block_sum {
    int16x8_t low[2], high[2];
};

INLINE void block_sums(size_t rows, const uint8_t *at, size_t stride, const struct coded_block *q,
                       struct block_sum *s)
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

INLINE v16 sixteen_sums(const struct block_sum *s, size_t half)
{
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
