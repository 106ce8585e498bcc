/* kern/avx512/vec_avx512.h: the vectors that kern/template/ is written in, for AVX-512 (F, BW,
 * VL, DQ): sixteen lanes are one register. See kern/avx2/vec_avx2.h for what each function
 * means. */
#ifndef PITH_KERN_VEC_AVX512_H
#define PITH_KERN_VEC_AVX512_H

#include "kern/exp.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

typedef __m512 vn;
enum { VN_WIDTH = 16 };
typedef __m512 v16;
typedef struct {
    __m512d a, b;
} v16d;

static inline vn vn_zero(void)
{
    return _mm512_setzero_ps();
}
static inline vn vn_set(float x)
{
    return _mm512_set1_ps(x);
}
static inline vn vn_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
static inline void vn_store(float *p, vn x)
{
    _mm512_storeu_ps(p, x);
}
static inline vn vn_fma(vn x, vn y, vn z)
{
    return _mm512_fmadd_ps(x, y, z);
}

static inline __mmask16 first_lanes(size_t n)
{
    return (__mmask16)((1u << n) - 1u);
}

static inline v16 v16_zero(void)
{
    return _mm512_setzero_ps();
}
static inline v16 v16_set(float x)
{
    return _mm512_set1_ps(x);
}
static inline v16 v16_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
static inline v16 v16_load_part(const float *p, size_t n)
{
    return _mm512_maskz_loadu_ps(first_lanes(n), p);
}
static inline void v16_store(float *p, v16 x)
{
    _mm512_storeu_ps(p, x);
}
static inline void v16_store_part(float *p, v16 x, size_t n)
{
    _mm512_mask_storeu_ps(p, first_lanes(n), x);
}
static inline v16 v16_blend(v16 x, v16 y, size_t n)
{
    return _mm512_mask_mov_ps(y, first_lanes(n), x);
}

static inline v16 v16_from_bf16(__m256i h)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
static inline __m256i load_u16_part(const void *p, size_t n)
{
    return _mm256_maskz_loadu_epi16(first_lanes(n), p);
}
static inline v16 v16_load_bf16(const void *p)
{
    return v16_from_bf16(_mm256_loadu_si256(p));
}
static inline v16 v16_load_f16(const void *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256(p));
}
static inline v16 v16_load_bf16_part(const void *p, size_t n)
{
    return v16_from_bf16(load_u16_part(p, n));
}
static inline v16 v16_load_f16_part(const void *p, size_t n)
{
    return _mm512_cvtph_ps(load_u16_part(p, n));
}

static inline void v16_store_bf16(void *p, v16 x)
{
    const __m512i u = _mm512_castps_si512(x), one = _mm512_set1_epi32(1);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), one);
    const __m512i up = _mm512_add_epi32(_mm512_set1_epi32(0x7fff), odd);
    const __m512i nan = _mm512_or_si512(u, _mm512_set1_epi32(0x400000));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i r = _mm512_mask_mov_epi32(_mm512_add_epi32(u, up), is_nan, nan);
    _mm256_storeu_si256(p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(r, 16)));
}
/* Of two operands one of which is a NaN the second is given. */
static inline void v16_store_f16(void *p, v16 x)
{
    const __m512 most = _mm512_set1_ps(65504), least = _mm512_set1_ps(-65504);
    const __m512 y = _mm512_max_ps(least, _mm512_min_ps(most, x));
    _mm256_storeu_si256(p, _mm512_cvtps_ph(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

static inline v16 v16_add(v16 x, v16 y)
{
    return _mm512_add_ps(x, y);
}
static inline v16 v16_sub(v16 x, v16 y)
{
    return _mm512_sub_ps(x, y);
}
static inline v16 v16_mul(v16 x, v16 y)
{
    return _mm512_mul_ps(x, y);
}
static inline v16 v16_div(v16 x, v16 y)
{
    return _mm512_div_ps(x, y);
}
static inline v16 v16_fma(v16 x, v16 y, v16 z)
{
    return _mm512_fmadd_ps(x, y, z);
}
static inline v16 v16_fnma(v16 x, v16 y, v16 z)
{
    return _mm512_fnmadd_ps(x, y, z);
}
static inline v16 v16_max(v16 x, v16 y)
{
    return _mm512_max_ps(x, y);
}
static inline v16 v16_min(v16 x, v16 y)
{
    return _mm512_min_ps(x, y);
}
static inline v16 v16_negate(v16 x)
{
    return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f));
}

static inline v16 v16_power_below(v16 x)
{
    return _mm512_and_ps(x, _mm512_castsi512_ps(_mm512_set1_epi32(0x7f800000)));
}
static inline v16 v16_above(v16 x, v16 y, v16 a, v16 b)
{
    return _mm512_mask_mov_ps(b, _mm512_cmp_ps_mask(x, y, _CMP_GT_OQ), a);
}

/* By hand: the order in which _mm512_reduce_add_ps folds is not promised. */
static inline float v16_sum(v16 x)
{
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
static inline float v16_max_lane(v16 x)
{
    return _mm512_reduce_max_ps(x);
}

static inline v16 v16_scale(v16 x, v16 t)
{
    return _mm512_scalef_ps(x, _mm512_sub_ps(t, _mm512_set1_ps(PITH_EXP32_MAGIC)));
}

static inline void v16_store_u8(uint8_t *p, v16 x)
{
    const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(x));
    _mm_storeu_si128((__m128i *)(void *)p, bytes);
}
static inline void v16_store_u8_part(uint8_t *p, v16 x, size_t n)
{
    _mm512_mask_cvtepi32_storeu_epi8(p, first_lanes(n), _mm512_cvttps_epi32(x));
}
static inline v16 v16_number_of_bits(v16 x)
{
    return _mm512_cvtepi32_ps(_mm512_castps_si512(x));
}
static inline v16 v16_bits_of_number(v16 x)
{
    return _mm512_castsi512_ps(_mm512_cvttps_epi32(x));
}

static inline v16d v16d_zero(void)
{
    return (v16d){_mm512_setzero_pd(), _mm512_setzero_pd()};
}
static inline v16d v16d_set(double x)
{
    return (v16d){_mm512_set1_pd(x), _mm512_set1_pd(x)};
}
static inline v16d v16d_from(v16 x)
{
    return (v16d){_mm512_cvtps_pd(_mm512_castps512_ps256(x)),
                  _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1))};
}
static inline v16d v16d_add(v16d x, v16d y)
{
    return (v16d){_mm512_add_pd(x.a, y.a), _mm512_add_pd(x.b, y.b)};
}
static inline v16d v16d_sub(v16d x, v16d y)
{
    return (v16d){_mm512_sub_pd(x.a, y.a), _mm512_sub_pd(x.b, y.b)};
}
static inline v16d v16d_mul(v16d x, v16d y)
{
    return (v16d){_mm512_mul_pd(x.a, y.a), _mm512_mul_pd(x.b, y.b)};
}
static inline v16d v16d_max(v16d x, v16d y)
{
    return (v16d){_mm512_max_pd(x.a, y.a), _mm512_max_pd(x.b, y.b)};
}
static inline v16d v16d_div(v16d x, v16d y)
{
    return (v16d){_mm512_div_pd(x.a, y.a), _mm512_div_pd(x.b, y.b)};
}
static inline __m512d signed8(__m512d x, __m512d s)
{
    const __m512d sign = _mm512_set1_pd(-0.0);
    return _mm512_or_pd(_mm512_andnot_pd(sign, x), _mm512_and_pd(sign, s));
}
static inline v16d v16d_signed(v16d x, v16d s)
{
    return (v16d){signed8(x.a, s.a), signed8(x.b, s.b)};
}
static inline v16 v16d_narrow(v16d x)
{
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(x.a)), _mm512_cvtpd_ps(x.b),
                              1);
}
static inline v16d v16d_fma(v16d x, v16d y, v16d z)
{
    return (v16d){_mm512_fmadd_pd(x.a, y.a, z.a), _mm512_fmadd_pd(x.b, y.b, z.b)};
}
static inline v16d v16d_fnma(v16d x, v16d y, v16d z)
{
    return (v16d){_mm512_fnmadd_pd(x.a, y.a, z.a), _mm512_fnmadd_pd(x.b, y.b, z.b)};
}
static inline __m512d scale8(__m512d x, __m512d t)
{
    const __m512i bias = _mm512_set1_epi64(PITH_EXP64_MAGIC_BITS - 1023);
    const __m512i k = _mm512_sub_epi64(_mm512_castpd_si512(t), bias);
    return _mm512_mul_pd(x, _mm512_castsi512_pd(_mm512_slli_epi64(k, 52)));
}
static inline v16d v16d_scale(v16d x, v16d t)
{
    return (v16d){scale8(x.a, t.a), scale8(x.b, t.b)};
}
static inline v16d v16d_part(v16d x, size_t n)
{
    const __mmask16 m = first_lanes(n);
    return (v16d){_mm512_maskz_mov_pd((__mmask8)m, x.a),
                  _mm512_maskz_mov_pd((__mmask8)(m >> 8), x.b)};
}
static inline double v16d_sum(v16d x)
{
    const __m512d s = _mm512_add_pd(x.a, x.b);
    const __m256d h = _mm256_add_pd(_mm512_castpd512_pd256(s), _mm512_extractf64x4_pd(s, 1));
    const __m128d q = _mm_add_pd(_mm256_castpd256_pd128(h), _mm256_extractf128_pd(h, 1));
    return _mm_cvtsd_f64(_mm_add_sd(q, _mm_unpackhi_pd(q, q)));
}

#endif
