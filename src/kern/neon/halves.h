/* kern/neon/halves.h: what integer products take for codes (kern/panel.h); the including file has
 * defined INLINE. */
#ifndef PITH_KERN_HALVES_NEON_H
#define PITH_KERN_HALVES_NEON_H

#include "kern/neon/vec_neon.h"
#include "kern/panel.h"

/* Codes of 8 bits, of 4, or halves in their place. */
enum codes { EIGHT, FOUR, HALVES };

INLINE uint8x16_t halves_of(uint8x16_t codes)
{
    return vqtbl1q_u8(vld1q_u8(pith_halves), codes);
}

/* Codes of 4 bits, a byte each. */
INLINE int8x16_t factors(enum codes kind, uint8x16_t codes)
{
    return vreinterpretq_s8_u8(kind == HALVES ? halves_of(codes) : codes);
}

#endif
