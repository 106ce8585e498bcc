/* E8M0: the exponent of a float alone, the scale of a microscaling block. It has neither zero
 * nor sign: zero and whatever lies below 2^-127 encode as 2^-127, and a negative scale is an
 * error, hence NaN. */
#include "num/elements/elements.h"
#include "num/elements/minifloat.h"

#include <math.h>

float pith_e8m0_decode(uint32_t code)
{
    code &= 0xff;
    if (code == 0xff) return NAN;
    return pith_bits_to_float(code ? code << 23 : 0x400000u);
}

uint32_t pith_e8m0_encode(float x)
{
    if (isnan(x) || x < 0) return 0xff;
    const uint32_t bits = pith_float_to_bits(x) & 0x7fffffffu;
    /* Code 0 is itself subnormal: between it and 2^-126 the mantissa has a bit less. */
    if (bits < 0x800000u) return bits >= 0x600000u;
    const uint32_t code = (bits + 0x400000u) >> 23;
    return code < 0xfe ? code : 0xfe;
}
