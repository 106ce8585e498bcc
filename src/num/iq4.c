/* The 16 levels of GGUF's IQ4_NL and IQ4_XS, denser towards zero. */
#include "num/codecs.h"

#include <math.h>
#include <stddef.h>

static const float levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                 1,    13,   25,  38,  53,  69,  89,  113};

float pith_iq4_decode(uint32_t code)
{
    return levels[code & 15];
}

/* The nearest level, the lower one when two are as near. There is no zero: NaN takes 1. */
uint32_t pith_iq4_encode(float x)
{
    uint32_t code = 0;
    if (isnan(x)) return 8;
    while (code < 15 && x > 0.5f * (levels[code] + levels[code + 1])) code++;
    return code;
}
