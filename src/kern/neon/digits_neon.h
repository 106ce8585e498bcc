/* kern/neon/digits_neon.h: the sums of three digits as one float32 (kern/panel.h). */
#ifndef PITH_KERN_DIGITS_NEON_H
#define PITH_KERN_DIGITS_NEON_H

#include "kern/neon/vec_neon.h"

static inline float32x4_t digits_together(int32x4_t d0, int32x4_t d1, int32x4_t d2)
{
    const int32x4_t middle = vandq_s32(d1, vdupq_n_s32(255));
    const int32x4_t low = vaddq_s32(d0, vshlq_n_s32(middle, 8));
    const int32x4_t high = vaddq_s32(d2, vshrq_n_s32(d1, 8));
    return vfmaq_n_f32(vcvtq_f32_s32(low), vcvtq_f32_s32(high), 65536.0f);
}

#endif
