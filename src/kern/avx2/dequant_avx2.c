/* Integer codes to float32. */
#include "kern/ops.h"

#include <immintrin.h>
#include <string.h>

/* The eight codes in the low bytes of c. */
static inline void eight(__m128i c, __m256 zero, __m256 scale, float *dst)
{
    const __m256 u = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(c));
    _mm256_storeu_ps(dst, _mm256_mul_ps(_mm256_sub_ps(u, zero), scale));
}

static inline void sixteen(__m128i c, __m256 zero, __m256 scale, float *dst)
{
    eight(c, zero, scale, dst);
    eight(_mm_srli_si128(c, 8), zero, scale, dst + 8);
}

/* Sixteen codes in eight bytes to a byte each. */
static inline __m128i spread(__m128i packed)
{
    const __m128i low = _mm_set1_epi8(15);
    const __m128i even = _mm_and_si128(packed, low);
    const __m128i odd = _mm_and_si128(_mm_srli_epi16(packed, 4), low);
    return _mm_unpacklo_epi8(even, odd);
}

void pith_dequant_u8_avx2(size_t n, const uint8_t *code, float zero, float scale, float *dst)
{
    const __m256 z = _mm256_set1_ps(zero), s = _mm256_set1_ps(scale);
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        sixteen(_mm_loadu_si128((const __m128i *)(const void *)(code + i)), z, s, dst + i);
    for (; i < n; i++) dst[i] = ((float)code[i] - zero) * scale;
}

void pith_dequant_u4_avx2(size_t n, const uint8_t *code, float zero, float scale, float *dst)
{
    const __m256 z = _mm256_set1_ps(zero), s = _mm256_set1_ps(scale);
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        sixteen(spread(_mm_loadl_epi64((const __m128i *)(const void *)(code + i / 2))), z, s,
                dst + i);
    for (; i < n; i++) {
        const unsigned u = i % 2 ? code[i / 2] >> 4 : code[i / 2] & 15u;
        dst[i] = ((float)u - zero) * scale;
    }
}
