#include "kern/neon/vec_neon.h"
#include "kern/template/rows_template.h"

float pith_max_neon(size_t n, const float *x)
{
    return row_max(n, x);
}

void pith_softmax_neon(size_t n, float *x)
{
    row_softmax(n, x);
}

void pith_silu_mul_neon(size_t n, float *gate, const float *up)
{
    row_silu_mul(n, gate, up);
}

double pith_sumsq_neon(size_t n, const float *x)
{
    return row_sumsq(n, x);
}

void pith_scale_mul_neon(size_t n, const float *x, float r, const float *weight, float *y)
{
    row_scale_mul(n, x, r, weight, y);
}

double pith_sum_exp_neon(size_t n, const float *x, float max)
{
    return row_sum_exp(n, x, max);
}
