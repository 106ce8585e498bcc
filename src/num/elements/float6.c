/* FP6 of OCP Microscaling 1.0: every code is a number. */
#include "num/elements/elements.h"
#include "num/elements/minifloat.h"

#include <math.h>

static const struct pith_minifloat e3m2 = {3, 2, 3, 0x1f};
static const struct pith_minifloat e2m3 = {2, 3, 1, 0x1f};

float pith_fp6_e3m2_decode(uint32_t code)
{
    return pith_minifloat_value(e3m2, code);
}

uint32_t pith_fp6_e3m2_encode(float x)
{
    return isnan(x) ? 0 : pith_minifloat_saturate(e3m2, x);
}

float pith_fp6_e2m3_decode(uint32_t code)
{
    return pith_minifloat_value(e2m3, code);
}

uint32_t pith_fp6_e2m3_encode(float x)
{
    return isnan(x) ? 0 : pith_minifloat_saturate(e2m3, x);
}
