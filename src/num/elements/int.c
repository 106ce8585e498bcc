/* Integers of 2 to 8 bits in two's complement. The grid's scale and zero point are not their
 * business. */
#include "num/elements/elements.h"

#include <math.h>

static float decode(uint32_t code, unsigned bits)
{
    const int32_t half = (int32_t)1 << (bits - 1);
    const int32_t u = (int32_t)(code & (((uint32_t)1 << bits) - 1));
    return (float)((u ^ half) - half);
}

static uint32_t encode(float x, unsigned bits)
{
    const float half = (float)((int32_t)1 << (bits - 1));
    if (isnan(x)) return 0;
    const float clamped = x < -half ? -half : x > half - 1 ? half - 1 : x;
    /* At 2^23 the last place of a float is 1: the sum rounds to nearest even. */
    const float rounded = (clamped + 0x1.8p23f) - 0x1.8p23f;
    return (uint32_t)(int32_t)rounded & (((uint32_t)1 << bits) - 1);
}

float pith_int2_decode(uint32_t code) { return decode(code, 2); }
float pith_int3_decode(uint32_t code) { return decode(code, 3); }
float pith_int4_decode(uint32_t code) { return decode(code, 4); }
float pith_int5_decode(uint32_t code) { return decode(code, 5); }
float pith_int6_decode(uint32_t code) { return decode(code, 6); }
float pith_int7_decode(uint32_t code) { return decode(code, 7); }
float pith_int8_decode(uint32_t code) { return decode(code, 8); }

uint32_t pith_int2_encode(float x) { return encode(x, 2); }
uint32_t pith_int3_encode(float x) { return encode(x, 3); }
uint32_t pith_int4_encode(float x) { return encode(x, 4); }
uint32_t pith_int5_encode(float x) { return encode(x, 5); }
uint32_t pith_int6_encode(float x) { return encode(x, 6); }
uint32_t pith_int7_encode(float x) { return encode(x, 7); }
uint32_t pith_int8_encode(float x) { return encode(x, 8); }
