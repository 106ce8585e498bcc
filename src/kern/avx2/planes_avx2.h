/* kern/avx2/planes_avx2.h: the codes of sixteen columns of a panel (kern/panel.h), a register of
 * eight rows at a time: half 0 has rows 0 to 7, half 1 the others. `bits` and `half` are known
 * where these are inlined. */
#ifndef PITH_KERN_PLANES_AVX2_H
#define PITH_KERN_PLANES_AVX2_H

#include "kern/panel.h"

#include <immintrin.h>

#define PLANES_INLINE static inline __attribute__((always_inline))

PLANES_INLINE __m256i planes_load(const uint8_t *at)
{
    return _mm256_load_si256((const __m256i *)(const void *)at);
}

PLANES_INLINE __m256i planes_mask(__m256i v, int mask)
{
    return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}

/* Line j of the two that codes of 2 to 4 bits make as such of 4 bits; above 2 or 3 bits there may
 * be anything. */
PLANES_INLINE __m256i planes_line(unsigned bits, const uint8_t *at, int half, int j)
{
    const __m256i first = planes_load(at + 32 * half);
    if (bits == 4) return planes_load(at + PITH_PANEL_LINE * j + 32 * half);
    if (bits == 2) return j ? _mm256_srli_epi16(first, 2) : first;
    if (j == 0) return first;
    const __m256i c = planes_load(at + 64);
    if (half == 0) return c;
    const __m256i a = planes_mask(_mm256_srli_epi16(planes_load(at), 3), 0x11);
    const __m256i b = planes_mask(_mm256_srli_epi16(first, 2), 0x22);
    return _mm256_or_si256(_mm256_or_si256(a, b), planes_mask(_mm256_srli_epi16(c, 1), 0x44));
}

/* What word k has above its low 4 bits, of 5 and 6 bits. */
PLANES_INLINE __m256i planes_upper(unsigned bits, const uint8_t *at, int half, int k)
{
    at += 2 * PITH_PANEL_LINE;
    const __m256i v = planes_load(bits == 5 ? at : at + 32 * half);
    const int from = bits == 5 ? k + (half ? 0 : 4) : 4 * (k % 2) + 2 * (k / 2);
    const __m256i there = from < 4   ? _mm256_slli_epi16(v, 4 - from)
                          : from > 4 ? _mm256_srli_epi16(v, from - 4)
                                     : v;
    return planes_mask(there, bits == 5 ? 0x10 : 0x30);
}

/* Word k of the four, a byte a code. */
PLANES_INLINE __m256i planes_word(unsigned bits, const uint8_t *at, int half, int k)
{
    if (bits == 8) return planes_load(at + PITH_PANEL_LINE * k + 32 * half);
    const __m256i line = planes_line(bits < 4 ? bits : 4, at, half, k / 2);
    const __m256i low = k % 2 ? _mm256_srli_epi16(line, 4) : line;
    if (bits <= 4) return planes_mask(low, (1 << bits) - 1);
    return _mm256_or_si256(planes_mask(low, 15), planes_upper(bits, at, half, k));
}

#endif
