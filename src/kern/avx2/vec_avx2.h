/* kern/avx2/vec_avx2.h: the vectors that kern/template/ is written in, for AVX2 with FMA and
 * F16C: sixteen lanes as two registers (v16), as doubles four (v16d); vn is one register.
 *
 * A `part` function touches the first n < 16 elements in memory only; a load's other lanes are
 * 0. */
#ifndef PITH_KERN_VEC_AVX2_H
#define PITH_KERN_VEC_AVX2_H

#include "kern/exp.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef __m256 vn;
enum { VN_WIDTH = 8 };

typedef struct {
    __m256 a, b;
} v16;

typedef struct {
    __m256d a, b, c, d;
} v16d;

static inline vn vn_zero(void)
{
    return _mm256_setzero_ps();
}
static inline vn vn_set(float x)
{
    return _mm256_set1_ps(x);
}
static inline vn vn_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
static inline void vn_store(float *p, vn x)
{
    _mm256_storeu_ps(p, x);
}
static inline vn vn_fma(vn x, vn y, vn z)
{
    return _mm256_fmadd_ps(x, y, z);
}

/* Eight lanes, all ones below n. */
static inline __m256i mask8(size_t n)
{
    static const int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(const void *)(ones + 8 - (n < 8 ? n : 8)));
}

static inline __m256i mask_low(size_t n)
{
    return mask8(n);
}
static inline __m256i mask_high(size_t n)
{
    return mask8(n > 8 ? n - 8 : 0);
}

static inline v16 v16_zero(void)
{
    return (v16){_mm256_setzero_ps(), _mm256_setzero_ps()};
}
static inline v16 v16_set(float x)
{
    return (v16){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
static inline v16 v16_load(const float *p)
{
    return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
static inline v16 v16_load_part(const float *p, size_t n)
{
    const __m256 a = _mm256_maskload_ps(p, mask_low(n));
    return (v16){a, n > 8 ? _mm256_maskload_ps(p + 8, mask_high(n)) : _mm256_setzero_ps()};
}
static inline void v16_store(float *p, v16 x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}
static inline void v16_store_part(float *p, v16 x, size_t n)
{
    float all[16];
    v16_store(all, x);
    memcpy(p, all, n * sizeof *p);
}
/* Lanes below n from x, the others from y. */
static inline v16 v16_blend(v16 x, v16 y, size_t n)
{
    return (v16){_mm256_blendv_ps(y.a, x.a, _mm256_castsi256_ps(mask_low(n))),
                 _mm256_blendv_ps(y.b, x.b, _mm256_castsi256_ps(mask_high(n)))};
}

static inline v16 v16_from_bf16(__m256i h)
{
    const __m256i a = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(h));
    const __m256i b = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(h, 1));
    return (v16){_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)),
                 _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))};
}
static inline v16 v16_from_f16(__m256i h)
{
    return (v16){_mm256_cvtph_ps(_mm256_castsi256_si128(h)),
                 _mm256_cvtph_ps(_mm256_extracti128_si256(h, 1))};
}
static inline __m256i load_u16(const void *p)
{
    return _mm256_loadu_si256(p);
}
static inline __m256i load_u16_part(const void *p, size_t n)
{
    uint16_t all[16] = {0};
    memcpy(all, p, n * sizeof *all);
    return load_u16(all);
}
static inline v16 v16_load_bf16(const void *p)
{
    return v16_from_bf16(load_u16(p));
}
static inline v16 v16_load_f16(const void *p)
{
    return v16_from_f16(load_u16(p));
}
static inline v16 v16_load_bf16_part(const void *p, size_t n)
{
    return v16_from_bf16(load_u16_part(p, n));
}
static inline v16 v16_load_f16_part(const void *p, size_t n)
{
    return v16_from_f16(load_u16_part(p, n));
}

static inline __m256i round_bf16(__m256 x)
{
    const __m256i u = _mm256_castps_si256(x), one = _mm256_set1_epi32(1);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), one);
    const __m256i up = _mm256_add_epi32(_mm256_set1_epi32(0x7fff), odd);
    const __m256i nan = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_srli_epi32(_mm256_blendv_epi8(_mm256_add_epi32(u, up), nan, is_nan), 16);
}
/* Rounded to nearest, ties to even, at any address; a NaN becomes a quiet one. */
static inline void v16_store_bf16(void *p, v16 x)
{
    const __m256i h = _mm256_packus_epi32(round_bf16(x.a), round_bf16(x.b));
    _mm256_storeu_si256(p, _mm256_permute4x64_epi64(h, 0xd8));
}

/* Of two operands one of which is a NaN the second is given. */
static inline __m128i round_f16(__m256 x)
{
    const __m256 most = _mm256_set1_ps(65504), least = _mm256_set1_ps(-65504);
    const __m256 y = _mm256_max_ps(least, _mm256_min_ps(most, x));
    return _mm256_cvtps_ph(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline void v16_store_f16(void *p, v16 x)
{
    _mm256_storeu_si256(p, _mm256_set_m128i(round_f16(x.b), round_f16(x.a)));
}

static inline v16 v16_add(v16 x, v16 y)
{
    return (v16){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
static inline v16 v16_sub(v16 x, v16 y)
{
    return (v16){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
static inline v16 v16_mul(v16 x, v16 y)
{
    return (v16){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
static inline v16 v16_div(v16 x, v16 y)
{
    return (v16){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
static inline v16 v16_fma(v16 x, v16 y, v16 z)
{
    return (v16){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
/* z - x y, rounded once. */
static inline v16 v16_fnma(v16 x, v16 y, v16 z)
{
    return (v16){_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)};
}
/* x > y ? x : y, so y when either is NaN. */
static inline v16 v16_max(v16 x, v16 y)
{
    return (v16){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
/* x < y ? x : y. */
static inline v16 v16_min(v16 x, v16 y)
{
    return (v16){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
static inline v16 v16_negate(v16 x)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return (v16){_mm256_xor_ps(x.a, sign), _mm256_xor_ps(x.b, sign)};
}

/* A lane without its sign and mantissa: the power of two at or below |x|, 0 for a subnormal one. */
static inline v16 v16_power_below(v16 x)
{
    const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7f800000));
    return (v16){_mm256_and_ps(x.a, mask), _mm256_and_ps(x.b, mask)};
}
/* x > y ? a : b, so b when x or y is NaN. */
static inline v16 v16_above(v16 x, v16 y, v16 a, v16 b)
{
    return (v16){_mm256_blendv_ps(b.a, a.a, _mm256_cmp_ps(x.a, y.a, _CMP_GT_OQ)),
                 _mm256_blendv_ps(b.b, a.b, _mm256_cmp_ps(x.b, y.b, _CMP_GT_OQ))};
}

/* Folds lanes 8 -> 1 in the order of pith_lanes_sum(). */
static inline float v16_sum(v16 x)
{
    const __m256 h = _mm256_add_ps(x.a, x.b);
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
static inline float v16_max_lane(v16 x)
{
    const __m256 h = _mm256_max_ps(x.a, x.b);
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}

/* x 2^n for t = n + 1.5 2^23, |n| <= 192, in two factors. */
static inline __m256 scale8(__m256 x, __m256 t)
{
    const __m256i k =
        _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(PITH_EXP32_MAGIC_BITS));
    const __m256i half = _mm256_srai_epi32(k, 1), one = _mm256_set1_epi32(127);
    const __m256i p = _mm256_slli_epi32(_mm256_add_epi32(half, one), 23);
    const __m256i q = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(k, half), one), 23);
    return _mm256_mul_ps(_mm256_mul_ps(x, _mm256_castsi256_ps(p)), _mm256_castsi256_ps(q));
}
static inline v16 v16_scale(v16 x, v16 t)
{
    return (v16){scale8(x.a, t.a), scale8(x.b, t.b)};
}

/* Lanes are whole numbers 0..255. */
static inline void v16_store_u8(uint8_t *p, v16 x)
{
    const __m256i pairs = _mm256_packs_epi32(_mm256_cvttps_epi32(x.a), _mm256_cvttps_epi32(x.b));
    const __m256i order = _mm256_permute4x64_epi64(pairs, 0xd8);
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(order), _mm256_extracti128_si256(order, 1));
    _mm_storeu_si128((__m128i *)(void *)p, bytes);
}
static inline void v16_store_u8_part(uint8_t *p, v16 x, size_t n)
{
    uint8_t all[16];
    v16_store_u8(all, x);
    memcpy(p, all, n);
}
/* A lane's bits, taken as a signed integer, as a number; and back, the number without its
 * fraction. */
static inline v16 v16_number_of_bits(v16 x)
{
    return (v16){_mm256_cvtepi32_ps(_mm256_castps_si256(x.a)),
                 _mm256_cvtepi32_ps(_mm256_castps_si256(x.b))};
}
static inline v16 v16_bits_of_number(v16 x)
{
    return (v16){_mm256_castsi256_ps(_mm256_cvttps_epi32(x.a)),
                 _mm256_castsi256_ps(_mm256_cvttps_epi32(x.b))};
}

static inline v16d v16d_zero(void)
{
    const __m256d z = _mm256_setzero_pd();
    return (v16d){z, z, z, z};
}
static inline v16d v16d_set(double x)
{
    const __m256d v = _mm256_set1_pd(x);
    return (v16d){v, v, v, v};
}
static inline v16d v16d_from(v16 x)
{
    return (v16d){_mm256_cvtps_pd(_mm256_castps256_ps128(x.a)),
                  _mm256_cvtps_pd(_mm256_extractf128_ps(x.a, 1)),
                  _mm256_cvtps_pd(_mm256_castps256_ps128(x.b)),
                  _mm256_cvtps_pd(_mm256_extractf128_ps(x.b, 1))};
}
#define PITH_V16D(f, x, y)                                                                         \
    {                                                                                              \
        f(x.a, y.a), f(x.b, y.b), f(x.c, y.c), f(x.d, y.d)                                         \
    }
static inline v16d v16d_add(v16d x, v16d y)
{
    return (v16d)PITH_V16D(_mm256_add_pd, x, y);
}
static inline v16d v16d_sub(v16d x, v16d y)
{
    return (v16d)PITH_V16D(_mm256_sub_pd, x, y);
}
static inline v16d v16d_mul(v16d x, v16d y)
{
    return (v16d)PITH_V16D(_mm256_mul_pd, x, y);
}
static inline v16d v16d_max(v16d x, v16d y)
{
    return (v16d)PITH_V16D(_mm256_max_pd, x, y);
}
static inline v16d v16d_div(v16d x, v16d y)
{
    return (v16d)PITH_V16D(_mm256_div_pd, x, y);
}
static inline __m256d signed4(__m256d x, __m256d s)
{
    const __m256d sign = _mm256_set1_pd(-0.0);
    return _mm256_or_pd(_mm256_andnot_pd(sign, x), _mm256_and_pd(sign, s));
}
/* |x| with the sign of s. */
static inline v16d v16d_signed(v16d x, v16d s)
{
    return (v16d)PITH_V16D(signed4, x, s);
}
#undef PITH_V16D
/* Rounded to float32. */
static inline v16 v16d_narrow(v16d x)
{
    return (v16){_mm256_set_m128(_mm256_cvtpd_ps(x.b), _mm256_cvtpd_ps(x.a)),
                 _mm256_set_m128(_mm256_cvtpd_ps(x.d), _mm256_cvtpd_ps(x.c))};
}
static inline v16d v16d_fma(v16d x, v16d y, v16d z)
{
    return (v16d){_mm256_fmadd_pd(x.a, y.a, z.a), _mm256_fmadd_pd(x.b, y.b, z.b),
                  _mm256_fmadd_pd(x.c, y.c, z.c), _mm256_fmadd_pd(x.d, y.d, z.d)};
}
static inline v16d v16d_fnma(v16d x, v16d y, v16d z)
{
    return (v16d){_mm256_fnmadd_pd(x.a, y.a, z.a), _mm256_fnmadd_pd(x.b, y.b, z.b),
                  _mm256_fnmadd_pd(x.c, y.c, z.c), _mm256_fnmadd_pd(x.d, y.d, z.d)};
}
static inline __m256d scale4(__m256d x, __m256d t)
{
    const __m256i bias = _mm256_set1_epi64x(PITH_EXP64_MAGIC_BITS - 1023);
    const __m256i k = _mm256_sub_epi64(_mm256_castpd_si256(t), bias);
    return _mm256_mul_pd(x, _mm256_castsi256_pd(_mm256_slli_epi64(k, 52)));
}
/* x 2^n for t = n + 1.5 2^52, 2^n normal. */
static inline v16d v16d_scale(v16d x, v16d t)
{
    return (v16d){scale4(x.a, t.a), scale4(x.b, t.b), scale4(x.c, t.c), scale4(x.d, t.d)};
}
/* The first n lanes of x, 0 in the others. */
static inline v16d v16d_part(v16d x, size_t n)
{
    double all[16];
    _mm256_storeu_pd(all, x.a);
    _mm256_storeu_pd(all + 4, x.b);
    _mm256_storeu_pd(all + 8, x.c);
    _mm256_storeu_pd(all + 12, x.d);
    for (size_t i = n; i < 16; i++) all[i] = 0;
    return (v16d){_mm256_loadu_pd(all), _mm256_loadu_pd(all + 4), _mm256_loadu_pd(all + 8),
                  _mm256_loadu_pd(all + 12)};
}
static inline double v16d_sum(v16d x)
{
    const __m256d h = _mm256_add_pd(_mm256_add_pd(x.a, x.c), _mm256_add_pd(x.b, x.d));
    const __m128d q = _mm_add_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
    return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}

#endif
