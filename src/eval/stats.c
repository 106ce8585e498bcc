#include "eval/stats.h"

#include <math.h>

static const double Z975 = 1.959963984540054; /* 97.5% quantile of the standard normal */
static const double Z80 = 0.8416212335729143;

/* log(gamma(x)) for x > 0 by Stirling's series after shifting x above 10; lgamma() of libm
 * writes a global. */
static double log_gamma(double x)
{
    double shift = 0;
    for (; x < 10; x++) shift -= log(x);
    const double y = 1 / (x * x);
    const double series =
        (1.0 / 12 - y * (1.0 / 360 - y * (1.0 / 1260 - y * (1.0 / 1680 - y / 1188)))) / x;
    return shift + (x - 0.5) * log(x) - x + 0.91893853320467274178 + series;
}

/* Regularized incomplete beta I_x(a, b) by its continued fraction, evaluated by Lentz's
 * method (DLMF 8.17.22). Converges quickly for x < (a + 1) / (a + b + 2), which is all that
 * is needed here. */
static double incomplete_beta(double a, double b, double x)
{
    const double front =
        exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
    double c = 1, d = 1 / (1 - (a + b) * x / (a + 1)), f = d;
    for (int m = 1; m <= 300; m++) {
        const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        d = 1 / (1 + even * d);
        c = 1 + even / c;
        f *= c * d;
        const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 / (1 + odd * d);
        c = 1 + odd / c;
        f *= c * d;
        if (fabs(c * d - 1) < 1e-15) break;
    }
    return front * f / a;
}

/* P(|T| > t) of Student's t. */
static double t_tails(double degrees, double t)
{
    return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

/* A quantile of Student's t from the normal's by Cornish and Fisher; the next term is of the fourth
 * power of 1 / v. */
static double from_normal(double z, double v)
{
    const double z2 = z * z, a = (z2 + 1) * z / 4, b = ((5 * z2 + 16) * z2 + 3) * z / 96;
    const double c = (((3 * z2 + 19) * z2 + 17) * z2 - 15) * z / 384;
    return z + (a + (b + c / v) / v) / v;
}

double pith_t975(double degrees)
{
    if (!(degrees > 0)) return INFINITY;
    if (degrees > 1000) return from_normal(Z975, degrees);
    double lo = Z975, hi = 16;
    while (t_tails(degrees, hi) > 0.05 && hi < 1e300) hi *= hi;
    for (int i = 0; i < 200 && hi - lo > 1e-14 * hi; i++) {
        const double mid = hi > 4 * lo ? sqrt(lo * hi) : (lo + hi) / 2;
        if (t_tails(degrees, mid) > 0.05) lo = mid;
        else hi = mid;
    }
    return (lo + hi) / 2;
}

double pith_t80(double degrees)
{
    return from_normal(Z80, degrees);
}

double pith_weighted_se(const double *values, const double *weights, size_t n, double *mean)
{
    double sum = 0, total = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        const double w = weights ? weights[i] : 1;
        total += w;
        sum += w * values[i];
    }
    *mean = sum / total;
    if (n < 2) return INFINITY;
    for (size_t i = 0; i < n; i++) {
        const double d = (weights ? weights[i] : 1) * (values[i] - *mean);
        squares += d * d;
    }
    return sqrt(squares * (double)n / (double)(n - 1)) / total;
}

void pith_weighted_ci95(const double *values, const double *weights, size_t n, double *mean,
                        struct pith_interval *ci)
{
    const double se = pith_weighted_se(values, weights, n, mean);
    /* n - 1 = 0 degrees have no quantile; INFINITY * INFINITY stays what is meant. */
    const double half = se > 0 ? pith_t975((double)n - 1) * se : se;
    *ci = (struct pith_interval){*mean - half, *mean + half};
}

void pith_mean_ci95(const double *values, size_t n, double *mean, struct pith_interval *ci)
{
    pith_weighted_ci95(values, NULL, n, mean, ci);
}

double pith_quantile(const float *sorted, size_t n, double part)
{
    const double at = part * (double)(n - 1);
    const size_t i = (size_t)at;
    if (i + 1 >= n) return (double)sorted[n - 1];
    const double rest = at - (double)i;
    return (double)sorted[i] * (1 - rest) + (double)sorted[i + 1] * rest;
}

void pith_wilson_ci95(size_t k, size_t n, struct pith_interval *ci)
{
    if (n == 0) {
        *ci = (struct pith_interval){0, 1};
        return;
    }
    const double m = (double)n, p = (double)k / m, z2 = Z975 * Z975;
    const double center = (p + z2 / (2 * m)) / (1 + z2 / m);
    const double half = Z975 / (1 + z2 / m) * sqrt(p * (1 - p) / m + z2 / (4 * m * m));
    ci->lo = k == 0 ? 0 : center - half;
    ci->hi = k == n ? 1 : center + half;
}

double pith_mcnemar_p(size_t b, size_t c)
{
    const size_t n = b + c, k = b < c ? b : c;
    if (b == c) return 1;
    /* 2 * P(X <= k) for X ~ Binomial(n, 1/2): the largest term first, each next one from it. */
    const double m = (double)n, log2_ = 0.69314718055994530942;
    double term =
        exp(log_gamma(m + 1) - log_gamma((double)k + 1) - log_gamma(m - (double)k + 1) - m * log2_);
    double sum = 0;
    for (size_t i = k;; i--) {
        sum += term;
        if (i == 0 || term < 1e-18 * sum) break;
        term *= (double)i / (double)(n - i + 1);
    }
    return fmin(1, 2 * sum);
}

enum pith_verdict pith_verdict_of(struct pith_interval loss_delta)
{
    if (loss_delta.lo > 0) return PITH_WORSE;
    if (loss_delta.hi < 0) return PITH_BETTER;
    return PITH_INDISTINGUISHABLE;
}

const char *pith_verdict_name(enum pith_verdict v)
{
    static const char *const names[] = {"indistinguishable", "worse", "better"};
    return names[v];
}
