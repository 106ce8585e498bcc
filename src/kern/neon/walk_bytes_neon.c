/* Products of bytes with trellises. There is one kind. */
#include "kern/ops.h"

#include <arm_neon.h>
#include <stdint.h>

typedef uint16_t word;
typedef uint32x4_t number; /* sums of bytes */
typedef int32x4_t sum;

#include "kern/neon/walk_neon.h"

INLINE number number_of(unsigned kind, uint32x4_t windows)
{
    (void)kind;
    return vpaddlq_u16(
        vpaddlq_u8(vreinterpretq_u8_u32(vmulq_n_u32(windows, PITH_TRELLIS_BY_MUL1))));
}

INLINE sum sum_none(void)
{
    return vdupq_n_s32(0);
}

INLINE sum sum_add(sum s, number w, const word *x)
{
    const int16x4_t q = vshr_n_s16(vreinterpret_s16_u16(vld1_u16(x)), 8);
    return vmlaq_s32(s, vreinterpretq_s32_u32(w), vmovl_s16(q));
}

INLINE float sum_close(sum even, sum odd)
{
    return (float)vaddvq_s32(vaddq_s32(even, odd));
}

INLINE float sum_end(float y, float s, float scale)
{
    return vget_lane_f32(vfma_n_f32(vdup_n_f32(y), vdup_n_f32(s), scale), 0);
}

void pith_trellis_bytes_neon(const struct pith_trellis_strip *m)
{
    const struct walk w = walk_init(m->bits);
    walk(m, &w, 0);
}
