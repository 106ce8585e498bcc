#include "quant/round/hessian.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

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

struct ranked {
    float key;
    uint32_t column;
};

/* Merge sort by decreasing key, stable: qsort is not, and ties must not depend on the C library. */
static void sort_ranked(struct ranked *x, struct ranked *tmp, size_t n)
{
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * width) {
            const size_t mid = lo + width < n ? lo + width : n;
            const size_t hi = lo + 2 * width < n ? lo + 2 * width : n;
            size_t a = lo, b = mid;
            for (size_t i = lo; i < hi; i++) {
                const bool left = a < mid && (b == hi || x[a].key >= x[b].key);
                tmp[i] = left ? x[a++] : x[b++];
            }
        }
        memcpy(x, tmp, n * sizeof *x);
    }
}

enum pith_status pith_hessian_order(const float *h, uint32_t n, uint32_t width, uint32_t block,
                                    uint32_t *perm, struct pith_error *err)
{
    const uint32_t count = n / width;
    struct ranked *x = pith_alloc((size_t)count * 2, sizeof *x);
    if (!x) return pith_fail_nomem(err, "GPTQ's column order");
    for (uint32_t i = 0; i < count; i++) {
        x[i] = (struct ranked){0.0f, i * width};
        for (uint32_t k = i * width; k < (i + 1) * width; k++)
            x[i].key = fmaxf(x[i].key, h[(size_t)k * n + k]);
    }
    for (uint32_t first = 0; first < count; first += block / width) {
        const uint32_t left = count - first, run = left < block / width ? left : block / width;
        sort_ranked(x + first, x + count, run);
    }
    for (uint32_t k = 0; k < n; k++) perm[k] = x[k / width].column + k % width;
    pith_free(x);
    return PITH_OK;
}

enum pith_status pith_hessian_fit(const struct pith_round_job *job, const struct pith_pivots *p,
                                  float *scratch, struct pith_qmat *q, struct pith_error *err)
{
    const struct pith_grid *g = &job->grid;
    if (!job->options.weigh || !g->mse || g->format->kind != PITH_KIND_INT)
        return pith_round_fit(job, q, err);
    for (uint32_t k = 0; k < job->cols; k++)
        scratch[p->perm[k]] = p->dead[p->perm[k]] ? 0.0f : p->diagonal[k] * p->diagonal[k];
    return pith_fit_scales_for(job->backend, g, job->w, scratch, q, err);
}
