/* Integer codes to float32. */
#include "kern/ops.h"

#include <immintrin.h>

static inline __m128i load_16(const uint8_t *p)
{
    return _mm_loadu_si128((const __m128i *)(const void *)p);
}

static inline __m128i load_8(const uint8_t *p)
{
    return _mm_loadl_epi64((const __m128i *)(const void *)p);
}

/* The values of the eight codes in the low bytes of c. */
static inline __m256 values(__m128i c, __m256 zero, __m256 scale)
{
    const __m256 u = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(c));
    return _mm256_mul_ps(_mm256_sub_ps(u, zero), scale);
}

static inline void sixteen(__m128i c, __m256 zero, __m256 scale, float *dst)
{
    _mm256_storeu_ps(dst, values(c, zero, scale));
    _mm256_storeu_ps(dst + 8, values(_mm_srli_si128(c, 8), zero, scale));
}

/* Sixteen codes in eight bytes to a byte each. */
static inline __m128i spread(__m128i packed)
{
    const __m128i low = _mm_set1_epi8(15);
    const __m128i even = _mm_and_si128(packed, low);
    const __m128i odd = _mm_and_si128(_mm_srli_epi16(packed, 4), low);
    return _mm_unpacklo_epi8(even, odd);
}

static inline unsigned nibble(const uint8_t *code, size_t i)
{
    return i % 2 ? code[i / 2] >> 4 : code[i / 2] & 15u;
}

void pith_dequant_u8_avx2(size_t n, const uint8_t *code, float zero, float scale, float *dst)
{
    const __m256 z = _mm256_set1_ps(zero), s = _mm256_set1_ps(scale);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) sixteen(load_16(code + i), z, s, dst + i);
    for (; i < n; i++) dst[i] = ((float)code[i] - zero) * scale;
}

void pith_dequant_u4_avx2(size_t n, const uint8_t *code, float zero, float scale, float *dst)
{
    const __m256 z = _mm256_set1_ps(zero), s = _mm256_set1_ps(scale);
    size_t i = 0;
    for (; i + 16 <= n; i += 16) sixteen(spread(load_8(code + i / 2)), z, s, dst + i);
    for (; i < n; i++) dst[i] = ((float)nibble(code, i) - zero) * scale;
}
