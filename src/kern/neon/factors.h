/* kern/neon/factors.h: what integer products take for codes (kern/panel.h); the including file has
 * defined INLINE. */
#ifndef PITH_KERN_FACTORS_NEON_H
#define PITH_KERN_FACTORS_NEON_H

#include "kern/neon/vec_neon.h"
#include "kern/panel.h"

/* Codes of so many bits, or factors in the place of those of 4. */
enum codes { TWO = 2, THREE = 3, FOUR = 4, FIVE = 5, SIX = 6, EIGHT = 8, SMALL = 16, LARGE };

INLINE unsigned bits_of(enum codes kind)
{
    return kind >= SMALL ? 4 : (unsigned)kind;
}

INLINE uint8x16_t factors_of(const struct pith_panels *m, uint8x16_t codes)
{
    return vqtbl1q_u8(vld1q_u8(m->factor), codes);
}

/* Factors less their zero. */
INLINE int8x16_t signed_factors(const struct pith_panels *m)
{
    return vreinterpretq_s8_u8(vsubq_u8(vld1q_u8(m->factor), vdupq_n_u8((uint8_t)m->zero)));
}

/* Codes of 4 bits, a byte each, as what is multiplied. */
INLINE int8x16_t looked_up(enum codes kind, int8x16_t table, uint8x16_t codes)
{
    return kind == FOUR ? vreinterpretq_s8_u8(codes) : vqtbl1q_s8(table, codes);
}

#endif
