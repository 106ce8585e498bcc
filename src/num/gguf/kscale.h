/* num/gguf/kscale.h: scales of GGUF's blocks between numbers and bytes, as all its types have them.
 */
#ifndef PITH_NUM_GGUF_KSCALE_H
#define PITH_NUM_GGUF_KSCALE_H

#include "num/gguf/kquant.h"

#include <math.h>

/* The F16 at p, two bytes, the lower first. */
static inline float pith_get_half(const uint8_t *p)
{
    return pith_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

/* The reverse; false when F16 does not hold x, which is rounded then. */
static inline bool pith_put_half(float x, uint8_t *p)
{
    const uint16_t h = pith_f32_to_f16(x);
    p[0] = (uint8_t)h;
    p[1] = (uint8_t)(h >> 8);
    return isfinite(x) && pith_f16_to_f32(h) == x;
}

/* The integer k with d * k == x; false when there is none from least to most. */
static inline bool pith_divide_scale(float x, float d, int least, int most, int *k)
{
    *k = 0;
    if (x == 0.0f) return least <= 0 && most >= 0;
    const float quotient = x / d; /* exact when such an integer exists */
    if (!(quotient >= (float)least && quotient <= (float)most)) return false;
    *k = (int)quotient;
    return d * (float)*k == x;
}

/* Scale i of a block is d k. */
static inline void pith_set_scale(struct pith_kblock *b, int i, int k)
{
    b->scale[i] = b->d * (float)k;
}

#endif
