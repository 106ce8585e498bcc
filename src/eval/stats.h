/* eval/stats.h: the statistics behind a verdict. */
#ifndef PITH_EVAL_STATS_H
#define PITH_EVAL_STATS_H

#include "eval/eval.h"

/* Mean of n values and the 95% interval of that mean by Student's t with n - 1 degrees of
 * freedom; n = 1 gives an infinite interval. */
void pith_mean_ci95(const double *values, size_t n, double *mean, struct pith_interval *ci);
/* The same for a ratio of sums, sum(w v) / sum(w) over windows of unequal weight (delta method). */
void pith_weighted_ci95(const double *values, const double *weights, size_t n, double *mean,
                        struct pith_interval *ci);
/* Standard error of that ratio (weights NULL: of the plain mean); n = 1 gives infinity.
 * Weights are not negative and not all 0; n >= 1. Source: the linearised variance of a ratio
 * estimator (Cochran 1977). */
double pith_weighted_se(const double *values, const double *weights, size_t n, double *mean);
/* The value below which a part (0 to 1) of n >= 1 sorted values lies, linear between neighbours
 * (what NumPy does by default). */
double pith_quantile(const float *sorted, size_t n, double part);
/* Wilson score interval of k successes in n trials. */
void pith_wilson_ci95(size_t k, size_t n, struct pith_interval *ci);
/* Exact two-sided McNemar test of b against c discordant pairs. */
double pith_mcnemar_p(size_t b, size_t c);
/* 97.5% quantile of Student's t; infinite unless degrees > 0. */
double pith_t975(double degrees);
/* And the 80% quantile, within 2e-4; degrees >= 3. */
double pith_t80(double degrees);

/* The 95% interval of sum(y) / sum(x) over n >= 2 pairs that are drawn together, x > 0, and the
 * standard error of that ratio: 4,000 resamples from a fixed seed, bias-corrected and accelerated
 * (Efron 1987), at percentiles widened for small n as Student's t is (Hesterberg 2015). The same
 * bits for the same numbers. PITH_NOMEM only. */
enum pith_status pith_bootstrap_ratio_ci95(const double *y, const double *x, size_t n,
                                           struct pith_interval *ci, double *se,
                                           struct pith_error *err);
/* worse when the whole interval lies above 0 (for losses), better when below, else
 * indistinguishable. */
enum pith_verdict pith_verdict_of(struct pith_interval loss_delta);

#endif
