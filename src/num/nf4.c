/* NF4: quantiles of a normal distribution scaled to [-1, 1] (QLoRA, as bitsandbytes stores it). */
#include "num/codecs.h"

#include <math.h>

/* clang-format off */
static const float levels[16] = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f,
};
/* clang-format on */

float pith_nf4_decode(uint32_t code)
{
    return levels[code & 15];
}

/* bitsandbytes compares with the midpoint rounded to float, and a value on it takes the lower
 * level. */
uint32_t pith_nf4_encode(float x)
{
    if (isnan(x)) return 7;
    uint32_t code = 0;
    while (code < 15 && x > (levels[code] + levels[code + 1]) / 2) code++;
    return code;
}
