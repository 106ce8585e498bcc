#include "kern/avx2/vec_avx2.h"
#include "kern/template/rows_template.h"

float pith_max_avx2(size_t n, const float *x)
{
    return row_max(n, x);
}

void pith_softmax_avx2(size_t n, float *x)
{
    row_softmax(n, x);
}

float pith_exp_sum_avx2(size_t n, float *x, float max)
{
    return row_exp_sum(n, x, max);
}

void pith_mix_avx2(size_t n, float a, float b, const float *x, float *y)
{
    row_mix(n, a, b, x, y);
}

void pith_add_avx2(size_t n, const float *x, float *y)
{
    row_add(n, x, y);
}

void pith_rope_pairs_avx2(size_t n, const float *cos, const float *sin, float *low, float *high)
{
    row_rope_pairs(n, cos, sin, low, high);
}

void pith_silu_mul_avx2(size_t n, float *gate, const float *up)
{
    row_silu_mul(n, gate, up);
}

void pith_silu_avx2(size_t n, float *x)
{
    row_silu(n, x);
}

void pith_sigmoid_avx2(size_t n, float *x)
{
    row_sigmoid(n, x);
}

void pith_gelu_tanh_avx2(size_t n, float *x)
{
    row_gelu_tanh(n, x);
}

void pith_softcap_avx2(size_t n, float cap, float *x)
{
    row_softcap(n, cap, x);
}

void pith_clamped_mul_avx2(size_t n, float limit, float alpha, float *gate, const float *up)
{
    row_clamped_mul(n, limit, alpha, gate, up);
}

void pith_mul_avx2(size_t n, const float *x, float *y)
{
    row_mul(n, x, y);
}

double pith_sumsq_avx2(size_t n, const float *x)
{
    return row_sumsq(n, x);
}

void pith_scale_mul_avx2(size_t n, const float *x, float r, const float *weight, float *y)
{
    row_scale_mul(n, x, r, weight, y);
}

double pith_sum_exp_avx2(size_t n, const float *x, float max, double scale)
{
    return row_sum_exp(n, x, max, scale);
}
