/* kern/neon/planes_neon.h: the codes of sixteen columns of a panel (kern/panel.h), a register of
 * four rows at a time: rows 4 * quarter on. `bits` is known where these are inlined. */
#ifndef PITH_KERN_PLANES_NEON_H
#define PITH_KERN_PLANES_NEON_H

#include "kern/panel.h"

#include <arm_neon.h>

#define PLANES_INLINE static inline __attribute__((always_inline))

/* Moved to the right, by a negative number to the left. */
PLANES_INLINE uint8x16_t planes_shift(uint8x16_t v, int n)
{
    return vshlq_u8(v, vdupq_n_s8((int8_t)-n));
}

PLANES_INLINE uint8x16_t planes_mask(uint8x16_t v, int mask)
{
    return vandq_u8(v, vdupq_n_u8((uint8_t)mask));
}

/* Line j of the two that codes of 2 to 4 bits make as such of 4 bits; above 2 or 3 bits there may
 * be anything. */
PLANES_INLINE uint8x16_t planes_line(unsigned bits, const uint8_t *at, size_t quarter, int j)
{
    const size_t from = 16 * quarter, other = from % 32;
    if (bits == 4) return vld1q_u8(at + PITH_PANEL_LINE * j + from);
    const uint8x16_t first = vld1q_u8(at + from);
    if (bits == 2) return j ? vshrq_n_u8(first, 2) : first;
    if (j == 0) return first;
    const uint8x16_t c = vld1q_u8(at + 64 + other);
    if (quarter < 2) return c;
    const uint8x16_t a = planes_mask(vshrq_n_u8(vld1q_u8(at + other), 3), 0x11);
    const uint8x16_t b = planes_mask(vshrq_n_u8(first, 2), 0x22);
    return vorrq_u8(vorrq_u8(a, b), planes_mask(vshrq_n_u8(c, 1), 0x44));
}

/* What word k has above its low 4 bits, of 5 and 6 bits. */
PLANES_INLINE uint8x16_t planes_upper(unsigned bits, const uint8_t *at, size_t quarter, int k)
{
    at += 2 * PITH_PANEL_LINE + (bits == 5 ? 16 * quarter % 32 : 16 * quarter);
    const int from = bits == 5 ? k + (quarter < 2 ? 4 : 0) : 4 * (k % 2) + 2 * (k / 2);
    return planes_mask(planes_shift(vld1q_u8(at), from - 4), bits == 5 ? 0x10 : 0x30);
}

/* Word k of the four, a byte a code. */
PLANES_INLINE uint8x16_t planes_word(unsigned bits, const uint8_t *at, size_t quarter, int k)
{
    if (bits == 8) return vld1q_u8(at + PITH_PANEL_LINE * k + 16 * quarter);
    const uint8x16_t line = planes_line(bits < 4 ? bits : 4, at, quarter, k / 2);
    const uint8x16_t low = k % 2 ? vshrq_n_u8(line, 4) : line;
    if (bits <= 4) return planes_mask(low, (1 << bits) - 1);
    return vorrq_u8(planes_mask(low, 15), planes_upper(bits, at, quarter, k));
}

#endif
