/* The products of integers with packed panels: four columns of four rows in one instruction, exact
 * in 32 bits. */
#include "kern/neon/vec_neon.h"
#include "kern/ops.h"

#define INLINE static inline __attribute__((always_inline))

#include "kern/neon/factors.h"
#include "kern/neon/planes_neon.h"

INLINE int8x16_t four_bytes(const int8_t *q)
{
    int32_t v;
    memcpy(&v, q, sizeof v);
    return vreinterpretq_s8_s32(vdupq_n_s32(v));
}

INLINE int32x4_t level4_sum(enum codes kind, int8x16_t table, const uint8_t *line, size_t lines,
                            const int8_t *q)
{
    int32x4_t low = vdupq_n_s32(0), high = low;
    for (size_t i = 0; i < lines; i++, line += PITH_PANEL_LINE, q += 8) {
        const uint8x16_t w = vld1q_u8(line);
        const int8x16_t first = looked_up(kind, table, vandq_u8(w, vdupq_n_u8(15)));
        const int8x16_t last = looked_up(kind, table, vshrq_n_u8(w, 4));
        low = vdotq_s32(low, first, four_bytes(q));
        high = vdotq_s32(high, last, four_bytes(q + 4));
    }
    return vaddq_s32(low, high);
}

INLINE int32x4_t int8_sum(const uint8_t *line, size_t lines, const int8_t *q)
{
    int32x4_t sum = vdupq_n_s32(0);
    for (size_t i = 0; i < lines; i++, line += PITH_PANEL_LINE, q += 4) {
        const uint8x16_t w = veorq_u8(vld1q_u8(line), vdupq_n_u8(128));
        sum = vdotq_s32(sum, vreinterpretq_s8_u8(w), four_bytes(q));
    }
    return sum;
}

INLINE int32x4_t planes_sum(enum codes kind, const uint8_t *at, size_t quarter, size_t steps,
                            const int8_t *q)
{
    const size_t bytes = pith_panel_span(bits_of(kind), PITH_PANEL_STEP);
    int32x4_t even = vdupq_n_s32(0), odd = even;
#define WORD(k) vreinterpretq_s8_u8(planes_word(bits_of(kind), at, quarter, k))
    for (; steps > 0; steps--, at += bytes, q += PITH_PANEL_STEP) {
        even = vdotq_s32(even, WORD(0), four_bytes(q));
        odd = vdotq_s32(odd, WORD(1), four_bytes(q + 4));
        even = vdotq_s32(even, WORD(2), four_bytes(q + 8));
        odd = vdotq_s32(odd, WORD(3), four_bytes(q + 12));
    }
#undef WORD
    return vaddq_s32(even, odd);
}

#include "kern/neon/panel_sums.h"

#define TIER(op) pith_##op##_dotprod
#include "kern/template/panel_bytes_template.h"
