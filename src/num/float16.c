/* f32, f16 and bf16, one by one and in bulk. */
#include "num/codecs.h"
#include "num/minifloat.h"

#include <math.h>

static const struct pith_minifloat half = {5, 10, 15, 0x7bff};

float pith_f16_to_f32(uint16_t h)
{
    /* Without branches, so that compilers vectorize loops over it. Subnormals and zero: the
     * mantissa is placed below an implicit one, which is then subtracted. */
    const uint32_t abs = (uint32_t)(h & 0x7fff) << 13;
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t small_bias = 113u << 23;
    const float small = pith_bits_to_float(abs + small_bias) - pith_bits_to_float(small_bias);
    const uint32_t normal = abs + (112u << 23);
    const uint32_t special = abs + (224u << 23);
    const uint32_t low = abs < (1u << 23) ? pith_float_to_bits(small) : normal;
    return pith_bits_to_float(sign | (abs >= (31u << 23) ? special : low));
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
    return pith_bits_to_float((uint32_t)h << 16);
}

uint16_t pith_f32_to_bf16(float x)
{
    const uint32_t bits = pith_float_to_bits(x);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    /* A NaN keeps its upper payload and stays one when all its set bits were below. */
    const uint32_t nan = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
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

/* Bulk conversions run over local arrays of a constant length: unaligned memory goes through
 * memcpy, and compilers vectorize such loops even where they are careful about code size. */
enum { CHUNK = 32 };

static void decode_f16(const void *src, size_t n, float *dst)
{
    const unsigned char *p = src;
    uint16_t in[CHUNK];
    float out[CHUNK];
    for (; n >= CHUNK; n -= CHUNK, p += sizeof in, dst += CHUNK) {
        memcpy(in, p, sizeof in);
        for (size_t i = 0; i < CHUNK; i++) out[i] = pith_f16_to_f32(in[i]);
        memcpy(dst, out, sizeof out);
    }
    memcpy(in, p, n * sizeof in[0]);
    for (size_t i = 0; i < n; i++) dst[i] = pith_f16_to_f32(in[i]);
}

static void decode_bf16(const void *src, size_t n, float *dst)
{
    const unsigned char *p = src;
    uint16_t in[CHUNK];
    float out[CHUNK];
    for (; n >= CHUNK; n -= CHUNK, p += sizeof in, dst += CHUNK) {
        memcpy(in, p, sizeof in);
        for (size_t i = 0; i < CHUNK; i++) out[i] = pith_bf16_to_f32(in[i]);
        memcpy(dst, out, sizeof out);
    }
    memcpy(in, p, n * sizeof in[0]);
    for (size_t i = 0; i < n; i++) dst[i] = pith_bf16_to_f32(in[i]);
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

static void encode_16(const float *src, size_t n, void *dst, uint16_t (*one)(float))
{
    unsigned char *p = dst;
    for (size_t i = 0; i < n; i++, p += sizeof(uint16_t)) {
        const uint16_t h = one(src[i]);
        memcpy(p, &h, sizeof h);
    }
}

bool pith_dtype_encode(enum pith_dtype t, const float *src, size_t n, void *dst)
{
    switch (t) {
    case PITH_F32:
        if (n) memcpy(dst, src, n * sizeof *src);
        return true;
    case PITH_F16: encode_16(src, n, dst, pith_f32_to_f16); return true;
    case PITH_BF16: encode_16(src, n, dst, pith_f32_to_bf16); return true;
    default: return false;
    }
}
