/* FP5, made up: a sign, two bits of exponent, two of mantissa; every code is a number. */
#include "num/codecs.h"
#include "num/minifloat.h"

#include <math.h>

static const struct pith_minifloat e2m2 = {2, 2, 1, 0xf};

float pith_fp5_e2m2_decode(uint32_t code)
{
    return pith_minifloat_value(e2m2, code);
}

uint32_t pith_fp5_e2m2_encode(float x)
{
    return isnan(x) ? 0 : pith_minifloat_saturate(e2m2, x);
}
