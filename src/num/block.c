#include "num/block.h"

#include "base/mem.h"
#include "num/elements/elements.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Largest magnitude; NaN when one of them is. */
static float largest(const float *x, size_t n)
{
    float amax = 0;
    for (size_t i = 0; i < n; i++) {
        const float a = fabsf(x[i]);
        if (isnan(a)) return a;
        if (a > amax) amax = a;
    }
    return amax;
}

uint8_t pith_mx_scale(const struct pith_format *f, const float *x, size_t n)
{
    const float amax = largest(x, n);
    if (!isfinite(amax)) return 0xff;
    if (amax == 0) return 0;
    int exponent, top;
    frexpf(amax, &exponent);
    frexpf(f->max, &top);
    const int e = exponent - top;
    return (uint8_t)(e < -127 ? 0 : e + 127);
}

void pith_mx_encode(const struct pith_format *f, const float *x, size_t n, uint8_t scale,
                    uint8_t *codes)
{
    const struct pith_format *element = pith_format_find(f->element);
    if (scale == 0xff) {
        memset(codes, 0, n);
        return;
    }
    for (size_t i = 0; i < n; i++) codes[i] = (uint8_t)element->encode(ldexpf(x[i], 127 - scale));
}

void pith_mx_decode(const struct pith_format *f, const uint8_t *codes, size_t n, uint8_t scale,
                    float *out)
{
    const struct pith_format *element = pith_format_find(f->element);
    const float s = pith_e8m0_decode(scale);
    for (size_t i = 0; i < n; i++) out[i] = element->decode(codes[i]) * s;
}

float pith_nvfp4_global(float amax)
{
    const float global = amax / (6.0f * 448.0f);
    return isfinite(global) && global >= FLT_MIN ? global : 1.0f;
}

/* True when dividing by one is multiplying by the other: for the eight significands that E4M3 has;
 * exponents do not matter. */
static bool are_twins(float factor, float divisor)
{
    for (int m = 8; m < 16; m++)
        if ((float)m * factor != (float)m / divisor) return false;
    return true;
}

float pith_nvfp4_divisor(float global)
{
    const float inverse = 1.0f / global;
    const float tries[] = {inverse, nextafterf(inverse, INFINITY), nextafterf(inverse, 0.0f)};
    for (size_t i = 0; i < PITH_COUNT(tries); i++)
        if (are_twins(global, tries[i])) return tries[i];
    return inverse;
}

float pith_nvfp4_twin(float global)
{
    enum { NEAR = 8192 }; /* about one in a thousand */
    float g = global;
    for (int i = 0; i < NEAR && isnormal(g) && isnormal(1.0f / g); i++) {
        if (are_twins(g, pith_nvfp4_divisor(g))) return g;
        g = nextafterf(g, INFINITY);
    }
    return global;
}

uint8_t pith_nvfp4_scale(const float *x, size_t n, float global)
{
    const float scale = largest(x, n) / (6.0f * global);
    if (isnan(scale)) return 0x7f;
    return (uint8_t)pith_fp8_e4m3_encode(scale < 0x1p-9f ? 0x1p-9f : scale);
}

void pith_nvfp4_encode(const float *x, size_t n, float global, uint8_t scale, uint8_t *codes)
{
    const float s = pith_fp8_e4m3_decode(scale) * global;
    for (size_t i = 0; i < n; i++) codes[i] = (uint8_t)pith_fp4_e2m1_encode(x[i] / s);
}

void pith_nvfp4_decode(const uint8_t *codes, size_t n, float global, uint8_t scale, float *out)
{
    const float s = pith_fp8_e4m3_decode(scale);
    for (size_t i = 0; i < n; i++) out[i] = pith_fp4_e2m1_decode(codes[i]) * s * global;
}
