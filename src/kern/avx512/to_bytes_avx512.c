/* Rounding to bytes, sixteen numbers at a time. */
#include "kern/ops.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE __mmask16 first(size_t n)
{
    return (__mmask16)(n < 16 ? (1u << n) - 1u : 0xffffu);
}

/* The largest magnitude; NaN when one is not finite. As integers, magnitudes are in the order of the
 * floats, infinity and NaN above. */
INLINE float largest(size_t n, const float *x)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    __m512i most = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += 16) {
        const __m512i bits = _mm512_castps_si512(_mm512_maskz_loadu_ps(first(n - i), x + i));
        most = _mm512_max_epu32(most, _mm512_and_si512(bits, magnitude));
    }
    const uint32_t bits = _mm512_reduce_max_epu32(most);
    float f;
    memcpy(&f, &bits, sizeof f);
    return bits < 0x7f800000u ? f : __builtin_nanf("");
}

/* q = x * inverse, rounded; gives the sum. */
INLINE int32_t round_block(size_t n, const float *x, float inverse, int8_t *q)
{
    const __m512 factor = _mm512_set1_ps(inverse);
    __m512i sum = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += 16) {
        const __m512 v = _mm512_maskz_loadu_ps(first(n - i), x + i);
        const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(v, factor));
        const __m128i bytes = _mm512_cvtepi32_epi8(whole);
        sum = _mm512_add_epi32(sum, whole);
        if (n - i >= 16) _mm_storeu_si128((__m128i *)(void *)(q + i), bytes);
        else memcpy(q + i, &bytes, n - i);
    }
    return _mm512_reduce_add_epi32(sum);
}

INLINE void block_to_bytes(size_t n, const float *x, int8_t *q, float *scale, int32_t *sum)
{
    const float most = largest(n, x);
    *scale = most / 127.0f;
    *sum = 0;
    if (most >= PITH_BYTES_LEAST) *sum = round_block(n, x, 127.0f / most, q);
    else memset(q, 0, n);
}

void pith_to_bytes_avx512(size_t n, size_t block, const float *x, int8_t *q, float *scale,
                          int32_t *sum)
{
    size_t b = 0, i = 0;
    /* The usual block: its loops are gone. */
    for (; block == 32 && n - i >= 32; i += 32, b++)
        block_to_bytes(32, x + i, q + i, &scale[b], &sum[b]);
    for (; i < n; i += block, b++)
        block_to_bytes(n - i < block ? n - i : block, x + i, q + i, &scale[b], &sum[b]);
}
