/* kern/vnni/digits_vnni.h: codes and their factors (kern/panel.h), and the sums of three digits as
 * one float32. */
#ifndef PITH_KERN_DIGITS_VNNI_H
#define PITH_KERN_DIGITS_VNNI_H

#include "kern/avx512/planes_avx512.h"
#include "kern/ops.h"

#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

/* What is multiplied: codes of so many bits, or factors in the place of those of 4. */
enum width { TWO = 2, THREE = 3, FOUR = 4, FIVE = 5, SIX = 6, EIGHT = 8, FACTORS = 16 };

INLINE unsigned bits_of(enum width kind)
{
    return kind == FACTORS ? 4 : (unsigned)kind;
}

/* factor in every quarter of a register, for the codes of bytes. */
INLINE __m512i factor_table(const struct pith_panels *m)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)m->factor));
}

INLINE __m512 digits_together(__m512i d0, __m512i d1, __m512i d2)
{
    const __m512i middle = _mm512_and_si512(d1, _mm512_set1_epi32(255));
    const __m512i low = _mm512_add_epi32(d0, _mm512_slli_epi32(middle, 8));
    const __m512i high = _mm512_add_epi32(d2, _mm512_srai_epi32(d1, 8));
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(high), _mm512_set1_ps(65536.0f),
                           _mm512_cvtepi32_ps(low));
}

#endif
