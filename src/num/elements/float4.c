/* FP4 E2M1 of OCP Microscaling 1.0: every code is a number. */
#include "num/elements/elements.h"
#include "num/elements/minifloat.h"

#include <math.h>

static const struct pith_minifloat e2m1 = {2, 1, 1, 0x7};

float pith_fp4_e2m1_decode(uint32_t code)
{
    return pith_minifloat_value(e2m1, code);
}

uint32_t pith_fp4_e2m1_encode(float x)
{
    return isnan(x) ? 0 : pith_minifloat_saturate(e2m1, x);
}
