/* Operations along one row of activations. */
#include "kern/exp.h"
#include "kern/ops.h"

#include <math.h>

float pith_max_scalar(size_t n, const float *x)
{
    float m = -INFINITY;
    for (size_t i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
    return m;
}

void pith_softmax_scalar(size_t n, float *x)
{
    const float m = pith_max_scalar(n, x);
    float acc[PITH_LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        x[i] = pith_exp_f32(x[i] - m);
        acc[i % PITH_LANES] += x[i];
    }
    const float r = 1.0f / pith_lanes_sum(acc);
    for (size_t i = 0; i < n; i++) x[i] *= r;
}

float pith_exp_sum_scalar(size_t n, float *x, float max)
{
    float acc[PITH_LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        x[i] = pith_exp_f32(x[i] - max);
        acc[i % PITH_LANES] += x[i];
    }
    return pith_lanes_sum(acc);
}

void pith_mix_scalar(size_t n, float a, float b, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = fmaf(a, y[i], b * x[i]);
}

void pith_add_scalar(size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = y[i] + x[i];
}

void pith_rope_pairs_scalar(size_t n, const float *cos, const float *sin, float *low, float *high)
{
    for (size_t i = 0; i < n; i++) {
        const float a = low[i], b = high[i];
        low[i] = a * cos[i] - b * sin[i];
        high[i] = b * cos[i] + a * sin[i];
    }
}

void pith_silu_mul_scalar(size_t n, float *gate, const float *up)
{
    for (size_t i = 0; i < n; i++) {
        const float e = pith_exp_f32(-gate[i]);
        gate[i] = gate[i] / (1.0f + e) * up[i];
    }
}

void pith_silu_scalar(size_t n, float *x)
{
    for (size_t i = 0; i < n; i++) x[i] = x[i] / (1.0f + pith_exp_f32(-x[i]));
}

void pith_sigmoid_scalar(size_t n, float *x)
{
    for (size_t i = 0; i < n; i++) x[i] = 1.0f / (1.0f + pith_exp_f32(-x[i]));
}

static double tanh_of(double x)
{
    const double e = pith_exp_f64(-2.0 * fabs(x));
    return copysign((1.0 - e) / (1.0 + e), x);
}

void pith_gelu_tanh_scalar(size_t n, float *x)
{
    for (size_t i = 0; i < n; i++) {
        const double v = (double)x[i], cube = PITH_GELU_CUBE * v * v * v;
        x[i] = (float)(0.5 * v * (1.0 + tanh_of(PITH_GELU_ROOT * (v + cube))));
    }
}

void pith_softcap_scalar(size_t n, float cap, float *x)
{
    const double c = (double)cap;
    for (size_t i = 0; i < n; i++) x[i] = (float)(c * tanh_of((double)x[i] / c));
}

void pith_clamped_mul_scalar(size_t n, float limit, float alpha, float *gate, const float *up)
{
    for (size_t i = 0; i < n; i++) {
        const float g = gate[i] < limit ? gate[i] : limit, least = up[i] < limit ? up[i] : limit;
        const float u = least > -limit ? least : -limit;
        gate[i] = g / (1.0f + pith_exp_f32(-alpha * g)) * (u + 1.0f);
    }
}

void pith_mul_scalar(size_t n, const float *x, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = y[i] * x[i];
}

double pith_sumsq_scalar(size_t n, const float *x)
{
    double acc[PITH_LANES] = {0};
    for (size_t i = 0; i < n; i++) acc[i % PITH_LANES] += (double)x[i] * (double)x[i];
    return pith_lanes_sum_f64(acc);
}

void pith_scale_mul_scalar(size_t n, const float *x, float r, const float *weight, float *y)
{
    for (size_t i = 0; i < n; i++) y[i] = x[i] * r * weight[i];
}

double pith_sum_exp_scalar(size_t n, const float *x, float max, double scale)
{
    double acc[PITH_LANES] = {0};
    for (size_t i = 0; i < n; i++)
        acc[i % PITH_LANES] += pith_exp_f64(((double)x[i] - (double)max) * scale);
    return pith_lanes_sum_f64(acc);
}
