/* num/elements/minifloat.h: the arithmetic that all small floats share: sign, exponent with a bias,
 * mantissa, subnormals. The shape is a constant wherever these are called, so each caller
 * compiles to its own code. */
#ifndef PITH_NUM_ELEMENTS_MINIFLOAT_H
#define PITH_NUM_ELEMENTS_MINIFLOAT_H

#include <stdint.h>
#include <string.h>

struct pith_minifloat {
    int exponent_bits, mantissa_bits, bias;
    uint32_t max_code; /* of the largest finite magnitude, sign bit clear */
};

/* The float with these bits, and back. */
static inline float pith_bits_to_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint32_t pith_float_to_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* Code of |x|, sign bit clear: nearest, ties to even, not saturated: a code above max_code
 * overflowed. x must not be NaN. The rounding is done by the adder: adding a float whose last
 * place is the subnormal step leaves the quotient in the low bits; above that range the carry
 * out of the mantissa is wanted. */
static inline uint32_t pith_minifloat_round(struct pith_minifloat f, float x)
{
    const uint32_t abs = pith_float_to_bits(x) & 0x7fffffffu;
    const uint32_t min_normal = (uint32_t)(128 - f.bias) << 23;
    if (abs < min_normal) {
        const uint32_t magic = (uint32_t)(128 - f.bias - f.mantissa_bits + 23) << 23;
        return pith_float_to_bits(pith_bits_to_float(abs) + pith_bits_to_float(magic)) - magic;
    }
    const int shift = 23 - f.mantissa_bits;
    const uint32_t even = abs >> shift & 1;
    const uint32_t rounded = (abs + (1u << (shift - 1)) - 1 + even) >> shift;
    return rounded - ((uint32_t)(127 - f.bias) << f.mantissa_bits);
}

/* The same with the sign, saturated to the largest finite magnitude. */
static inline uint32_t pith_minifloat_saturate(struct pith_minifloat f, float x)
{
    const uint32_t code = pith_minifloat_round(f, x);
    const uint32_t sign = pith_float_to_bits(x) >> 31 << (f.exponent_bits + f.mantissa_bits);
    return sign | (code < f.max_code ? code : f.max_code);
}

/* Value of a code that is neither NaN nor infinity; upper bits are ignored. Exact. */
static inline float pith_minifloat_value(struct pith_minifloat f, uint32_t code)
{
    const int width = f.exponent_bits + f.mantissa_bits;
    const uint32_t abs = code & ((1u << width) - 1);
    const uint32_t sign = (code >> width & 1) << 31;
    const uint32_t normal = (abs << (23 - f.mantissa_bits)) + ((uint32_t)(127 - f.bias) << 23);
    const float step = pith_bits_to_float((uint32_t)(128 - f.bias - f.mantissa_bits) << 23);
    const uint32_t subnormal = pith_float_to_bits((float)(int32_t)abs * step);
    return pith_bits_to_float(sign | (abs >> f.mantissa_bits ? normal : subnormal));
}

#endif
