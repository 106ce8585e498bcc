/* Exponential and logarithm, and the closing of sums in lanes: what the scalar kernels share. */
#include "kern/exp.h"
#include "kern/ops.h"

#include <math.h>
#include <string.h>

float pith_lanes_sum(float acc[PITH_LANES])
{
    for (int half = PITH_LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) acc[l] += acc[l + half];
    return acc[0];
}

double pith_lanes_sum_f64(double acc[PITH_LANES])
{
    for (int half = PITH_LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++) acc[l] += acc[l + half];
    return acc[0];
}

static float power_of_two(int32_t n)
{
    const uint32_t bits = (uint32_t)(n + 127) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float pith_exp_f32(float x)
{
    /* Written so that NaN falls through both limits. */
    x = PITH_EXP32_HIGH < x ? PITH_EXP32_HIGH : x;
    x = PITH_EXP32_LOW > x ? PITH_EXP32_LOW : x;
    const float t = fmaf(x, PITH_EXP32_LOG2E, PITH_EXP32_MAGIC);
    const float n = t - PITH_EXP32_MAGIC;
    float r = fmaf(-n, PITH_EXP32_LN2_HIGH, x);
    r = fmaf(-n, PITH_EXP32_LN2_LOW, r);
    float p;
#define FIRST(c) p = (c);
#define NEXT(c) p = fmaf(p, r, (c));
    PITH_EXP32_POLY(FIRST, NEXT)
#undef FIRST
#undef NEXT
    if (n != n) return n;
    /* 2^n itself may overflow or be subnormal; its two factors are not. */
    const int32_t k = (int32_t)n, half = k >> 1;
    return p * power_of_two(half) * power_of_two(k - half);
}

double pith_exp_f64(double x)
{
    x = PITH_EXP64_HIGH < x ? PITH_EXP64_HIGH : x;
    x = PITH_EXP64_LOW > x ? PITH_EXP64_LOW : x;
    const double t = fma(x, PITH_EXP64_LOG2E, PITH_EXP64_MAGIC);
    const double n = t - PITH_EXP64_MAGIC;
    double r = fma(-n, PITH_EXP64_LN2_HIGH, x);
    r = fma(-n, PITH_EXP64_LN2_LOW, r);
    double p;
#define FIRST(c) p = (c);
#define NEXT(c) p = fma(p, r, (c));
    PITH_EXP64_POLY(FIRST, NEXT)
#undef FIRST
#undef NEXT
    if (n != n) return n;
    const uint64_t bits = (uint64_t)((int64_t)n + 1023) << 52;
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

double pith_log_f64(double x)
{
    if (!(x >= 1 && x <= 0x1.fffffffffffffp+1023)) return (double)NAN;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    /* x = 2^k m, m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(f), f = (m - 1) / (m + 1), |f| <
     * 0.172. */
    int k = (int)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffff) | ((uint64_t)1023 << 52);
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 0x1.6a09e667f3bcdp+0) {
        m /= 2;
        k++;
    }
    const double f = (m - 1) / (m + 1), f2 = f * f;
    double s = 0;
    for (int i = 25; i >= 3; i -= 2) s = s * f2 + 1.0 / i;
    const double small = 2 * f * f2 * s + k * PITH_EXP64_LN2_LOW;
    return k * PITH_EXP64_LN2_HIGH + (2 * f + small);
}
