/* f32, f16 and bf16, one by one and in bulk. */
#include "num/elements/elements.h"
#include "num/elements/minifloat.h"

#include <math.h>

static const struct pith_minifloat half = {5, 10, 15, 0x7bff};

/* All ones when a < b, else zero; both below 2^31. */
static inline uint32_t below(uint32_t a, uint32_t b)
{
    return (uint32_t)((int32_t)(a - b) >> 31);
}

/* Without branches, so that loops over it become vector code. Zero and subnormals: the mantissa
 * is placed below an implicit one, which is then subtracted. */
static inline float widen_f16(uint16_t h)
{
    const uint32_t abs = (uint32_t)(h & 0x7fff) << 13;
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t one = 113u << 23;
    const float small = pith_bits_to_float(abs + one) - pith_bits_to_float(one);
    const uint32_t is_small = below(abs, 1u << 23), is_finite = below(abs, 31u << 23);
    const uint32_t large = abs + (112u << 23) + (~is_finite & 112u << 23);
    return pith_bits_to_float(sign | (pith_float_to_bits(small) & is_small) | (large & ~is_small));
}

static inline float widen_bf16(uint16_t h)
{
    return pith_bits_to_float((uint32_t)h << 16);
}

float pith_f16_to_f32(uint16_t h)
{
    return widen_f16(h);
}

uint16_t pith_f32_to_f16(float x)
{
    const uint32_t bits = pith_float_to_bits(x);
    const uint32_t sign = bits >> 16 & 0x8000;
    const uint32_t abs = bits & 0x7fffffffu;
    if (abs > 0x7f800000u) return (uint16_t)(sign | 0x7e00 | (abs >> 13 & 0x3ff));
    const uint32_t code = pith_minifloat_round(half, x);
    return (uint16_t)(sign | (code < 0x7c00 ? code : 0x7c00));
}

float pith_bf16_to_f32(uint16_t h)
{
    return widen_bf16(h);
}

/* A NaN keeps its upper payload and stays one when all its set bits were below. */
static inline uint16_t narrow_bf16(float x)
{
    const uint32_t bits = pith_float_to_bits(x);
    const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    const uint32_t is_number = below(bits & 0x7fffffffu, 0x7f800001u);
    return (uint16_t)(((rounded & is_number) | ((bits | 0x400000u) & ~is_number)) >> 16);
}

uint16_t pith_f32_to_bf16(float x)
{
    return narrow_bf16(x);
}

float pith_f32_decode(uint32_t code)
{
    return pith_bits_to_float(code);
}

uint32_t pith_f32_encode(float x)
{
    return pith_float_to_bits(isinf(x) ? copysignf(0x1.fffffep127f, x) : x);
}

float pith_f16_decode(uint32_t code)
{
    return pith_f16_to_f32((uint16_t)(code & 0xffff));
}

uint32_t pith_f16_encode(float x)
{
    return isnan(x) ? 0x7e00 : pith_minifloat_saturate(half, x);
}

float pith_bf16_decode(uint32_t code)
{
    return pith_bf16_to_f32((uint16_t)(code & 0xffff));
}

uint32_t pith_bf16_encode(float x)
{
    const uint32_t code = pith_f32_to_bf16(x);
    return (code & 0x7fff) == 0x7f80 ? code - 1 : code;
}

float pith_round_to(enum pith_dtype t, float x)
{
    if (t == PITH_F16) return pith_f16_to_f32(pith_f32_to_f16(x));
    if (t == PITH_BF16) return pith_bf16_to_f32(pith_f32_to_bf16(x));
    return x;
}

/* Bulk conversions. The inner loops have a constant length, for which compilers make vector code
 * even when they mind its size; loads go through memcpy because the source may be unaligned. */
enum { STEP = 16 };

static inline uint16_t load_16(const unsigned char *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return h;
}

static void decode_f16(const unsigned char *restrict p, size_t n, float *restrict dst)
{
    for (; n >= STEP; n -= STEP, p += 2 * STEP, dst += STEP)
        for (size_t i = 0; i < STEP; i++) dst[i] = widen_f16(load_16(p + 2 * i));
    for (size_t i = 0; i < n; i++) dst[i] = widen_f16(load_16(p + 2 * i));
}

static void decode_bf16(const unsigned char *restrict p, size_t n, float *restrict dst)
{
    for (; n >= STEP; n -= STEP, p += 2 * STEP, dst += STEP)
        for (size_t i = 0; i < STEP; i++) dst[i] = widen_bf16(load_16(p + 2 * i));
    for (size_t i = 0; i < n; i++) dst[i] = widen_bf16(load_16(p + 2 * i));
}

static void decode_f64(const void *src, size_t n, float *dst)
{
    const unsigned char *p = src;
    for (size_t i = 0; i < n; i++, p += sizeof(double)) {
        double x;
        memcpy(&x, p, sizeof x);
        dst[i] = (float)x;
    }
}

bool pith_dtype_decode(enum pith_dtype t, const void *src, size_t n, float *dst)
{
    switch (t) {
    case PITH_F32:
        if (n) memcpy(dst, src, n * sizeof *dst);
        return true;
    case PITH_F16: decode_f16(src, n, dst); return true;
    case PITH_BF16: decode_bf16(src, n, dst); return true;
    case PITH_F64: decode_f64(src, n, dst); return true;
    default: return false;
    }
}

static inline void store_16(unsigned char *p, uint16_t h)
{
    memcpy(p, &h, sizeof h);
}

static void encode_f16(const float *restrict src, size_t n, unsigned char *restrict p)
{
    for (size_t i = 0; i < n; i++) store_16(p + 2 * i, pith_f32_to_f16(src[i]));
}

static void encode_bf16(const float *restrict src, size_t n, unsigned char *restrict p)
{
    for (; n >= STEP; n -= STEP, p += 2 * STEP, src += STEP)
        for (size_t i = 0; i < STEP; i++) store_16(p + 2 * i, narrow_bf16(src[i]));
    for (size_t i = 0; i < n; i++) store_16(p + 2 * i, narrow_bf16(src[i]));
}

bool pith_dtype_encode(enum pith_dtype t, const float *src, size_t n, void *dst)
{
    switch (t) {
    case PITH_F32:
        if (n) memcpy(dst, src, n * sizeof *src);
        return true;
    case PITH_F16: encode_f16(src, n, dst); return true;
    case PITH_BF16: encode_bf16(src, n, dst); return true;
    default: return false;
    }
}
