/* kern/neon/vec_neon.h: the vectors that kern/template/ is written in, for 64-bit Arm: sixteen
 * lanes are four registers. See kern/avx2/vec_avx2.h for what each function means. */
#ifndef PITH_KERN_VEC_NEON_H
#define PITH_KERN_VEC_NEON_H

#include "kern/exp.h"

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef float32x4_t vn;
enum { VN_WIDTH = 4 };

typedef struct {
    float32x4_t a, b, c, d;
} v16;

typedef struct {
    float64x2_t a, b, c, d, e, f, g, h;
} v16d;

/* One operation on every register of x; of x and y; of x, y and z. */
#define V16_1(op, x)                                                                               \
    {                                                                                              \
        op(x.a), op(x.b), op(x.c), op(x.d)                                                         \
    }
#define V16_2(op, x, y)                                                                            \
    {                                                                                              \
        op(x.a, y.a), op(x.b, y.b), op(x.c, y.c), op(x.d, y.d)                                     \
    }
#define V16_3(op, x, y, z)                                                                         \
    {                                                                                              \
        op(x.a, y.a, z.a), op(x.b, y.b, z.b), op(x.c, y.c, z.c), op(x.d, y.d, z.d)                 \
    }
#define V16D_2(op, x, y)                                                                           \
    {                                                                                              \
        op(x.a, y.a), op(x.b, y.b), op(x.c, y.c), op(x.d, y.d), op(x.e, y.e), op(x.f, y.f),        \
            op(x.g, y.g), op(x.h, y.h)                                                             \
    }
#define V16D_3(op, x, y, z)                                                                        \
    {                                                                                              \
        op(x.a, y.a, z.a), op(x.b, y.b, z.b), op(x.c, y.c, z.c), op(x.d, y.d, z.d),                \
            op(x.e, y.e, z.e), op(x.f, y.f, z.f), op(x.g, y.g, z.g), op(x.h, y.h, z.h)             \
    }

static inline vn vn_zero(void)
{
    return vdupq_n_f32(0);
}
static inline vn vn_set(float x)
{
    return vdupq_n_f32(x);
}
static inline vn vn_load(const float *p)
{
    return vld1q_f32(p);
}
static inline void vn_store(float *p, vn x)
{
    vst1q_f32(p, x);
}
static inline vn vn_fma(vn x, vn y, vn z)
{
    return vfmaq_f32(z, x, y);
}

static inline v16 v16_set(float x)
{
    const float32x4_t v = vdupq_n_f32(x);
    return (v16){v, v, v, v};
}
static inline v16 v16_zero(void)
{
    return v16_set(0);
}
/* From any address, so by bytes: a float must lie at a multiple of four. */
static inline float32x4_t load_4(const void *p)
{
    return vreinterpretq_f32_u8(vld1q_u8(p));
}
static inline v16 v16_load(const void *p)
{
    const char *c = p;
    return (v16){load_4(c), load_4(c + 16), load_4(c + 32), load_4(c + 48)};
}
static inline v16 v16_load_part(const void *p, size_t n)
{
    float all[16] = {0};
    memcpy(all, p, n * sizeof *all);
    return v16_load(all);
}
static inline void v16_store(float *p, v16 x)
{
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
    vst1q_f32(p + 8, x.c);
    vst1q_f32(p + 12, x.d);
}
static inline void v16_store_part(float *p, v16 x, size_t n)
{
    float all[16];
    v16_store(all, x);
    memcpy(p, all, n * sizeof *p);
}
static inline v16 v16_blend(v16 x, v16 y, size_t n)
{
    float all[16], first[16];
    v16_store(all, y);
    v16_store(first, x);
    memcpy(all, first, n * sizeof *all);
    return v16_load(all);
}

static inline float32x4_t from_bf16(const void *p)
{
    const uint16x4_t h = vreinterpret_u16_u8(vld1_u8(p));
    return vreinterpretq_f32_u32(vshll_n_u16(h, 16));
}
static inline float32x4_t from_f16(const void *p)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
}
static inline v16 v16_load_bf16(const void *p)
{
    const char *c = p;
    return (v16){from_bf16(c), from_bf16(c + 8), from_bf16(c + 16), from_bf16(c + 24)};
}
static inline v16 v16_load_f16(const void *p)
{
    const char *c = p;
    return (v16){from_f16(c), from_f16(c + 8), from_f16(c + 16), from_f16(c + 24)};
}
static inline v16 v16_load_bf16_part(const void *p, size_t n)
{
    uint16_t all[16] = {0};
    memcpy(all, p, n * sizeof *all);
    return v16_load_bf16(all);
}
static inline v16 v16_load_f16_part(const void *p, size_t n)
{
    uint16_t all[16] = {0};
    memcpy(all, p, n * sizeof *all);
    return v16_load_f16(all);
}

static inline uint16x4_t round_bf16(float32x4_t x)
{
    const uint32x4_t u = vreinterpretq_u32_f32(x), one = vdupq_n_u32(1);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), one);
    const uint32x4_t up = vaddq_u32(u, vaddq_u32(vdupq_n_u32(0x7fff), odd));
    const uint32x4_t nan = vorrq_u32(u, vdupq_n_u32(0x400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), up, nan), 16);
}
static inline void v16_store_bf16(void *p, v16 x)
{
    const uint16x8_t low = vcombine_u16(round_bf16(x.a), round_bf16(x.b));
    const uint16x8_t high = vcombine_u16(round_bf16(x.c), round_bf16(x.d));
    vst1q_u8(p, vreinterpretq_u8_u16(low));
    vst1q_u8((uint8_t *)p + 16, vreinterpretq_u8_u16(high));
}
/* FMIN and FMAX give a NaN for one. */
static inline uint8x8_t round_f16(float32x4_t x)
{
    const float32x4_t most = vdupq_n_f32(65504), least = vdupq_n_f32(-65504);
    return vreinterpret_u8_f16(vcvt_f16_f32(vmaxq_f32(least, vminq_f32(most, x))));
}
static inline void v16_store_f16(void *p, v16 x)
{
    vst1q_u8(p, vcombine_u8(round_f16(x.a), round_f16(x.b)));
    vst1q_u8((uint8_t *)p + 16, vcombine_u8(round_f16(x.c), round_f16(x.d)));
}

static inline v16 v16_add(v16 x, v16 y)
{
    return (v16)V16_2(vaddq_f32, x, y);
}
static inline v16 v16_sub(v16 x, v16 y)
{
    return (v16)V16_2(vsubq_f32, x, y);
}
static inline v16 v16_mul(v16 x, v16 y)
{
    return (v16)V16_2(vmulq_f32, x, y);
}
static inline v16 v16_div(v16 x, v16 y)
{
    return (v16)V16_2(vdivq_f32, x, y);
}
static inline v16 v16_fma(v16 x, v16 y, v16 z)
{
    return (v16)V16_3(vfmaq_f32, z, x, y);
}
static inline v16 v16_fnma(v16 x, v16 y, v16 z)
{
    return (v16)V16_3(vfmsq_f32, z, x, y);
}
/* By comparison: Arm's own maximum treats NaN and zeros in another way. */
static inline float32x4_t greater(float32x4_t x, float32x4_t y)
{
    return vbslq_f32(vcgtq_f32(x, y), x, y);
}
static inline float32x4_t smaller(float32x4_t x, float32x4_t y)
{
    return vbslq_f32(vcltq_f32(x, y), x, y);
}
static inline v16 v16_max(v16 x, v16 y)
{
    return (v16)V16_2(greater, x, y);
}
static inline v16 v16_min(v16 x, v16 y)
{
    return (v16)V16_2(smaller, x, y);
}
static inline float32x4_t power_below(float32x4_t x)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(0x7f800000)));
}
static inline v16 v16_power_below(v16 x)
{
    return (v16)V16_1(power_below, x);
}
static inline v16 v16_above(v16 x, v16 y, v16 a, v16 b)
{
    return (v16){
        vbslq_f32(vcgtq_f32(x.a, y.a), a.a, b.a), vbslq_f32(vcgtq_f32(x.b, y.b), a.b, b.b),
        vbslq_f32(vcgtq_f32(x.c, y.c), a.c, b.c), vbslq_f32(vcgtq_f32(x.d, y.d), a.d, b.d)};
}
static inline v16 v16_negate(v16 x)
{
    return (v16)V16_1(vnegq_f32, x);
}

static inline float v16_sum(v16 x)
{
    const float32x4_t q = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
    const float32x2_t h = vadd_f32(vget_low_f32(q), vget_high_f32(q));
    return vget_lane_f32(h, 0) + vget_lane_f32(h, 1);
}
static inline float v16_max_lane(v16 x)
{
    float all[16], m;
    v16_store(all, x);
    m = all[0];
    for (int i = 1; i < 16; i++) m = all[i] > m ? all[i] : m;
    return m;
}

static inline float32x4_t scale_4(float32x4_t x, float32x4_t t)
{
    const int32x4_t magic = vdupq_n_s32(PITH_EXP32_MAGIC_BITS), one = vdupq_n_s32(127);
    const int32x4_t k = vsubq_s32(vreinterpretq_s32_f32(t), magic), half = vshrq_n_s32(k, 1);
    const int32x4_t p = vshlq_n_s32(vaddq_s32(half, one), 23);
    const int32x4_t q = vshlq_n_s32(vaddq_s32(vsubq_s32(k, half), one), 23);
    return vmulq_f32(vmulq_f32(x, vreinterpretq_f32_s32(p)), vreinterpretq_f32_s32(q));
}
static inline v16 v16_scale(v16 x, v16 t)
{
    return (v16)V16_2(scale_4, x, t);
}

static inline void v16_store_u8(uint8_t *p, v16 x)
{
    const uint16x8_t low =
        vcombine_u16(vmovn_u32(vcvtq_u32_f32(x.a)), vmovn_u32(vcvtq_u32_f32(x.b)));
    const uint16x8_t high =
        vcombine_u16(vmovn_u32(vcvtq_u32_f32(x.c)), vmovn_u32(vcvtq_u32_f32(x.d)));
    vst1q_u8(p, vcombine_u8(vmovn_u16(low), vmovn_u16(high)));
}
static inline void v16_store_u8_part(uint8_t *p, v16 x, size_t n)
{
    uint8_t all[16];
    v16_store_u8(all, x);
    memcpy(p, all, n);
}
static inline float32x4_t from_bits(float32x4_t x)
{
    return vcvtq_f32_s32(vreinterpretq_s32_f32(x));
}
static inline float32x4_t to_bits(float32x4_t x)
{
    return vreinterpretq_f32_s32(vcvtq_s32_f32(x));
}
static inline v16 v16_number_of_bits(v16 x)
{
    return (v16)V16_1(from_bits, x);
}
static inline v16 v16_bits_of_number(v16 x)
{
    return (v16)V16_1(to_bits, x);
}

static inline v16d v16d_set(double x)
{
    const float64x2_t v = vdupq_n_f64(x);
    return (v16d){v, v, v, v, v, v, v, v};
}
static inline v16d v16d_zero(void)
{
    return v16d_set(0);
}
static inline v16d v16d_from(v16 x)
{
    return (v16d){vcvt_f64_f32(vget_low_f32(x.a)), vcvt_high_f64_f32(x.a),
                  vcvt_f64_f32(vget_low_f32(x.b)), vcvt_high_f64_f32(x.b),
                  vcvt_f64_f32(vget_low_f32(x.c)), vcvt_high_f64_f32(x.c),
                  vcvt_f64_f32(vget_low_f32(x.d)), vcvt_high_f64_f32(x.d)};
}
static inline v16d v16d_add(v16d x, v16d y)
{
    return (v16d)V16D_2(vaddq_f64, x, y);
}
static inline v16d v16d_sub(v16d x, v16d y)
{
    return (v16d)V16D_2(vsubq_f64, x, y);
}
static inline v16d v16d_mul(v16d x, v16d y)
{
    return (v16d)V16D_2(vmulq_f64, x, y);
}
static inline float64x2_t greater_f64(float64x2_t x, float64x2_t y)
{
    return vbslq_f64(vcgtq_f64(x, y), x, y);
}
static inline v16d v16d_max(v16d x, v16d y)
{
    return (v16d)V16D_2(greater_f64, x, y);
}
static inline v16d v16d_div(v16d x, v16d y)
{
    return (v16d)V16D_2(vdivq_f64, x, y);
}
static inline float64x2_t signed_2(float64x2_t x, float64x2_t s)
{
    return vbslq_f64(vdupq_n_u64((uint64_t)1 << 63), s, x);
}
static inline v16d v16d_signed(v16d x, v16d s)
{
    return (v16d)V16D_2(signed_2, x, s);
}
static inline v16 v16d_narrow(v16d x)
{
    return (v16){vcvt_high_f32_f64(vcvt_f32_f64(x.a), x.b),
                 vcvt_high_f32_f64(vcvt_f32_f64(x.c), x.d),
                 vcvt_high_f32_f64(vcvt_f32_f64(x.e), x.f),
                 vcvt_high_f32_f64(vcvt_f32_f64(x.g), x.h)};
}
static inline v16d v16d_fma(v16d x, v16d y, v16d z)
{
    return (v16d)V16D_3(vfmaq_f64, z, x, y);
}
static inline v16d v16d_fnma(v16d x, v16d y, v16d z)
{
    return (v16d)V16D_3(vfmsq_f64, z, x, y);
}
static inline float64x2_t scale_2(float64x2_t x, float64x2_t t)
{
    const int64x2_t bias = vdupq_n_s64(PITH_EXP64_MAGIC_BITS - 1023);
    const int64x2_t k = vsubq_s64(vreinterpretq_s64_f64(t), bias);
    return vmulq_f64(x, vreinterpretq_f64_s64(vshlq_n_s64(k, 52)));
}
static inline v16d v16d_scale(v16d x, v16d t)
{
    return (v16d)V16D_2(scale_2, x, t);
}
static inline v16d v16d_part(v16d x, size_t n)
{
    double all[16];
    memcpy(all, &x, sizeof all);
    for (size_t i = n; i < 16; i++) all[i] = 0;
    memcpy(&x, all, sizeof all);
    return x;
}
static inline double v16d_sum(v16d x)
{
    const float64x2_t p = vaddq_f64(vaddq_f64(x.a, x.e), vaddq_f64(x.c, x.g));
    const float64x2_t q = vaddq_f64(vaddq_f64(x.b, x.f), vaddq_f64(x.d, x.h));
    const float64x2_t s = vaddq_f64(p, q);
    return vgetq_lane_f64(s, 0) + vgetq_lane_f64(s, 1);
}

#undef V16_1
#undef V16_2
#undef V16_3
#undef V16D_2
#undef V16D_3
#endif
