#include "kern/neon/vec_neon.h"
#include "kern/template/peak_template.h"

uint64_t pith_read_lines_neon(size_t lines, const void *data)
{
    enum { STEP = 8 /* registers: two lines */ };
    const uint8_t *p = data;
    uint8x16_t s[STEP];
    for (int i = 0; i < STEP; i++) s[i] = vdupq_n_u8(0);
    for (; lines >= STEP / 4; lines -= STEP / 4, p += STEP * 16)
        for (int i = 0; i < STEP; i++) s[i] = veorq_u8(s[i], vld1q_u8(p + 16 * i));
    for (; lines > 0; lines--, p += 64)
        for (int i = 0; i < 4; i++) s[i] = veorq_u8(s[i], vld1q_u8(p + 16 * i));
    for (int i = 1; i < STEP; i++) s[0] = veorq_u8(s[0], s[i]);
    const uint64x2_t words = vreinterpretq_u64_u8(s[0]);
    return vgetq_lane_u64(words, 0) ^ vgetq_lane_u64(words, 1);
}

void pith_peak_f32_neon(size_t rounds, float x, float y, float acc[PITH_PEAK_LANES])
{
    peak_f32(rounds, x, y, acc);
}
