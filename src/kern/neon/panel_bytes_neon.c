/* The products of integers with packed panels of integers, and the rounding of activations to
 * bytes. Without an instruction for dot products of bytes these are widened to 16-bit products:
 * those of 4-bit codes are summed there, sixteen of them in a field, of 6 bits four, and of large
 * factors two; those of 8-bit codes go to 32 bits at once. */
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

/* Eight lines, of large factors one, add products to a 16-bit field: |sum| <= 16 * 15 * 128, and 2
 * * 127 * 128. */
INLINE int32x4_t level4_sum(enum codes kind, int8x16_t table, const uint8_t *line, size_t lines,
                            const int8_t *q)
{
    int32x4_t low = vdupq_n_s32(0), high = low; /* the first two rows, the last two; in halves */
    while (lines > 0) {
        const size_t most = kind == LARGE ? 1 : 8, n = lines < most ? lines : most;
        int16x8_t a = vdupq_n_s16(0), b = a;
        for (size_t i = 0; i < n; i++, line += PITH_PANEL_LINE, q += 8) {
            const uint8x16_t w = vld1q_u8(line);
            const int8x16_t first = looked_up(kind, table, vandq_u8(w, vdupq_n_u8(15)));
            const int8x16_t last = looked_up(kind, table, vshrq_n_u8(w, 4));
            const int8x16_t x = four_bytes(q), y = four_bytes(q + 4);
            a = vmlal_s8(a, vget_low_s8(first), vget_low_s8(x));
            b = vmlal_high_s8(b, first, x);
            a = vmlal_s8(a, vget_low_s8(last), vget_low_s8(y));
            b = vmlal_high_s8(b, last, y);
        }
        low = vpadalq_s16(low, a);
        high = vpadalq_s16(high, b);
        lines -= n;
    }
    return vpaddq_s32(low, high);
}

INLINE int32x4_t int8_sum(const uint8_t *line, size_t lines, const int8_t *q)
{
    int32x4_t low = vdupq_n_s32(0), high = low;
    for (size_t i = 0; i < lines; i++, line += PITH_PANEL_LINE, q += 4) {
        const int8x16_t w = vreinterpretq_s8_u8(veorq_u8(vld1q_u8(line), vdupq_n_u8(128)));
        const int8x16_t x = four_bytes(q);
        low = vpadalq_s16(low, vmull_s8(vget_low_s8(w), vget_low_s8(x)));
        high = vpadalq_s16(high, vmull_high_s8(w, x));
    }
    return vpaddq_s32(low, high);
}

/* A step adds four products to a field: |sum| <= 4 * 63 * 128. */
INLINE int32x4_t planes_sum(enum codes kind, const uint8_t *at, size_t quarter, size_t steps,
                            const int8_t *q)
{
    const size_t bytes = pith_panel_span(bits_of(kind), PITH_PANEL_STEP);
    int32x4_t low = vdupq_n_s32(0), high = low;
    for (; steps > 0; steps--, at += bytes, q += PITH_PANEL_STEP) {
        int16x8_t a = vdupq_n_s16(0), b = a;
        for (int k = 0; k < PITH_PANEL_WORDS; k++) {
            const int8x16_t w = vreinterpretq_s8_u8(planes_word(bits_of(kind), at, quarter, k));
            const int8x16_t x = four_bytes(q + 4 * k);
            a = vmlal_s8(a, vget_low_s8(w), vget_low_s8(x));
            b = vmlal_high_s8(b, w, x);
        }
        low = vpadalq_s16(low, a);
        high = vpadalq_s16(high, b);
    }
    return vpaddq_s32(low, high);
}

#include "kern/neon/panel_sums.h"

#define TIER(op) pith_##op##_neon
#include "kern/template/panel_bytes_template.h"

/* --- rounding to bytes ------------------------------------------------------------------------ */

/* The greatest magnitude as bits of a float: as integers these are in the order of the floats, with
 * infinity and NaN above. */
INLINE uint32_t most_bits(size_t n, const float *x)
{
    uint32x4_t most = vdupq_n_u32(0);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const uint32x4_t v = vreinterpretq_u32_f32(vld1q_f32(x + i));
        most = vmaxq_u32(most, vbicq_u32(v, vdupq_n_u32(0x80000000u)));
    }
    uint32_t best = vmaxvq_u32(most);
    for (; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7fffffffu;
        best = bits > best ? bits : best;
    }
    return best;
}

/* The largest magnitude of a block; NaN when one is not finite. */
INLINE float largest(size_t n, const float *x)
{
    const uint32_t bits = most_bits(n, x);
    float most;
    memcpy(&most, &bits, sizeof most);
    return bits < 0x7f800000u ? most : __builtin_nanf("");
}

/* Four of n numbers times factor, rounded; 0 past the end, and all for a factor of 0. */
INLINE int32x4_t round_4(const float *x, size_t n, float factor)
{
    float last[4] = {0};
    if (factor == 0.0f) return vdupq_n_s32(0);
    if (n < 4) memcpy(last, x, n * sizeof *x);
    return vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(n < 4 ? last : x), factor));
}

/* The digits of at most eight numbers a, b: digit i to q[i * step], its sum added to
 * sum[i * sum_step]. */
INLINE void store_digits(int32x4_t a, int32x4_t b, size_t n, size_t digits, int8_t *q, size_t step,
                         int32_t *sum, size_t sum_step)
{
    for (size_t d = 0; d < digits; d++) {
        const int32x4_t low = vshrq_n_s32(vshlq_n_s32(a, 24), 24);
        const int32x4_t high = vshrq_n_s32(vshlq_n_s32(b, 24), 24);
        const int8x8_t bytes = vmovn_s16(vcombine_s16(vmovn_s32(low), vmovn_s32(high)));
        a = vshrq_n_s32(vsubq_s32(a, low), 8);
        b = vshrq_n_s32(vsubq_s32(b, high), 8);
        sum[d * sum_step] += vaddvq_s32(vaddq_s32(low, high));
        if (n >= 8) {
            vst1_s8(q + d * step, bytes);
            continue;
        }
        int8_t all[8];
        vst1_s8(all, bytes);
        memcpy(q + d * step, all, n);
    }
}

INLINE void to_digits(size_t n, size_t block, size_t digits, float most_number, const float *x,
                      int8_t *q, size_t step, float *scale, int32_t *sum, size_t sum_step)
{
    for (size_t b = 0, first = 0; first < n; first += block, b++) {
        const size_t end = n - first < block ? n : first + block;
        const float most = largest(end - first, x + first);
        const float inverse = most >= PITH_BYTES_LEAST ? most_number / most : 0.0f;
        scale[b] = most / most_number;
        for (size_t d = 0; d < digits; d++) sum[b + d * sum_step] = 0;
        for (size_t i = first; i < end; i += 8) {
            const size_t left = end - i;
            const int32x4_t low = round_4(x + i, left, inverse);
            const int32x4_t high = left > 4 ? round_4(x + i + 4, left - 4, inverse)
                                            : vdupq_n_s32(0);
            store_digits(low, high, left, digits, q + i, step, sum + b, sum_step);
        }
    }
}

void pith_to_bytes_neon(size_t n, size_t block, const float *x, int8_t *q, float *scale,
                        int32_t *sum)
{
    to_digits(n, block, 1, 127.0f, x, q, 0, scale, sum, 0);
}

void pith_to_digits_neon(size_t n, size_t block, const float *x, int8_t *q, size_t q_digit,
                         float *scale, int32_t *sum, size_t sum_digit)
{
    to_digits(n, block, PITH_DIGITS, PITH_DIGITS_MOST, x, q, q_digit, scale, sum, sum_digit);
}

/* --- packing ---------------------------------------------------------------------------------- */

/* A word's bytes are pairs of codes b0 = (1 0), b1 = (3 2), b2 = (5 4), b3 = (7 6): the low bytes
 * doubled give the low halves, the high ones the high halves. Four words a step. */
void pith_to_nibbles_neon(size_t n, uint32_t *words)
{
    static const uint8_t first[16] = {0, 0, 1, 1, 4, 4, 5, 5, 8, 8, 9, 9, 12, 12, 13, 13};
    const uint8x16_t low = vld1q_u8(first), high = vaddq_u8(low, vdupq_n_u8(2));
    const uint8x16_t even = vreinterpretq_u8_u16(vdupq_n_u16(0x00ff)), half = vdupq_n_u8(15);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
        const uint8x16_t w = vreinterpretq_u8_u32(vld1q_u32(words + i));
        const uint8x16_t a = vqtbl1q_u8(w, low), b = vqtbl1q_u8(w, high);
        const uint8x16_t lower = vandq_u8(vbslq_u8(even, a, vshrq_n_u8(a, 4)), half);
        const uint8x16_t upper = vbslq_u8(even, b, vshrq_n_u8(b, 4));
        vst1q_u32(words + i, vreinterpretq_u32_u8(vsliq_n_u8(lower, upper, 4)));
    }
    pith_to_nibbles_scalar(n - i, words + i);
}
