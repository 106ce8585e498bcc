/* kern/vnni/lanes_vnni.h: what kern/template/lanes_template.h needs, of numbers that are the sum of
 * the four bytes of two words of 16 bits, added up as they are multiplied. */
#ifndef PITH_KERN_LANES_VNNI_H
#define PITH_KERN_LANES_VNNI_H

#include "kern/trellis.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

enum { VECTORS = 4, ROWS = 2, AHEAD = 1 };
typedef struct {
    __m512i of[2];
} number;
typedef number sum; /* of either word: one would wait for itself */

INLINE sum none(void)
{
    return (sum){{_mm512_setzero_si512(), _mm512_setzero_si512()}};
}

INLINE sum add(sum s, number w, uint32_t word)
{
    const __m512i x = _mm512_set1_epi32((int)word);
    return (sum){{_mm512_dpbusd_epi32(s.of[0], w.of[0], x),
                  _mm512_dpbusd_epi32(s.of[1], w.of[1], x)}};
}

INLINE void keep(sum *s)
{
    __asm__("" : "+v"(s->of[0]), "+v"(s->of[1]));
}

INLINE void put(float *y, __m512i d, float scale)
{
    _mm512_storeu_ps(
        y, _mm512_fmadd_ps(_mm512_cvtepi32_ps(d), _mm512_set1_ps(scale), _mm512_loadu_ps(y)));
}

INLINE void finish(sum upper, sum lower, float scale, float *y)
{
    const __m512i u = _mm512_add_epi32(upper.of[0], upper.of[1]),
                  l = _mm512_add_epi32(lower.of[0], lower.of[1]);
    put(y, _mm512_shuffle_i64x2(u, l, 0x44), scale);
    put(y + PITH_TRELLIS_TILE, _mm512_shuffle_i64x2(u, l, 0xee), scale);
}

#endif
