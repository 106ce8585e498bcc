#include "calib/gather.h"

#include "base/file.h"
#include "base/mem.h"
#include "calib/collect.h"

#include <math.h>
#include <string.h>

uint64_t pith_stats_bytes(uint32_t dim, unsigned needs, size_t samples)
{
    uint64_t n = 0;
    if (needs & PITH_NEED_ABSMEAN) n += 3ull * dim;
    if (needs & PITH_NEED_SAMPLES) n += (uint64_t)samples * dim;
    if (needs & PITH_NEED_HESSIAN) n += (uint64_t)dim * dim;
    return n * sizeof(float);
}

void pith_stats_free(struct pith_stats *stats)
{
    for (int i = 0; i < PITH_SITE_COUNT; i++) {
        pith_free(stats[i].absmean);
        pith_free(stats[i].samples);
        pith_free(stats[i].hessian);
        stats[i] = (struct pith_stats){0};
    }
}

struct absmean_job {
    const float *x;
    double *sum;
    size_t n, dim;
};

enum { COLUMNS_A_TASK = 64 };

static void add_absolute(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct absmean_job *j = ctx;
    const size_t from = task * COLUMNS_A_TASK;
    const size_t to = from + COLUMNS_A_TASK < j->dim ? from + COLUMNS_A_TASK : j->dim;
    for (size_t i = 0; i < j->n; i++)
        for (size_t c = from; c < to; c++) j->sum[c] += fabs((double)j->x[i * j->dim + c]);
}

bool pith_gather_tap(void *ctx, enum pith_site site, const float *x, size_t n, size_t dim)
{
    struct pith_gather *g = ctx;
    struct pith_stats *st = &g->stats[site];
    if (!(g->sites & 1u << site)) return false;
    if (g->sum[site]) {
        struct absmean_job job = {x, g->sum[site], n, dim};
        pith_pool_run(pith_backend_pool(g->backend), (dim + COLUMNS_A_TASK - 1) / COLUMNS_A_TASK,
                      add_absolute, &job);
    }
    if (st->samples)
        for (size_t i = 0; i < n; i++)
            if ((g->seen + i) % g->step == 0 && st->sample_count < g->sample_limit)
                memcpy(st->samples + st->sample_count++ * dim, x + i * dim, dim * sizeof *x);
    if (st->hessian) {
        const double start = pith_clock();
        pith_syrk(g->backend, st->hessian, dim, x, n, g->alpha);
        g->hessian_seconds += pith_clock() - start;
    }
    st->tokens += n;
    return site == (enum pith_site)g->last_site;
}

static bool take_site(struct pith_gather *g, enum pith_site site, uint32_t dim,
                      const struct pith_gather_plan *plan)
{
    struct pith_stats *st = &g->stats[site];
    bool ok = true;
    st->dim = dim;
    if (plan->needs & PITH_NEED_ABSMEAN) {
        st->absmean = pith_zalloc(dim, sizeof(float));
        g->sum[site] = pith_zalloc(dim, sizeof(double));
        ok = st->absmean && g->sum[site];
    }
    if (plan->needs & PITH_NEED_SAMPLES)
        ok = ok && (st->samples = pith_alloc_aligned(plan->samples * dim, sizeof(float)));
    if (plan->needs & PITH_NEED_HESSIAN)
        ok = ok && (st->hessian = pith_alloc_aligned((size_t)dim * dim, sizeof(float)));
    if (st->hessian) memset(st->hessian, 0, (size_t)dim * dim * sizeof(float));
    return ok;
}

enum pith_status pith_gather_begin(struct pith_gather *g, struct pith_backend *be,
                                   const struct pith_shape *shape,
                                   const struct pith_gather_plan *plan, struct pith_stats *stats,
                                   struct pith_error *err)
{
    memset(stats, 0, PITH_SITE_COUNT * sizeof *stats);
    *g = (struct pith_gather){
        .backend = be,
        .stats = stats,
        .sites = plan->sites,
        .step = plan->samples && plan->tokens > plan->samples ? plan->tokens / plan->samples : 1,
        .alpha = 2.0f / (float)plan->tokens,
        .sample_limit = plan->samples,
    };
    for (unsigned i = 0; i < PITH_SITE_COUNT; i++) {
        if (!(plan->sites & 1u << i)) continue;
        g->last_site = i;
        if (!take_site(g, (enum pith_site)i, pith_site_dim(shape, (enum pith_site)i), plan))
            return pith_fail_nomem(err, "calibration statistics");
    }
    return PITH_OK;
}

void pith_gather_end(struct pith_gather *g, bool good)
{
    for (unsigned i = 0; i < PITH_SITE_COUNT; i++) {
        struct pith_stats *st = &g->stats[i];
        for (uint32_t j = 0; g->sum[i] && good && j < st->dim; j++)
            st->absmean[j] = (float)(g->sum[i][j] / (double)st->tokens);
        pith_free(g->sum[i]);
        g->sum[i] = NULL;
    }
}
