#include "kern/peak.h"

#include <arm_neon.h>

/* The bytes of x less 128, which are signed: what that takes off is the same in every step, and is
 * added at the end. */
void pith_peak_int8_dotprod(size_t rounds, const uint8_t x[4], const int8_t y[4],
                            uint32_t acc[PITH_PEAK_LANES])
{
    enum { EACH = 48 /* lanes of twelve registers */ };
    int8_t x16[16], y16[16];
    uint32_t less = 0;
    for (int i = 0; i < 16; i++) {
        x16[i] = (int8_t)(x[i % 4] - 128);
        y16[i] = y[i % 4];
    }
    for (int i = 0; i < 4; i++) less += 128u * (uint32_t)y[i];
    const int8x16_t a = vld1q_s8(x16), b = vld1q_s8(y16);
    for (uint32_t *at = acc; at < acc + PITH_PEAK_LANES; at += EACH) {
#define LOAD(k) int32x4_t s##k = vreinterpretq_s32_u32(vld1q_u32(at + 4 * k));
        PITH_TWELVE(LOAD)
        for (size_t r = 0; r < rounds * PITH_PEAK_STEPS; r++) {
#define STEP(k) s##k = vdotq_s32(s##k, a, b);
            PITH_TWELVE(STEP)
        }
        const uint32x4_t rest = vdupq_n_u32(less * (uint32_t)(rounds * PITH_PEAK_STEPS));
#define STORE(k) vst1q_u32(at + 4 * k, vaddq_u32(vreinterpretq_u32_s32(s##k), rest));
        PITH_TWELVE(STORE)
    }
}
