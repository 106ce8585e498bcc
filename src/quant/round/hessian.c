#include "quant/round/hessian.h"

#include <math.h>

/* Several sums at once: one would wait for itself, as long as all of the rest. */
static bool row_finite(const float *row, size_t n)
{
    enum { LANES = 32 };
    float sum[LANES] = {0}, all = 0.0f;
    size_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (size_t e = 0; e < LANES; e++) sum[e] += row[j + e] * 0.0f;
    for (; j < n; j++) all += row[j] * 0.0f;
    for (size_t e = 0; e < LANES; e++) all += sum[e];
    return !isnan(all);
}

enum pith_status pith_hessian_check(const float *h, size_t n, struct pith_error *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!row_finite(h + i * n, n)) {
            size_t j = 0;
            while (j + 1 < n && isfinite(h[i * n + j])) j++;
            return pith_fail(err, PITH_NUMERIC, "the Hessian has %g at input %zu, %zu",
                             (double)h[i * n + j], i, j);
        }
        if (h[i * n + i] < 0.0f)
            return pith_fail(err, PITH_NUMERIC, "the Hessian has %g on its diagonal at input %zu",
                             (double)h[i * n + i], i);
    }
    return PITH_OK;
}

bool pith_hessian_searches(const struct pith_round_job *job)
{
    const struct pith_format *f = job->grid.format;
    if (!job->options.range_search || !f) return false;
    const bool small_float = f->kind == PITH_KIND_FLOAT || f->kind == PITH_KIND_BLOCK;
    return f->kind == PITH_KIND_INT || (small_float && job->grid.mse);
}

enum pith_status pith_hessian_fit(const struct pith_round_job *job, const struct pith_pivots *p,
                                  float *scratch, struct pith_qmat *q, struct pith_error *err)
{
    if (!pith_hessian_searches(job)) return pith_round_fit(job, q, err);
    for (uint32_t k = 0; k < job->cols; k++) scratch[p->perm[k]] = pith_pivot_square(p, k);
    return pith_fit_scales_for(job->backend, &job->grid, job->w, scratch, q, err);
}
