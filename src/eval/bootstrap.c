/* The bootstrap interval of a ratio of sums. */
#include "base/mem.h"
#include "base/rng.h"
#include "eval/stats.h"

#include <math.h>
#include <stdlib.h>

enum { RESAMPLES = 4000 };

static double normal_below(double z)
{
    return 0.5 * erfc(-z / 1.41421356237309504880);
}

/* Its inverse, for p strictly between 0 and 1. */
static double normal_quantile(double p)
{
    double lo = -38, hi = 38;
    for (int i = 0; i < 80; i++) {
        const double mid = (lo + hi) / 2;
        if (normal_below(mid) < p) lo = mid;
        else hi = mid;
    }
    return (lo + hi) / 2;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void draw(const double *y, const double *x, size_t n, double *ratios)
{
    struct pith_rng rng;
    pith_rng_seed(&rng, 1);
    for (size_t b = 0; b < RESAMPLES; b++) {
        double above = 0, below = 0;
        for (size_t i = 0; i < n; i++) {
            const size_t k = (size_t)pith_rng_below(&rng, n);
            above += y[k];
            below += x[k];
        }
        ratios[b] = above / below;
    }
    qsort(ratios, RESAMPLES, sizeof *ratios, by_size);
}

/* A sixth of the skewness of the ratio's jackknife values. */
static double acceleration(const double *y, const double *x, size_t n)
{
    double above = 0, below = 0, mean = 0, squares = 0, cubes = 0;
    for (size_t i = 0; i < n; i++) {
        above += y[i];
        below += x[i];
    }
    for (size_t i = 0; i < n; i++) mean += (above - y[i]) / (below - x[i]) / (double)n;
    for (size_t i = 0; i < n; i++) {
        const double d = mean - (above - y[i]) / (below - x[i]);
        squares += d * d;
        cubes += d * d * d;
    }
    return squares > 0 ? cubes / (6 * pow(squares, 1.5)) : 0;
}

/* How far the middle of the resamples lies from the ratio, in standard normal units. */
static double bias(const double *ratios, double ratio)
{
    double less = 0;
    for (size_t i = 0; i < RESAMPLES; i++)
        less += ratios[i] < ratio ? 1 : ratios[i] > ratio ? 0 : 0.5;
    return normal_quantile(fmin(fmax(less / RESAMPLES, 0.01), 0.99));
}

/* The resample at which a tail of z standard units ends. */
static double end_at(const double *ratios, double z0, double a, double z)
{
    const double scale = 1 - a * (z0 + z);
    const double p = scale > 0 ? normal_below(z0 + (z0 + z) / scale) : z < 0 ? 0 : 1;
    const double at = p * (RESAMPLES - 1);
    const size_t i = (size_t)at;
    if (i + 1 >= RESAMPLES) return ratios[RESAMPLES - 1];
    return ratios[i] + (at - (double)i) * (ratios[i + 1] - ratios[i]);
}

static double spread(const double *ratios)
{
    double mean = 0, squares = 0;
    for (size_t i = 0; i < RESAMPLES; i++) mean += ratios[i] / RESAMPLES;
    for (size_t i = 0; i < RESAMPLES; i++) squares += (ratios[i] - mean) * (ratios[i] - mean);
    return sqrt(squares / RESAMPLES);
}

enum pith_status pith_bootstrap_ratio_ci95(const double *y, const double *x, size_t n,
                                           struct pith_interval *ci, double *se,
                                           struct pith_error *err)
{
    double *ratios = pith_alloc(RESAMPLES, sizeof *ratios);
    if (!ratios) return pith_fail_nomem(err, "the resamples of an interval");
    double above = 0, below = 0;
    for (size_t i = 0; i < n; i++) {
        above += y[i];
        below += x[i];
    }
    draw(y, x, n, ratios);
    const double m = (double)n, small = sqrt(m / (m - 1));
    const double z = pith_t975(m - 1) * small;
    const double z0 = bias(ratios, above / below), a = acceleration(y, x, n);
    *ci = (struct pith_interval){end_at(ratios, z0, a, -z), end_at(ratios, z0, a, z)};
    *se = spread(ratios) * small;
    pith_free(ratios);
    return PITH_OK;
}
