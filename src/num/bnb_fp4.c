/* bitsandbytes' FP4: sign and three bits that index levels in no order. Neither the values nor
 * the codes are those of E2M1. */
#include "num/codecs.h"

#include <math.h>
#include <stddef.h>

static const float levels[8] = {0.0f,        0.0625f / 12, 8.0f / 12, 1.0f,
                                4.0f / 12,   0.5f,         2.0f / 12, 0.25f};

float pith_bnb_fp4_decode(uint32_t code)
{
    const float level = levels[code & 7];
    return code & 8 ? -level : level;
}

/* The thresholds are those of bitsandbytes' kernels to their printed digits, not midpoints to
 * the last bit; a magnitude on one takes the smaller level. NaN encodes zero. */
uint32_t pith_bnb_fp4_encode(float x)
{
    static const struct {
        float above;
        uint32_t code;
    } steps[] = {{0.8333333f, 3},  {0.583333f, 2},   {0.4166667f, 5}, {0.29166667f, 4},
                 {0.20833333f, 7}, {0.0859375f, 6}, {0.00260417f, 1}};
    const uint32_t sign = x < 0 ? 8 : 0;
    const float abs = fabsf(x);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (abs > steps[i].above) return sign | steps[i].code;
    return sign;
}
