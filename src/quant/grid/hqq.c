/* quant/grid/hqq.c: half-quadratic zero points (HQQ, Badri and Shaji 2023), for integers.
 *
 * With the scale of the range, the zero point z is moved so that sum |w - (q - z) s|^0.7 falls, in
 * two alternating steps: errors e = w - (q - z) s are shrunk to the outliers e',
 *     e' = sign(e) max(0, |e| - |e|^-0.3 / beta),    beta = 10, growing by 1.01 an iteration, and z
 * is the mean of q - (w - e') / s. It begins where the smallest weight has code 0 and ends after 20
 * iterations, or with the first that lowers mean |e| no more. Errors below 0.14 are never outliers,
 * so that for the weights of most models z goes where the mean error is 0.
 *
 * z is any number, rounded to the dtype of the scales: a matrix holds -z s as its offsets. On whole
 * zero points, levels would be multiples of the scale again, and the gain would be lost. */
#include "quant/grid/hqq.h"

#include "kern/grid.h"
#include "quant/grid/kfit.h"
#include "quant/grid/line.h"
#include "quant/tables.h"

#include <math.h>
#include <string.h>

enum { ITERATIONS = 20 };

static bool takes(const struct pith_grid *grid)
{
    return grid->format->kind == PITH_KIND_INT && grid->hqq && grid->asym;
}

/* |x|^-0.3 for x in 2^-20..2^20, as the cube of z = x^(-1/10): the guess of z from the exponent
 * bits is within 7%, and after each of Newton's steps z (1.1 - 0.1 x z^10) the error is five and a
 * half times its square before. */
static float power_of(float x)
{
    uint32_t bits;
    float z;
    memcpy(&bits, &x, sizeof bits);
    bits = 1171670631u - bits / 10;
    memcpy(&z, &bits, sizeof z);
    for (int i = 0; i < 4; i++) {
        const float z2 = z * z, z4 = z2 * z2;
        z = z * (1.1f - 0.1f * (x * (z4 * z4 * z2)));
    }
    return z * z * z;
}

/* The part of an error that is let go. */
static float shrink(float e, float inverse_beta)
{
    const float a = fabsf(e);
    if (a < 0.14f) return 0.0f;
    const float left = a - inverse_beta * power_of(a < 0x1p20f ? a : 0x1p20f);
    return left > 0.0f ? copysignf(left, e) : 0.0f;
}

static float code_of(float t, float top)
{
    t = t > 0.0f ? t : 0.0f;
    t = t < top ? t : top;
    return (t + PITH_GRID_MAGIC) - PITH_GRID_MAGIC;
}

/* An iteration's sums in lanes, of |e| and of q - (w - e') / s, both in units of the scale. */
enum { LANES = 16 };
struct sums {
    float error[LANES], zero[LANES];
};

struct place {
    float scale, inverse, top, z, inverse_beta;
};

/* At most LANES weights. Outliers are rare, so that they have a separate loop. */
static inline void add_lanes(const struct place *p, const float *restrict w, size_t n,
                      struct sums *restrict s)
{
    float t[LANES] = {0}, e[LANES], most = 0.0f;
    memcpy(t, w, n * sizeof *t);
    for (size_t i = 0; i < LANES; i++) {
        t[i] *= p->inverse;
        const float q = code_of(t[i] + p->z, p->top);
        e[i] = t[i] - (q - p->z);
        t[i] = q - t[i];
    }
    for (size_t i = 0; i < n; i++) {
        s->error[i] += fabsf(e[i]);
        s->zero[i] += t[i];
        most = fabsf(e[i]) > most ? fabsf(e[i]) : most;
    }
    if (most * p->scale < 0.14f) return;
    for (size_t i = 0; i < n; i++)
        s->zero[i] += shrink(e[i] * p->scale, p->inverse_beta) * p->inverse;
}

/* The sum of |e| over the weights with zero point z, in units of the scale; *next receives the zero
 * point of the next iteration. */
static double iterate(const struct pith_weights *x, float scale, float top, float z,
                      float inverse_beta, float *next)
{
    const struct place p = {scale, 1.0f / scale, top, z, inverse_beta};
    struct sums s = {{0}, {0}};
    float copy[PITH_GATHER];
    double error = 0.0, zero = 0.0;
    for (size_t first = 0; first < x->n; first += PITH_GATHER) {
        const size_t n = x->n - first < PITH_GATHER ? x->n - first : PITH_GATHER;
        const float *w = pith_weights_gather(x, first, n, copy);
        size_t i = 0;
        for (; i + LANES <= n; i += LANES) add_lanes(&p, w + i, LANES, &s);
        if (i < n) add_lanes(&p, w + i, n - i, &s);
    }
    for (size_t i = 0; i < LANES; i++) {
        error += (double)s.error[i];
        zero += (double)s.zero[i];
    }
    *next = (float)(zero / (double)x->n);
    return error;
}

float pith_hqq_zero(const struct pith_weights *x, float scale, float top, float zero)
{
    float z = zero;
    double best = INFINITY, beta = 10.0;
    for (int i = 0; i < ITERATIONS; i++, beta *= 1.01) {
        float next;
        const double e = iterate(x, scale, top, z, (float)(1.0 / beta), &next);
        const bool done = !(e < best) || next == z;
        best = e;
        z = next;
        if (done) break;
    }
    return z;
}

static void fit(const struct pith_grid_rule *rule, const struct pith_weights *x, float *scale,
                float *zero)
{
    const float top = (float)((1u << rule->grid->format->bits) - 1);
    struct pith_grid plain = *rule->grid;
    plain.hqq = false;
    struct pith_grid_rule range = *rule;
    range.grid = &plain;
    pith_gridder_integer.fit(&range, x, scale, zero);
    if (!isfinite(*scale)) return;
    float least = 0.0f;
    for (size_t i = 0; i < x->n; i++)
        least = x->w[i * x->stride] < least ? x->w[i * x->stride] : least;
    *zero = pith_round_to(rule->scale_dtype, pith_hqq_zero(x, *scale, top, -least / *scale));
}

static uint8_t encode(const struct pith_format *f, float w, float scale, float zero)
{
    const float none = 0.0f, offset = -(zero * scale);
    uint8_t code = 0;
    const struct pith_grid_line line = {
        .n = 1, .w = &w, .scale = &scale, .zero = &none, .offset = &offset, .codes = &code};
    pith_kfit_round(f, &line);
    return code;
}

const struct pith_gridder pith_gridder_hqq = {
    .name = "hqq",
    .summary = "integers whose zero points make up for the mean error (half-quadratic)",
    .takes = takes,
    .fit = fit,
    .encode = encode,
    .quantize = pith_kfit_round,
};
