/* Products with the lanes of mul2, half a row of tiles a register. */
#include "kern/ops.h"
#include "kern/trellis.h"

#include <arm_neon.h>

#define INLINE static inline __attribute__((always_inline))

enum { VECTORS = 2, ROWS = 1, AHEAD = 0 };
typedef struct {
    uint16x8_t of[2];
} reg;
typedef reg number; /* sums of bytes */
/* Of lanes 0 to 3, 4 to 7 and so on, whose pairs are rows. */
typedef struct {
    int32x4_t of[4];
} sum;

#include "kern/template/lanes_windows.h"

#include "kern/template/lanes_template.h"

INLINE reg load(const uint8_t *tile, size_t ld)
{
    (void)ld;
    return (reg){{vreinterpretq_u16_u8(vld1q_u8(tile)), vreinterpretq_u16_u8(vld1q_u8(tile + 16))}};
}

INLINE reg rotate_word(reg x)
{
    return (reg){{vextq_u16(x.of[1], x.of[0], 7), vextq_u16(x.of[0], x.of[1], 7)}};
}

INLINE uint16x8_t join_half(uint16x8_t before, uint16x8_t last, int left, int right)
{
    return vorrq_u16(vshlq_u16(before, vdupq_n_s16((int16_t)left)),
                     vshlq_u16(last, vdupq_n_s16((int16_t)-right)));
}
INLINE reg join(reg before, reg last, int left, int right)
{
    return (reg){{join_half(before.of[0], last.of[0], left, right),
                  join_half(before.of[1], last.of[1], left, right)}};
}

INLINE uint16x8_t sums_of(const uint16_t *f, uint16x8_t windows)
{
    const uint8x16_t x = vreinterpretq_u8_u16(vmulq_n_u16(windows, f[0])),
                     y = vreinterpretq_u8_u16(vmulq_n_u16(windows, f[1]));
    return vpadalq_u8(vpaddlq_u8(x), y);
}
INLINE number number_of(unsigned bits, reg windows)
{
    const uint16_t *f = pith_trellis_factors[bits];
    return (number){{sums_of(f, windows.of[0]), sums_of(f, windows.of[1])}};
}

INLINE sum none(void)
{
    const int32x4_t zero = vdupq_n_s32(0);
    return (sum){{zero, zero, zero, zero}};
}

INLINE sum add(sum s, number w, uint32_t word)
{
    const int16x4_t x = vshr_n_s16(vreinterpret_s16_u32(vdup_n_u32(word)), 8);
    for (size_t i = 0; i < 2; i++) {
        const int16x8_t own = vreinterpretq_s16_u16(w.of[i]);
        s.of[2 * i] = vmlal_s16(s.of[2 * i], vget_low_s16(own), x);
        s.of[2 * i + 1] = vmlal_s16(s.of[2 * i + 1], vget_high_s16(own), x);
    }
    return s;
}

INLINE void keep(sum *s)
{
    (void)s;
}

INLINE void put(float *y, int32x4_t first, int32x4_t second, float scale)
{
    const float32x4_t d = vcvtq_f32_s32(vpaddq_s32(first, second));
    vst1q_f32(y, vfmaq_n_f32(vld1q_f32(y), d, scale));
}

INLINE void finish(sum upper, sum lower, float scale, float *y)
{
    put(y, upper.of[0], upper.of[1], scale);
    put(y + 4, upper.of[2], upper.of[3], scale);
    put(y + 8, lower.of[0], lower.of[1], scale);
    put(y + 12, lower.of[2], lower.of[3], scale);
}

void pith_trellis_lanes_neon(const struct pith_trellis_strip *m)
{
    lanes_all(m);
}
