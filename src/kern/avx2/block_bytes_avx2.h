/* kern/avx2/block_bytes_avx2.h: to_bytes() for a block of 32 numbers. */
#ifndef PITH_KERN_BLOCK_BYTES_AVX2_H
#define PITH_KERN_BLOCK_BYTES_AVX2_H

#include "kern/avx2/vec_avx2.h"
#include "kern/panel.h"

#define INLINE static inline __attribute__((always_inline))

/* The largest magnitude of a block, given its bits; NaN when one is not finite. */
INLINE float number_of(uint32_t bits)
{
    float most;
    memcpy(&most, &bits, sizeof most);
    return bits < 0x7f800000u ? most : __builtin_nanf("");
}

INLINE uint32_t most_of(__m256i v)
{
    __m128i x = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    x = _mm_max_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
}

INLINE int32_t sum_of(__m256i v)
{
    __m128i x = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1)));
}

INLINE __m256i rounded_8(__m256 x, __m256 factor)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(x, factor));
}

INLINE __m256 larger_8(__m256 x, __m256 y)
{
    const __m256i size = _mm256_set1_epi32(0x7fffffff);
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_and_si256(_mm256_castps_si256(x), size),
                                                _mm256_and_si256(_mm256_castps_si256(y), size)));
}

/* a, then b. */
INLINE void block_to_bytes(v16 a, v16 b, int8_t *q, float *scale, int32_t *sum)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256 most = larger_8(larger_8(a.a, a.b), larger_8(b.a, b.b));
    const float largest = number_of(most_of(_mm256_castps_si256(most)));
    __m256i *to = (__m256i *)(void *)q;
    *scale = largest / 127.0f;
    *sum = 0;
    if (!(largest >= PITH_BYTES_LEAST)) {
        _mm256_storeu_si256(to, _mm256_setzero_si256());
        return;
    }
    const __m256 factor = _mm256_set1_ps(127.0f / largest);
    const __m256i x = _mm256_packs_epi32(rounded_8(a.a, factor), rounded_8(a.b, factor));
    const __m256i y = _mm256_packs_epi32(rounded_8(b.a, factor), rounded_8(b.b, factor));
    _mm256_storeu_si256(to, _mm256_permutevar8x32_epi32(_mm256_packs_epi16(x, y), order));
    *sum = sum_of(_mm256_madd_epi16(_mm256_add_epi16(x, y), _mm256_set1_epi16(1)));
}
#undef INLINE

#endif
