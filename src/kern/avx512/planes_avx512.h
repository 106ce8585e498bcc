/* kern/avx512/planes_avx512.h: the codes of sixteen columns of a panel (kern/panel.h), a register
 * of sixteen rows at a time. `bits` is known where these are inlined. */
#ifndef PITH_KERN_PLANES_AVX512_H
#define PITH_KERN_PLANES_AVX512_H

#include "kern/panel.h"

#include <immintrin.h>

#define PLANES_INLINE static inline __attribute__((always_inline))

/* Half a line, in both halves. */
PLANES_INLINE __m512i planes_twice(const uint8_t *p)
{
    return _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

/* `low` of rows 0 to 7, `high` of the others. */
PLANES_INLINE __m512i planes_halves(int low, int high)
{
    return _mm512_inserti64x4(_mm512_set1_epi32(low), _mm256_set1_epi32(high), 1);
}

/* Bits of a where the mask has ones, else those of b. */
PLANES_INLINE __m512i planes_choose(__m512i mask, __m512i a, __m512i b)
{
    return _mm512_ternarylogic_epi32(mask, a, b, 0xca);
}

/* Line j of the two that codes of 2 to 4 bits make as such of 4 bits; above 2 or 3 bits there may
 * be anything. */
PLANES_INLINE __m512i planes_line(unsigned bits, const uint8_t *at, int j)
{
    if (bits == 4) return _mm512_loadu_si512(at + j * PITH_PANEL_LINE);
    if (bits == 2) {
        const __m512i v = _mm512_loadu_si512(at);
        return j ? _mm512_srli_epi16(v, 2) : v;
    }
    if (j == 0) return _mm512_loadu_si512(at);
    const __m512i a = planes_twice(at), b = planes_twice(at + 32), c = planes_twice(at + 64);
    const __m512i over = planes_choose(_mm512_set1_epi8(0x11), _mm512_srli_epi16(a, 3),
                                       _mm512_srli_epi16(b, 2));
    return planes_choose(planes_halves(0, 0x33333333), over,
                         _mm512_srlv_epi32(c, planes_halves(0, 1)));
}

/* What word k has above its low 4 bits, of 5 and 6 bits; other bits may be anything. */
PLANES_INLINE __m512i planes_upper(unsigned bits, const uint8_t *at, int k)
{
    at += 2 * PITH_PANEL_LINE;
    if (bits == 5) {
        const __m512i v = _mm512_rolv_epi32(planes_twice(at), planes_halves(0, 4));
        return k == 0   ? v
               : k == 1 ? _mm512_srli_epi16(v, 1)
               : k == 2 ? _mm512_srli_epi16(v, 2)
                        : _mm512_srli_epi16(v, 3);
    }
    const __m512i v = _mm512_loadu_si512(at);
    return k == 0   ? _mm512_slli_epi16(v, 4)
           : k == 1 ? v
           : k == 2 ? _mm512_slli_epi16(v, 2)
                    : _mm512_srli_epi16(v, 2);
}

/* Word k of the four, a byte a code. */
PLANES_INLINE __m512i planes_word(unsigned bits, const uint8_t *at, int k)
{
    const __m512i all = _mm512_set1_epi8((char)((1 << bits) - 1));
    if (bits == 8) return _mm512_loadu_si512(at + k * PITH_PANEL_LINE);
    const __m512i line = planes_line(bits < 4 ? bits : 4, at, k / 2);
    const __m512i low = k % 2 ? _mm512_srli_epi16(line, 4) : line;
    if (bits <= 4) return _mm512_and_si512(low, all);
    return _mm512_and_si512(
        planes_choose(_mm512_set1_epi8(15), low, planes_upper(bits, at, k)), all);
}

#endif
