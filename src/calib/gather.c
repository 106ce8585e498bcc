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
    if (needs & PITH_NEED_SQUARES) n += 3ull * dim;
    if (needs & PITH_NEED_RANGE) n += 2ull * dim;
    return n * sizeof(float);
}

void pith_stats_free(struct pith_stats *stats)
{
    for (int i = 0; i < PITH_SITE_COUNT; i++) {
        pith_free(stats[i].absmean);
        pith_free(stats[i].samples);
        pith_free(stats[i].hessian);
        pith_free(stats[i].squares);
        pith_free(stats[i].lo);
        pith_free(stats[i].hi);
        stats[i] = (struct pith_stats){0};
    }
}

struct sum_job {
    const float *x;
    double *sum;
    size_t n, dim;
};

enum { COLUMNS_A_TASK = 64 };

static size_t columns_end(const struct sum_job *j, size_t task)
{
    const size_t end = (task + 1) * COLUMNS_A_TASK;
    return end < j->dim ? end : j->dim;
}

static void add_absolute(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct sum_job *j = ctx;
    const size_t to = columns_end(j, task);
    for (size_t i = 0; i < j->n; i++)
        for (size_t c = task * COLUMNS_A_TASK; c < to; c++)
            j->sum[c] += fabs((double)j->x[i * j->dim + c]);
}

static void add_squares(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct sum_job *j = ctx;
    const size_t to = columns_end(j, task);
    for (size_t i = 0; i < j->n; i++)
        for (size_t c = task * COLUMNS_A_TASK; c < to; c++) {
            const double x = (double)j->x[i * j->dim + c];
            j->sum[c] += x * x;
        }
}

struct range_job {
    const float *x;
    float *lo, *hi;
    size_t n, dim;
};

static void widen_ranges(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct range_job *j = ctx;
    const size_t from = task * COLUMNS_A_TASK;
    const size_t to = from + COLUMNS_A_TASK < j->dim ? from + COLUMNS_A_TASK : j->dim;
    for (size_t i = 0; i < j->n; i++)
        for (size_t c = from; c < to; c++) {
            const float x = j->x[i * j->dim + c];
            j->lo[c] = x < j->lo[c] ? x : j->lo[c];
            j->hi[c] = x > j->hi[c] ? x : j->hi[c];
        }
}

static void add_range(const struct pith_gather *g, const struct pith_stats *st, const float *x,
                      size_t n)
{
    struct range_job job = {.x = x, .lo = st->lo, .hi = st->hi, .n = n, .dim = st->dim};
    if (st->lo)
        pith_pool_run(pith_backend_pool(g->backend),
                      (job.dim + COLUMNS_A_TASK - 1) / COLUMNS_A_TASK, widen_ranges, &job);
}

static void add_sums(const struct pith_gather *g, enum pith_site site, struct sum_job *job)
{
    struct pith_pool *pool = pith_backend_pool(g->backend);
    const size_t tasks = (job->dim + COLUMNS_A_TASK - 1) / COLUMNS_A_TASK;
    job->sum = g->sum[site];
    if (job->sum) pith_pool_run(pool, tasks, add_absolute, job);
    job->sum = g->square_sum[site];
    if (job->sum) pith_pool_run(pool, tasks, add_squares, job);
}

bool pith_gather_tap(void *ctx, enum pith_site site, const float *x, size_t n, size_t dim)
{
    struct pith_gather *g = ctx;
    struct pith_stats *st = &g->stats[site];
    if (!(g->sites & 1u << site)) return false;
    add_sums(g, site, &(struct sum_job){.x = x, .n = n, .dim = dim});
    add_range(g, st, x, n);
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
    if (plan->needs & PITH_NEED_SQUARES) {
        st->squares = pith_zalloc(dim, sizeof(float));
        g->square_sum[site] = pith_zalloc(dim, sizeof(double));
        ok = ok && st->squares && g->square_sum[site];
    }
    if (plan->needs & PITH_NEED_RANGE) {
        st->lo = pith_zalloc(dim, sizeof(float));
        st->hi = pith_zalloc(dim, sizeof(float));
        ok = ok && st->lo && st->hi;
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

/* mean[dim] = sum[dim] / tokens when `good`; frees the sums. */
static void finish_sums(double **sum, float *mean, const struct pith_stats *st, bool good)
{
    for (uint32_t j = 0; *sum && good && j < st->dim; j++)
        mean[j] = (float)((*sum)[j] / (double)st->tokens);
    pith_free(*sum);
    *sum = NULL;
}

void pith_gather_end(struct pith_gather *g, bool good)
{
    for (unsigned i = 0; i < PITH_SITE_COUNT; i++) {
        const struct pith_stats *st = &g->stats[i];
        finish_sums(&g->sum[i], st->absmean, st, good);
        finish_sums(&g->square_sum[i], st->squares, st, good);
    }
}
