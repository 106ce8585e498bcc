/* kern/avx512/spans_avx512.h: the windows of EXL3's streams (num/trellis.h) in two tiles, one above
 * the other. Rows r and r + 8 of a tile are `bits` words of 32 bits of its stream one after
 * another, and here a lane: 0 to 7 of the first tile, 8 to 15 of the second. A window begins in the
 * upper or in the lower half of a word, so that with words from every sixteenth bit on each lies in
 * one, and a shift by a constant brings it to that word's upper or lower half in all lanes. `bits`
 * and what counts are known where these are inlined. */
#ifndef PITH_KERN_SPANS_AVX512_H
#define PITH_KERN_SPANS_AVX512_H

#include "kern/trellis.h"

#include <immintrin.h>

#define SPANS_INLINE static inline __attribute__((always_inline))

typedef int32_t spans_ints __attribute__((vector_size(64)));

/* at[k]: 32 bits from bit 16 k - 16 of a lane's on; those before its first are the row's before. */
struct spans {
    __m512i at[2 * 8];
};

SPANS_INLINE spans_ints spans_lane(void)
{
    return (spans_ints){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}

/* Sixteen words, from word 16 i on, of the two tiles. */
SPANS_INLINE __m512i spans_load(unsigned bits, const uint8_t *tile, size_t ld, unsigned i)
{
    const uint8_t *at = tile + 64 * i, *next = tile + ld;
    if (2 * i + 1 < bits) return _mm512_loadu_si512(at);
    if (2 * i >= bits) return _mm512_loadu_si512(next + 64 * i - 32 * bits);
    return _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)(const void *)at)),
        _mm256_loadu_si256((const __m256i *)(const void *)next), 1);
}

/* Word n of all lanes, of what spans_load() gave. */
SPANS_INLINE __m512i spans_deal(unsigned bits, unsigned n, const __m512i *words)
{
    const spans_ints word = (int)bits * spans_lane() + (int)n;
    __m512i x = words[0];
#pragma GCC unroll 8
    for (unsigned i = 1; i < bits; i++) {
        const spans_ints from = word - 16 * (int)i, here = (from >= 0) & (from < 16),
                         first = (int)i == 1 ? word : spans_lane();
        x = _mm512_permutex2var_epi32(x, (__m512i)((here & (from + 16)) | (~here & first & 15)),
                                      words[i]);
    }
    return x;
}

SPANS_INLINE void spans_open(unsigned bits, const uint8_t *tile, size_t ld, struct spans *s)
{
    __m512i words[8], rotated[8];
#pragma GCC unroll 8
    for (unsigned i = 0; i < bits; i++) words[i] = spans_load(bits, tile, ld, i);
#pragma GCC unroll 8
    for (unsigned n = 0; n < bits; n++) {
        s->at[2 * n + 1] = spans_deal(bits, n, words);
        rotated[n] = _mm512_rol_epi32(s->at[2 * n + 1], 16);
    }
    const spans_ints lane = spans_lane(), before = (lane & 8) | ((lane + 7) & 7);
    __m512i last = _mm512_permutexvar_epi32((__m512i)before, rotated[bits - 1]);
#pragma GCC unroll 8
    for (unsigned n = 0; n < bits; n++) {
        s->at[2 * n] = _mm512_mask_blend_epi16(0xaaaaaaaa, rotated[n], last);
        last = rotated[n];
    }
}

/* The windows of weights 2 p and 2 p + 1 of the 32 of a lane, in its lower and its upper half. */
SPANS_INLINE __m512i spans_windows(unsigned bits, const struct spans *s, unsigned p)
{
    const unsigned even = (2 * p + 1) * bits, odd = even + bits;
    const __m512i low = even % 16 == 0
                            ? s->at[even / 16 - 1]
                            : _mm512_srli_epi32(s->at[even / 16], 16 - even % 16),
                  high = odd == 32 * bits ? _mm512_slli_epi32(s->at[2 * bits - 1], 16)
                         : odd % 16 == 0 ? s->at[odd / 16]
                                         : _mm512_slli_epi32(s->at[odd / 16], odd % 16);
    return _mm512_mask_blend_epi16(0xaaaaaaaa, low, high);
}

#endif
