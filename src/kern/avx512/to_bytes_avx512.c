/* Rounding to bytes and to digits of bytes, sixteen numbers at a time. */
#include "kern/ops.h"

#include <immintrin.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE __mmask16 first(size_t n)
{
    return (__mmask16)(n < 16 ? (1u << n) - 1u : 0xffffu);
}

/* The largest magnitude; NaN when one is not finite. As integers, magnitudes are in the order of
 * the floats, infinity and NaN above. */
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

/* One of four numbers a quarter, of four vectors that are each reduced to one: the result of a
 * vector is in all lanes of its quarter. */
#define FOUR_IN_QUARTERS(name, with)                                                               \
    INLINE __m512i name(const __m512i m[4])                                                        \
    {                                                                                              \
        const __m512i t = with(_mm512_shuffle_i32x4(m[0], m[1], 0x44),                             \
                               _mm512_shuffle_i32x4(m[0], m[1], 0xee));                            \
        const __m512i u = with(_mm512_shuffle_i32x4(m[2], m[3], 0x44),                             \
                               _mm512_shuffle_i32x4(m[2], m[3], 0xee));                            \
        __m512i x = with(_mm512_shuffle_i32x4(t, u, 0x88), _mm512_shuffle_i32x4(t, u, 0xdd));      \
        x = with(x, _mm512_shuffle_epi32(x, _MM_PERM_BADC));                                       \
        return with(x, _mm512_shuffle_epi32(x, _MM_PERM_CDAB));                                    \
    }
FOUR_IN_QUARTERS(four_most, _mm512_max_epu32)
FOUR_IN_QUARTERS(four_sums, _mm512_add_epi32)
#undef FOUR_IN_QUARTERS

/* The numbers of four quarters, side by side. */
INLINE __m128i of_quarters(__m512i x)
{
    const __m512i at = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    return _mm512_castsi512_si128(_mm512_permutexvar_epi32(at, x));
}

/* A quarter of x in all four. */
INLINE __m512 quarter(__m512 x, size_t r)
{
    if (r == 0) return _mm512_shuffle_f32x4(x, x, 0x00);
    if (r == 1) return _mm512_shuffle_f32x4(x, x, 0x55);
    return r == 2 ? _mm512_shuffle_f32x4(x, x, 0xaa) : _mm512_shuffle_f32x4(x, x, 0xff);
}

/* Four blocks of 16 * vectors numbers, whose maxima and sums wait for each other no more: as
 * block_to_bytes() has it. False, and nothing written, when one of them is small or not finite. */
INLINE bool four_to_bytes(size_t vectors, const float *x, int8_t *q, float *scale, int32_t *sum)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i most[4], total[4], whole[16];
#pragma GCC unroll 16
    for (size_t i = 0; i < 4 * vectors; i++) {
        const __m512i bits = _mm512_and_si512(_mm512_loadu_si512(x + 16 * i), magnitude);
        most[i / vectors] = i % vectors ? _mm512_max_epu32(most[i / vectors], bits) : bits;
    }
    const __m512i bits = four_most(most);
    const __m512 of = _mm512_castsi512_ps(bits), top = _mm512_set1_ps(127.0f);
    if (_mm512_cmplt_epu32_mask(bits, _mm512_set1_epi32(0x7f800000)) != 0xffff ||
        _mm512_cmp_ps_mask(of, _mm512_set1_ps(PITH_BYTES_LEAST), _CMP_GE_OQ) != 0xffff)
        return false;
    const __m512 factor = _mm512_div_ps(top, of);
    const __m512i part = _mm512_castps_si512(_mm512_div_ps(of, top));
    _mm_storeu_ps(scale, _mm_castsi128_ps(of_quarters(part)));
#pragma GCC unroll 16
    for (size_t i = 0; i < 4 * vectors; i++) {
        const __m512 v = _mm512_mul_ps(_mm512_loadu_ps(x + 16 * i), quarter(factor, i / vectors));
        __m512i *t = &total[i / vectors];
        whole[i] = _mm512_cvtps_epi32(v);
        *t = i % vectors ? _mm512_add_epi32(*t, whole[i]) : whole[i];
    }
    _mm_storeu_si128((__m128i *)(void *)sum, of_quarters(four_sums(total)));
#pragma GCC unroll 4
    for (size_t i = 0; i < 4 * vectors; i += 4) {
        const __m512i a = _mm512_packs_epi32(whole[i], whole[i + 1]);
        const __m512i b = _mm512_packs_epi32(whole[i + 2], whole[i + 3]);
        _mm512_storeu_si512(q + 16 * i, _mm512_permutexvar_epi32(order, _mm512_packs_epi16(a, b)));
    }
    return true;
}

void pith_to_bytes_avx512(size_t n, size_t block, const float *x, int8_t *q, float *scale,
                          int32_t *sum)
{
    size_t b = 0, i = 0;
    for (; block == 32 && n - i >= 128; i += 128, b += 4) {
        if (four_to_bytes(2, x + i, q + i, &scale[b], &sum[b])) continue;
        for (size_t r = 0; r < 4; r++)
            block_to_bytes(32, x + i + 32 * r, q + i + 32 * r, &scale[b + r], &sum[b + r]);
    }
    /* The usual block: its loops are gone. */
    for (; block == 64 && n - i >= 64; i += 64, b++)
        block_to_bytes(64, x + i, q + i, &scale[b], &sum[b]);
    for (; i < n; i += block, b++)
        block_to_bytes(n - i < block ? n - i : block, x + i, q + i, &scale[b], &sum[b]);
}

/* The lowest digit of each number of v, sign-extended; v becomes what the others make. */
INLINE __m512i take_digit(__m512i *v)
{
    const __m512i digit = _mm512_srai_epi32(_mm512_slli_epi32(*v, 24), 24);
    *v = _mm512_srai_epi32(_mm512_sub_epi32(*v, digit), 8);
    return digit;
}

INLINE void store_bytes(__m512i digit, size_t n, int8_t *q)
{
    const __m128i bytes = _mm512_cvtepi32_epi8(digit);
    if (n >= 16) _mm_storeu_si128((__m128i *)(void *)q, bytes);
    else memcpy(q, &bytes, n);
}

INLINE void block_to_digits(size_t n, const float *x, int8_t *q, size_t q_digit, float *scale,
                            int32_t *sum, size_t sum_digit)
{
    const float most = largest(n, x);
    const bool any = most >= PITH_BYTES_LEAST;
    const __m512 factor = _mm512_set1_ps(any ? PITH_DIGITS_MOST / most : 0.0f);
    __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0;
    *scale = most / PITH_DIGITS_MOST;
    for (size_t i = 0; i < n; i += 16) {
        const size_t left = n - i;
        const __m512 in = _mm512_maskz_loadu_ps(any ? first(left) : 0, x + i);
        __m512i v = _mm512_cvtps_epi32(_mm512_mul_ps(in, factor));
        const __m512i d0 = take_digit(&v), d1 = take_digit(&v);
        store_bytes(d0, left, q + i);
        store_bytes(d1, left, q + i + q_digit);
        store_bytes(v, left, q + i + 2 * q_digit);
        s0 = _mm512_add_epi32(s0, d0);
        s1 = _mm512_add_epi32(s1, d1);
        s2 = _mm512_add_epi32(s2, v);
    }
    sum[0] = _mm512_reduce_add_epi32(s0);
    sum[sum_digit] = _mm512_reduce_add_epi32(s1);
    sum[2 * sum_digit] = _mm512_reduce_add_epi32(s2);
}

void pith_to_digits_avx512(size_t n, size_t block, const float *x, int8_t *q, size_t q_digit,
                           float *scale, int32_t *sum, size_t sum_digit)
{
    size_t b = 0, i = 0;
    for (; block == 32 && n - i >= 32; i += 32, b++)
        block_to_digits(32, x + i, q + i, q_digit, &scale[b], &sum[b], sum_digit);
    for (; i < n; i += block, b++)
        block_to_digits(n - i < block ? n - i : block, x + i, q + i, q_digit, &scale[b], &sum[b],
                        sum_digit);
}
