#include "kern/neon/vec_neon.h"
#include "kern/template/peak_template.h"

uint64_t pith_read_lines_neon(size_t lines, const void *data)
{
    enum { STEP = 2 /* lines */ };
    const uint8_t *p = data;
#define ZERO(i) uint8x16_t s##i = vdupq_n_u8(0);
    PITH_EIGHT(ZERO)
    for (; lines >= STEP; lines -= STEP, p += STEP * 64) {
#define READ(i) s##i = veorq_u8(s##i, vld1q_u8(p + 16 * i));
        PITH_EIGHT(READ)
    }
    for (; lines > 0; lines--, p += 64) {
        READ(0)
        READ(1)
        READ(2)
        READ(3)
    }
#define FOLD(i) s7 = veorq_u8(s7, s##i);
    PITH_SEVEN(FOLD)
#undef ZERO
#undef READ
#undef FOLD
    const uint64x2_t words = vreinterpretq_u64_u8(s7);
    return vgetq_lane_u64(words, 0) ^ vgetq_lane_u64(words, 1);
}

void pith_peak_f32_neon(size_t rounds, float x, float y, float acc[PITH_PEAK_LANES])
{
    peak_f32(rounds, x, y, acc);
}
