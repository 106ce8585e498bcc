#include "eval/divergence.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Four lanes of the vector extension that gcc and clang share: every CPU has them, and what a
 * lane computes is plain IEEE arithmetic. By itself gcc 12 compiles the selections below to
 * branches. */
enum { LANES = 4 };
typedef float vec __attribute__((vector_size(4 * LANES)));
typedef uint32_t bits __attribute__((vector_size(4 * LANES)));

static inline vec select(bits mask, vec yes, vec no)
{
    return (vec)(((bits)yes & mask) | ((bits)no & ~mask));
}

/* exp(x) for x <= 88, relative error below 2e-7; below -87 it stays what it is there, about
 * 1e-38. x is split into k log 2 + r, |r| <= log(2) / 2, and exp(r) is its Taylor polynomial
 * of degree 7 (remainder 5e-9). */
static inline vec exp_lanes(vec x)
{
    /* 1.5 * 2^23: adding it rounds to an integer, which then sits in the low bits. */
    const float magic = 12582912.0f;
    const vec low = {-87.0f, -87.0f, -87.0f, -87.0f};
    x = select((bits)(x > low), x, low);
    const vec shifted = x * 1.44269504f + magic;
    const vec k = shifted - magic;
    const vec r = (x - k * 0.693359375f) + k * 2.12194440e-4f;
    vec y = r * (1.0f / 5040) + 1.0f / 720;
    y = y * r + 1.0f / 120;
    y = y * r + 1.0f / 24;
    y = y * r + 1.0f / 6;
    y = y * r + 0.5f;
    y = y * r + 1.0f;
    y = y * r + 1.0f;
    return y * (vec)(((bits)shifted << 23) + 0x3f800000u);
}

/* d - 1 + exp(-d) for |d| <= 0.5, as d^2 times a polynomial: no cancellation. */
static inline vec near_term(vec d)
{
    vec y = d * (-1.0f / 362880) + 1.0f / 40320;
    y = y * d - 1.0f / 5040;
    y = y * d + 1.0f / 720;
    y = y * d - 1.0f / 120;
    y = y * d + 1.0f / 24;
    y = y * d - 1.0f / 6;
    y = y * d + 0.5f;
    return y * d * d;
}

/* What elements add: P (log P - log Q) - P + Q. The last two sum to 0 over a row; with them
 * every share is positive and of second order in the difference, so an error of the logsumexp
 * does not drown a small divergence. */
static inline vec shares(vec p, vec q, float p_lse, float gap)
{
    const vec d = (p - q) - gap;
    const vec log_p = p - p_lse;
    const vec mass = exp_lanes(log_p);
    const vec close = mass * near_term(d);
    const vec apart = mass * (d - 1.0f) + exp_lanes(log_p - d);
    return select((bits)(d * d <= 0.25f), close, apart);
}

static inline vec load(const float *x)
{
    vec v;
    memcpy(&v, x, sizeof v);
    return v;
}

/* The rest of a row is padded with logits that have no mass on either side. */
static vec load_part(const float *x, size_t n, float lse)
{
    float all[LANES];
    for (size_t j = 0; j < LANES; j++) all[j] = j < n ? x[j] : lse - 200;
    return load(all);
}

double pith_kl_logits(const float *p, double p_lse, const float *q, double q_lse, size_t n)
{
    const float lse = (float)p_lse, gap = (float)(p_lse - q_lse);
    double lane[LANES] = {0};
    for (size_t i = 0; i < n; i += LANES) {
        const bool whole = n - i >= LANES;
        const vec a = whole ? load(p + i) : load_part(p + i, n - i, lse);
        const vec b = whole ? load(q + i) : load_part(q + i, n - i, (float)q_lse);
        const vec s = shares(a, b, lse, gap);
        for (int j = 0; j < LANES; j++) lane[j] += (double)s[j];
    }
    const double sum = (lane[0] + lane[1]) + (lane[2] + lane[3]);
    return sum > 0 ? sum : 0;
}

size_t pith_argmax(const float *x, size_t n)
{
    enum { WIDE = 16 };
    float lane[WIDE], best = x[0];
    size_t i = 0;
    for (int j = 0; j < WIDE; j++) lane[j] = x[0];
    for (; i + WIDE <= n; i += WIDE)
        for (int j = 0; j < WIDE; j++)
            lane[j] = x[i + (size_t)j] > lane[j] ? x[i + (size_t)j] : lane[j];
    for (int j = 0; j < WIDE; j++) best = lane[j] > best ? lane[j] : best;
    for (; i < n; i++) best = x[i] > best ? x[i] : best;
    for (i = 0; i + 1 < n && x[i] != best;) i++;
    return i;
}
