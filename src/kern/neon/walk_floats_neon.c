/* Products of floats with trellises. A kind is a code. */
#include "kern/ops.h"

#include <arm_neon.h>

typedef float word;
typedef float32x4_t number, sum;

#include "kern/neon/walk_neon.h"

/* (x & 0x8fff) ^ 0x3b60 of the upper half of a word, as float32: the upper bits of the exponent are
 * the constant's. */
INLINE float32x4_t upper_half(uint32x4_t x)
{
    const int32x4_t lower = vshrq_n_s32(vreinterpretq_s32_u32(x), 3);
    return vreinterpretq_f32_u32(veorq_u32(
        vandq_u32(vreinterpretq_u32_s32(lower), vdupq_n_u32(0x81ffe000)), vdupq_n_u32(0x3f6c0000)));
}

INLINE number number_of(unsigned kind, uint32x4_t s)
{
    s = kind == PITH_TRELLIS_MCG
            ? vmulq_n_u32(s, PITH_TRELLIS_BY_MCG)
            : vmlaq_u32(vdupq_n_u32(PITH_TRELLIS_AND_3INST), s, vdupq_n_u32(PITH_TRELLIS_BY_3INST));
    return vaddq_f32(upper_half(vshlq_n_u32(s, 16)), upper_half(s));
}

INLINE sum sum_none(void)
{
    return vdupq_n_f32(0);
}

INLINE sum sum_add(sum s, number w, const word *x)
{
    return vfmaq_f32(s, w, vld1q_f32(x));
}

INLINE float sum_close(sum even, sum odd)
{
    const float32x4_t u = vaddq_f32(even, odd);
    const float32x2_t pairs = vadd_f32(vget_low_f32(u), vget_high_f32(u));
    return vget_lane_f32(vpadd_f32(pairs, pairs), 0);
}

INLINE float sum_end(float y, float s, float scale)
{
    (void)scale;
    return y + s;
}

void pith_trellis_floats_neon(const struct pith_trellis_strip *m)
{
    const struct walk w = walk_init(m->bits);
    if (m->code == PITH_TRELLIS_MCG) walk(m, &w, PITH_TRELLIS_MCG);
    else walk(m, &w, PITH_TRELLIS_3INST);
}
