/* FP8 of the OCP 8-bit floating point specification: E4M3 has no infinity and one NaN a sign,
 * E5M2 is a shortened half. */
#include "num/elements/elements.h"
#include "num/elements/minifloat.h"

#include <math.h>

static const struct pith_minifloat e4m3 = {4, 3, 7, 0x7e};
static const struct pith_minifloat e5m2 = {5, 2, 15, 0x7b};

float pith_fp8_e4m3_decode(uint32_t code)
{
    return (code & 0x7f) == 0x7f ? NAN : pith_minifloat_value(e4m3, code);
}

uint32_t pith_fp8_e4m3_encode(float x)
{
    return isnan(x) ? 0x7f : pith_minifloat_saturate(e4m3, x);
}

float pith_fp8_e5m2_decode(uint32_t code)
{
    const uint32_t abs = code & 0x7f;
    if (abs > 0x7c) return NAN;
    if (abs == 0x7c) return code & 0x80 ? -INFINITY : INFINITY;
    return pith_minifloat_value(e5m2, code);
}

uint32_t pith_fp8_e5m2_encode(float x)
{
    return isnan(x) ? 0x7f : pith_minifloat_saturate(e5m2, x);
}
