/* The levels of GGUF's types IQ1 to IQ3, by codes of the digit and 8 (num/gguf/iq.h). Codes that no
 * vector has are 0. */
#include "num/elements/elements.h"

static float signed_level(const float level[8], uint32_t code)
{
    return code & 8 ? -level[code & 7] : level[code & 7];
}

float pith_iq1_decode(uint32_t code)
{
    const uint32_t digit = code & 7;
    return digit > 2 ? 0.0f : (float)digit - 1.0f + (code & 8 ? -0.125f : 0.125f);
}

float pith_iq2_decode(uint32_t code)
{
    static const float level[8] = {1.0f, 3.125f, 5.375f};
    return signed_level(level, code);
}

float pith_iq3_decode(uint32_t code)
{
    static const float level[8] = {1.0f, 3.0f, 5.0f, 7.0f, 9.0f, 11.0f, 13.0f, 15.5f};
    return signed_level(level, code);
}

float pith_odd4_decode(uint32_t code)
{
    static const float level[8] = {1.0f, 3.0f, 5.0f, 7.0f, 9.0f, 11.0f, 13.0f, 15.0f};
    return signed_level(level, code);
}
