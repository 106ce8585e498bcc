/* Weights on the levels of small float formats and of codebooks. */
#include "kern/grid.h"
#include "kern/ops.h"
#include "num/codebook.h"

#include <math.h>
#include <string.h>

void pith_group_max_scalar(size_t n, size_t group, const float *x, float *most)
{
    for (size_t first = 0; first < n; first += group, most++) {
        const size_t m = n - first < group ? n - first : group;
        float greatest = 0.0f, sum = 0.0f;
        for (size_t i = first; i < first + m; i++) {
            const float a = fabsf(x[i]);
            greatest = a > greatest ? a : greatest;
            sum += x[i] * 0.0f;
        }
        *most = greatest + sum;
    }
}

static float power_below(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0x7f800000u;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float number_of_bits(float x)
{
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (float)bits;
}

/* The level nearest to t, which is not negative; NaN gives 0. */
static float nearest_level(const struct pith_float_levels *f, float t)
{
    t = t > 0.0f ? t : 0.0f;
    t = t < f->max ? t : f->max;
    float p = power_below(t);
    p = (p > f->min_normal ? p : f->min_normal) * f->magic;
    return (t + p) - p;
}

void pith_float_round_scalar(size_t n, const float *w, const float *scale, size_t group,
                             const struct pith_float_levels *f, uint8_t *codes, float *values)
{
    for (size_t i = 0; i < n; i++) {
        const float s = scale[i / group];
        const bool negative = signbit(w[i]);
        const float v = nearest_level(f, fabsf(w[i] / s));
        if (codes) {
            const float high = number_of_bits(v) * f->unit - f->offset, low = v * f->per_step;
            const float code = fmaxf(high, fminf(low, f->normal));
            codes[i] = (uint8_t)(int32_t)(negative ? code + f->sign : code);
        }
        if (values) values[i] = (negative ? -v : v) * s;
    }
}

void pith_float_trials_scalar(size_t n, const float *w, const float *weight, size_t count,
                              const float *inverse, const struct pith_float_levels *f, float *sum)
{
    for (size_t k = 0; k < count; k++) {
        float acc[PITH_LANES] = {0};
        for (size_t i = 0; i < n; i++) {
            const float t = fabsf(w[i] * inverse[k]), d = t - nearest_level(f, t);
            const float felt = weight ? weight[i] * d : d;
            acc[i % PITH_LANES] = fmaf(felt, d, acc[i % PITH_LANES]);
        }
        sum[k] = pith_lanes_sum(acc);
    }
}

void pith_book_round_scalar(size_t n, const float *w, const float *scale, size_t group,
                            const struct pith_codebook *book, uint8_t *codes, float *values)
{
    for (size_t i = 0; i < n; i++) {
        const float s = scale[i / group], t = w[i] * (1.0f / (s > 1e-38f ? s : 1e-38f));
        size_t k = 0;
        while (k < PITH_BOOK_LEVELS - 1 && t > book->threshold[k]) k++;
        if (codes) codes[i] = book->code[k];
        if (values) values[i] = book->level[k] * s;
    }
}
