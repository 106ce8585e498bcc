/* Codes whose levels are each row's own: by themselves they are numbers of levels. */
#include "num/elements/elements.h"

#include <math.h>

static uint32_t nearest(float x, float top)
{
    if (isnan(x)) return 0;
    return (uint32_t)(x < 0.0f ? 0.0f : x > top ? top : nearbyintf(x));
}

float pith_codebook3_decode(uint32_t code)
{
    return (float)(code & 7);
}

uint32_t pith_codebook3_encode(float x)
{
    return nearest(x, 7.0f);
}

float pith_codebook4_decode(uint32_t code)
{
    return (float)(code & 15);
}

uint32_t pith_codebook4_encode(float x)
{
    return nearest(x, 15.0f);
}
