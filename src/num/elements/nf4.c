/* NF4: quantiles of a normal distribution scaled to [-1, 1] (QLoRA, as bitsandbytes stores it). */
#include "num/codebooks.h"
#include "num/elements/elements.h"

#include <math.h>
#include <stddef.h>

/* The thresholds of bitsandbytes' kernels, midpoints as they were printed: one or two differ
 * from the rounded midpoint by a bit. A value on a threshold takes the lower level. */
/* clang-format off */
const struct pith_codebook pith_nf4_book = {
    .level = {
        -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
        -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
        0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
        0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f,
    },
    .threshold = {
        -0.8480964004993439f,   -0.6106329262256622f,  -0.4599952697753906f,
        -0.33967943489551544f,  -0.23460740596055984f, -0.13791173323988914f,
        -0.045525018125772476f, 0.03979014977812767f,  0.1202552504837513f,
        0.2035212516784668f,    0.2920137718319893f,   0.3893125355243683f,
        0.5016634166240692f,    0.6427869200706482f,   0.8614784181118011f,
    },
    .code = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
};
/* clang-format on */

float pith_nf4_decode(uint32_t code)
{
    return pith_nf4_book.level[code & 15];
}

uint32_t pith_nf4_encode(float x)
{
    uint32_t code = 0;
    if (isnan(x)) return 7;
    for (size_t i = 0; i < PITH_BOOK_LEVELS - 1; i++) code += x > pith_nf4_book.threshold[i];
    return code;
}
