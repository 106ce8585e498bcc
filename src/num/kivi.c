#include "num/kivi.h"

#include "num/format.h"

#include <math.h>
#include <string.h>

static float half(float x)
{
    const float most = 65504;
    return pith_round_to(PITH_F16, x > most ? most : x < -most ? -most : x);
}

void pith_kivi_encode(unsigned bits, const float *x, size_t n, uint8_t *codes, float *scale,
                      float *least)
{
    const float most = (float)((1u << bits) - 1), whole = 0x1.8p23f; /* rounds to integers */
    float lo = INFINITY, hi = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
        sum += x[i] - x[i]; /* 0, or NaN */
    }
    lo = half(lo);
    *scale = half(half(half(hi) - lo) / most);
    *least = sum == 0 ? lo : NAN;
    memset(codes, 0, n);
    for (size_t i = 0; i < n && sum == 0 && *scale > 0; i++) {
        const float steps = half(half(half(x[i]) - lo) / *scale);
        codes[i] = (uint8_t)((steps < most ? steps : most) + whole - whole);
    }
    if (sum != 0) *scale = 0;
}
