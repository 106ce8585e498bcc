#include "calib/gather.h"

#include "base/file.h"
#include "base/mem.h"
#include "calib/collect.h"

#include <math.h>
#include <string.h>

uint64_t pith_stats_bytes(uint32_t dim, unsigned needs, size_t samples)
{
    uint64_t n = 0;
    if (needs & PITH_NEED_ABSMEAN) n += dim;
    if (needs & PITH_NEED_SAMPLES) n += (uint64_t)samples * dim;
    if (needs & PITH_NEED_HESSIAN) n += (uint64_t)dim * dim;
    if (needs & PITH_NEED_SQUARES) n += dim;
    if (needs & PITH_NEED_RANGE) n += 2ull * dim;
    return n * sizeof(float);
}

uint64_t pith_gather_bytes(uint32_t dim, unsigned needs)
{
    const uint64_t sums = (needs & PITH_NEED_ABSMEAN ? 1u : 0u) +
                          (needs & PITH_NEED_SQUARES ? 1u : 0u);
    return sizeof(struct pith_gather_sums) + sums * dim * sizeof(double);
}

void pith_stats_free(struct pith_stats *stats, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
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
    double weight;
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
            j->sum[c] += j->weight * fabs((double)j->x[i * j->dim + c]);
}

static void add_squares(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct sum_job *j = ctx;
    const size_t to = columns_end(j, task);
    for (size_t i = 0; i < j->n; i++)
        for (size_t c = task * COLUMNS_A_TASK; c < to; c++) {
            const double x = (double)j->x[i * j->dim + c];
            j->sum[c] += j->weight * x * x;
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

static void add_sums(const struct pith_gather *g, const struct pith_gather_sums *sums,
                     struct sum_job *job)
{
    struct pith_pool *pool = pith_backend_pool(g->backend);
    const size_t tasks = (job->dim + COLUMNS_A_TASK - 1) / COLUMNS_A_TASK;
    job->sum = sums->absolute;
    if (job->sum) pith_pool_run(pool, tasks, add_absolute, job);
    job->sum = sums->squares;
    if (job->sum) pith_pool_run(pool, tasks, add_squares, job);
}

bool pith_gather_tap(void *ctx, uint32_t site, const float *x, size_t n, size_t dim)
{
    struct pith_gather *g = ctx;
    if (site < g->first || site - g->first >= g->count) return false;
    struct pith_stats *st = &g->stats[site - g->first];
    add_sums(g, &g->sums[site - g->first],
             &(struct sum_job){.x = x, .weight = g->weight, .n = n, .dim = dim});
    add_range(g, st, x, n);
    if (st->samples)
        for (size_t i = 0; i < n; i++)
            if ((g->seen + i) % g->step == 0 && st->sample_count < g->sample_limit)
                memcpy(st->samples + st->sample_count++ * dim, x + i * dim, dim * sizeof *x);
    if (st->hessian) {
        const double start = pith_clock();
        pith_syrk(g->backend, st->hessian, dim, x, n, (float)(g->alpha * g->weight));
        g->hessian_seconds += pith_clock() - start;
    }
    st->tokens += n;
    g->sums[site - g->first].mass += g->weight * (double)n;
    return site - g->first == g->count - 1;
}

static bool take_site(struct pith_stats *st, struct pith_gather_sums *sums, uint32_t dim,
                      const struct pith_gather_plan *plan)
{
    bool ok = true;
    st->dim = dim;
    if (plan->needs & PITH_NEED_ABSMEAN) {
        st->absmean = pith_zalloc(dim, sizeof(float));
        sums->absolute = pith_zalloc(dim, sizeof(double));
        ok = st->absmean && sums->absolute;
    }
    if (plan->needs & PITH_NEED_SQUARES) {
        st->squares = pith_zalloc(dim, sizeof(float));
        sums->squares = pith_zalloc(dim, sizeof(double));
        ok = ok && st->squares && sums->squares;
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
                                   const struct pith_gather_plan *plan, struct pith_stats *stats,
                                   struct pith_error *err)
{
    memset(stats, 0, plan->count * sizeof *stats);
    *g = (struct pith_gather){
        .backend = be,
        .stats = stats,
        .sums = pith_zalloc(plan->count, sizeof *g->sums),
        .first = plan->first,
        .count = plan->count,
        .step = plan->samples && plan->tokens > plan->samples ? plan->tokens / plan->samples : 1,
        .weight = 1,
        .alpha = plan->mass > 0 ? (float)(2 / plan->mass) : 2.0f / (float)plan->tokens,
        .sample_limit = plan->samples,
    };
    bool ok = g->sums;
    for (uint32_t i = 0; i < plan->count && ok; i++)
        ok = take_site(&stats[i], &g->sums[i], plan->layer->site[plan->first + i].dim, plan);
    return ok ? PITH_OK : pith_fail_nomem(err, "calibration statistics");
}

/* mean[dim] = sum[dim] / mass when `good`; frees the sums. */
static void finish_sums(double *sum, double mass, float *mean, uint32_t dim, bool good)
{
    for (uint32_t j = 0; sum && good && mass > 0 && j < dim; j++) mean[j] = (float)(sum[j] / mass);
    pith_free(sum);
}

void pith_gather_end(struct pith_gather *g, bool good)
{
    for (uint32_t i = 0; g->sums && i < g->count; i++) {
        const struct pith_stats *st = &g->stats[i];
        const struct pith_gather_sums *sums = &g->sums[i];
        finish_sums(sums->absolute, sums->mass, st->absmean, st->dim, good);
        finish_sums(sums->squares, sums->mass, st->squares, st->dim, good);
    }
    pith_free(g->sums);
    g->sums = NULL;
}
