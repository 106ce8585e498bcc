/* Weights on an even grid, and how far they are from it. */
#include "kern/grid.h"
#include "kern/ops.h"

#include <math.h>
#include <string.h>

double pith_sumsq_diff_scalar(size_t n, const float *x, const float *y)
{
    double acc[PITH_LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        const double d = (double)x[i] - (double)y[i];
        acc[i % PITH_LANES] = fma(d, d, acc[i % PITH_LANES]);
    }
    return pith_lanes_sum_f64(acc);
}

void pith_range_scalar(size_t n, const float *x, float *lo, float *hi)
{
    float least = 0.0f, most = 0.0f, sum = 0.0f;
    for (size_t i = 0; i < n; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
        sum += x[i] * 0.0f;
    }
    *lo = least + sum;
    *hi = most + sum;
}

/* NaN becomes the lowest. */
static float cut_off(float t)
{
    t = t > -PITH_GRID_LIMIT ? t : -PITH_GRID_LIMIT;
    return t < PITH_GRID_LIMIT ? t : PITH_GRID_LIMIT;
}

/* The code, as a float, of a weight in units of the scale, cut off. */
static float unit_code(float t, float zero, float top)
{
    t = (t + PITH_GRID_MAGIC) - PITH_GRID_MAGIC + zero;
    t = t > 0.0f ? t : 0.0f;
    return t < top ? t : top;
}

static float grid_code(float w, float scale, float zero, float top)
{
    return unit_code(cut_off(w / scale), zero, top);
}

void pith_grid_round_scalar(size_t n, const float *w, const float *scale, const float *zero,
                            size_t step, float top, uint8_t *codes, float *values)
{
    for (size_t i = 0; i < n; i++) {
        const float s = scale[i * step], z = zero[i * step], u = grid_code(w[i], s, z, top);
        if (codes) codes[i] = (uint8_t)(int32_t)u;
        if (values) values[i] = (u - z) * s;
    }
}

static float fifth_root_step(float a, float z)
{
    const float z2 = z * z;
    return z * (1.2f - 0.2f * (((a * z) * z2) * z2));
}

float pith_pow24(float x)
{
    const float a = x * x;
    int32_t bits;
    memcpy(&bits, &a, sizeof bits);
    const int32_t guess = (int32_t)(PITH_POW24_GUESS - 0.2f * (float)bits);
    float z;
    memcpy(&z, &guess, sizeof z);
    z = fifth_root_step(a, fifth_root_step(a, fifth_root_step(a, z)));
    return (a * a) * ((z * z) * (z * z));
}

void pith_grid_error_scalar(size_t n, const float *w, const struct pith_grid_trial *t,
                            float acc[PITH_TRIAL_LANES])
{
    for (size_t i = 0; i < n; i++) {
        const float u = grid_code(w[i], t->scale, t->zero, t->top);
        const float e = pith_pow24((w[i] - (u - t->zero) * t->scale) * t->unit);
        acc[i % PITH_TRIAL_LANES] += e;
    }
}

void pith_grid_squares_scalar(size_t n, const float *w, const float *weight,
                              const struct pith_grid_fit *t, struct pith_grid_sums *sums)
{
    float error[PITH_LANES] = {0}, slope[PITH_LANES] = {0}, square[PITH_LANES] = {0};
    for (size_t i = 0; i < n; i++) {
        const size_t lane = i % PITH_LANES;
        const float x = cut_off(w[i] * t->inverse), q = unit_code(x, t->zero, t->top) - t->zero,
                    e = x - q;
        error[lane] = fmaf(weight[i] * e, e, error[lane]);
        slope[lane] = fmaf(weight[i] * e, q, slope[lane]);
        square[lane] = fmaf(weight[i] * q, q, square[lane]);
    }
    *sums = (struct pith_grid_sums){pith_lanes_sum(error), pith_lanes_sum(slope),
                                    pith_lanes_sum(square)};
}
