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
    if (needs & PITH_NEED_DRIFT) n += (uint64_t)dim * dim;
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

static uint32_t views_of(const struct pith_site_spec *site, const struct pith_guided *guided)
{
    return site->count * guided->guide->groups;
}

uint64_t pith_guided_bytes(const struct pith_site_spec *site, unsigned needs,
                           const struct pith_guided *guided)
{
    const unsigned all = needs & (PITH_NEED_HESSIAN | PITH_NEED_DRIFT | PITH_NEED_SQUARES);
    if (!(needs & PITH_NEED_GUIDED)) return 0;
    return pith_times_bytes(pith_stats_bytes(site->dim, all, 0), views_of(site, guided) - 1);
}

uint64_t pith_gather_rows_bytes(const struct pith_site_spec *site, unsigned needs,
                                const struct pith_guided *guided, size_t rows)
{
    const uint64_t window = (uint64_t)rows * site->dim * sizeof(float);
    uint64_t bytes = 0;
    if (needs & PITH_NEED_GUIDED)
        bytes = views_of(site, guided) * (sizeof(struct pith_guide_view) +
                                          (needs & PITH_NEED_SQUARES ? site->dim * 8ull : 0));
    if (needs & (PITH_NEED_GUIDED | PITH_NEED_DRIFT)) bytes += window;
    return bytes + (needs & PITH_NEED_DRIFT ? window : 0); /* calib/stages.c has the other rows */
}

uint64_t pith_gather_limited_bytes(uint32_t dim, unsigned needs, size_t rows)
{
    const bool there = needs & (PITH_NEED_GUIDED | PITH_NEED_DRIFT); /* rows that are weighed */
    if (!(needs & PITH_NEED_HESSIAN)) return 0;
    return pith_token_limit_bytes(rows) + (there ? 0 : (uint64_t)rows * dim * sizeof(float));
}

void pith_stats_free(struct pith_stats *stats, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        pith_free(stats[i].absmean);
        pith_free(stats[i].samples);
        pith_free(stats[i].hessian);
        pith_free(stats[i].drift);
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
    job->sum = g->view ? NULL : sums->squares;
    if (job->sum) pith_pool_run(pool, tasks, add_squares, job);
}

struct weighing {
    const struct pith_gather *g;
    const struct pith_guide_view *view; /* NULL: tokens count the same, but for their limit */
    const float *x;
    size_t dim;
};

/* A row times the square root of what its token counts. */
static void weigh_row(void *ctx, size_t i, unsigned thread)
{
    const struct weighing *w = ctx;
    const size_t token = w->g->token ? w->g->token[i] : w->g->seen + i;
    const float limit = pith_token_limit_of(&w->g->limit, i);
    const float by = w->view ? sqrtf(pith_guide_weight(w->view, token)) * limit : limit;
    const float *x = w->x + i * w->dim;
    float *to = w->g->weighed + i * w->dim;
    (void)thread;
    for (size_t j = 0; j < w->dim; j++) to[j] = x[j] * by;
}

const float *pith_gather_weigh(const struct pith_gather *g, const struct pith_stats *st,
                               uint32_t view, const float *x, size_t n)
{
    struct weighing w = {.g = g, .view = g->view ? &g->view[view] : NULL, .x = x, .dim = st->dim};
    if (!g->view && g->limit.length == 0) return x;
    pith_pool_run(pith_backend_pool(g->backend), n, weigh_row, &w);
    return g->weighed;
}

void pith_gather_add_weighed(const struct pith_gather *g, const struct pith_stats *st,
                             double *squares, size_t n)
{
    struct sum_job job = {
        .x = g->weighed, .sum = squares, .weight = g->weight, .n = n, .dim = st->dim};
    pith_pool_run(pith_backend_pool(g->backend), (st->dim + COLUMNS_A_TASK - 1) / COLUMNS_A_TASK,
                  add_squares, &job);
}

/* Guided squares, and Hessians. */
static void add_products(const struct pith_gather *g, const struct pith_stats *st, double *squares,
                         const float *x, size_t n)
{
    const size_t dim = st->dim;
    double *guided = g->view ? squares : NULL;
    for (uint32_t v = 0; v < st->views && (guided || st->hessian); v++) {
        const float *weighed = pith_gather_weigh(g, st, v, x, n);
        if (guided) pith_gather_add_weighed(g, st, guided + v * dim, n);
        if (st->hessian)
            pith_syrk(g->backend, st->hessian + v * dim * dim, dim, weighed, n,
                      (float)(g->alpha * g->weight));
    }
}

struct differing {
    const struct pith_gather *g;
    const struct pith_guide_view *view; /* NULL: tokens count the same */
    const float *x, *other;
    size_t dim;
};

static void differ_row(void *ctx, size_t i, unsigned thread)
{
    const struct differing *d = ctx;
    const size_t token = d->g->token ? d->g->token[i] : d->g->seen + i;
    const float limit = pith_token_limit_of(&d->g->limit, i);
    const float by = (float)(d->g->alpha * d->g->weight) *
                     (d->view ? pith_guide_weight(d->view, token) : 1) * limit * limit;
    const float *x = d->x + i * d->dim, *other = d->other + i * d->dim;
    float *to = d->g->weighed + i * d->dim;
    (void)thread;
    for (size_t j = 0; j < d->dim; j++) to[j] = (other[j] - x[j]) * by;
}

void pith_gather_add_drift(const struct pith_gather *g, const struct pith_stats *st,
                           const struct pith_gather_drift *of)
{
    const size_t dim = st->dim;
    for (uint32_t v = 0; v < st->views; v++) {
        struct differing d = {.g = g,
                              .view = g->view ? &g->view[v] : NULL,
                              .x = of->x,
                              .other = of->other,
                              .dim = dim};
        pith_pool_run(pith_backend_pool(g->backend), of->n, differ_row, &d);
        pith_gemm(g->backend, &(struct pith_gemm){.m = of->rows,
                                                  .n = dim,
                                                  .k = of->n,
                                                  .a = g->weighed + of->first,
                                                  .a_rs = 1,
                                                  .a_cs = dim,
                                                  .b = of->x,
                                                  .b_rs = dim,
                                                  .b_cs = 1,
                                                  .c = st->drift + (v * dim + of->first) * dim,
                                                  .ldc = dim,
                                                  .accumulate = true});
    }
}

void pith_gather_add(const struct pith_gather *g, uint32_t site, const float *x, size_t n)
{
    struct pith_stats *st = &g->stats[site - g->first];
    struct pith_gather_sums *sums = &g->sums[site - g->first];
    const size_t dim = st->dim;
    add_sums(g, sums, &(struct sum_job){.x = x, .weight = g->weight, .n = n, .dim = dim});
    add_range(g, st, x, n);
    if (st->samples)
        for (size_t i = 0; i < n; i++)
            if ((g->seen + i) % g->step == 0 && st->sample_count < g->sample_limit)
                memcpy(st->samples + st->sample_count++ * dim, x + i * dim, dim * sizeof *x);
    st->tokens += n;
    sums->mass += g->weight * (double)n;
}

void pith_gather_limit(struct pith_gather *g, const float *x, size_t n, size_t dim)
{
    pith_token_limit_find(&g->limit, pith_backend_pool(g->backend), x, n, dim);
}

bool pith_gather_tap(void *ctx, uint32_t site, const float *x, size_t n, size_t dim)
{
    struct pith_gather *g = ctx;
    if (site < g->first || site - g->first >= g->count) return false;
    struct pith_stats *st = &g->stats[site - g->first];
    if (g->relay) {
        pith_gather_keep(g, site, x, n);
        return site - g->first == g->count - 1;
    }
    pith_gather_add(g, site, x, n);
    const double start = pith_clock();
    pith_gather_limit(g, x, n, dim);
    add_products(g, st, g->sums[site - g->first].squares, x, n);
    if (st->drift)
        pith_gather_add_drift(g, st,
                              &(struct pith_gather_drift){
                                  .x = x, .other = g->other, .n = n, .rows = dim});
    if (st->hessian) g->hessian_seconds += pith_clock() - start;
    return site - g->first == g->count - 1;
}

static bool take_site(struct pith_stats *st, struct pith_gather_sums *sums, uint32_t dim,
                      const struct pith_gather_plan *plan)
{
    bool ok = true;
    st->dim = dim;
    st->views = plan->needs & PITH_NEED_GUIDED
                    ? views_of(&plan->layer->site[plan->first], plan->guided)
                    : 1;
    if (plan->needs & PITH_NEED_ABSMEAN) {
        st->absmean = pith_zalloc(dim, sizeof(float));
        sums->absolute = pith_zalloc(dim, sizeof(double));
        ok = st->absmean && sums->absolute;
    }
    if (plan->needs & PITH_NEED_SQUARES) {
        st->squares = pith_zalloc((size_t)st->views * dim, sizeof(float));
        sums->squares = pith_zalloc((size_t)st->views * dim, sizeof(double));
        ok = ok && st->squares && sums->squares;
    }
    if (plan->needs & PITH_NEED_RANGE) {
        st->lo = pith_zalloc(dim, sizeof(float));
        st->hi = pith_zalloc(dim, sizeof(float));
        ok = ok && st->lo && st->hi;
    }
    if (plan->needs & PITH_NEED_SAMPLES)
        ok = ok && (st->samples = pith_alloc_aligned(plan->samples * dim, sizeof(float)));
    const size_t square = (size_t)dim * dim;
    if (plan->needs & PITH_NEED_HESSIAN)
        ok = ok && (st->hessian = pith_alloc_aligned(st->views * square, sizeof(float)));
    if (st->hessian) memset(st->hessian, 0, st->views * square * sizeof(float));
    if (plan->needs & PITH_NEED_DRIFT)
        ok = ok && (st->drift = pith_alloc_aligned(st->views * square, sizeof(float)));
    if (st->drift) memset(st->drift, 0, st->views * square * sizeof(float));
    return ok;
}

/* What each view goes by. */
static bool take_views(struct pith_gather *g, const struct pith_gather_plan *plan)
{
    const struct pith_site_spec *site = &plan->layer->site[plan->first];
    const struct pith_guide *guide = plan->guided->guide;
    const uint32_t views = views_of(site, plan->guided);
    g->view = pith_alloc(views, sizeof *g->view);
    for (uint32_t v = 0; g->view && v < views; v++)
        g->view[v] = pith_guide_view(guide, plan->guided->layer, site->first + v / guide->groups,
                                     v % guide->groups);
    return g->view;
}

static size_t widest(const struct pith_gather_plan *plan)
{
    size_t dim = 0;
    for (uint32_t i = plan->first; i < plan->first + plan->count; i++)
        if (plan->layer->site[i].dim > dim) dim = plan->layer->site[i].dim;
    return dim;
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
    if (ok && plan->needs & PITH_NEED_HESSIAN)
        ok = pith_token_limit_init(&g->limit, plan->token_limit, plan->rows);
    if (ok && (plan->needs & (PITH_NEED_GUIDED | PITH_NEED_DRIFT) || g->limit.squares))
        ok = (g->weighed = pith_alloc_aligned(plan->rows * widest(plan), sizeof *g->weighed));
    if (ok && plan->needs & PITH_NEED_GUIDED) ok = take_views(g, plan);
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
        finish_sums(sums->squares, sums->mass, st->squares, st->views * st->dim, good);
    }
    pith_free(g->sums);
    pith_free(g->view);
    pith_free(g->weighed);
    pith_token_limit_free(&g->limit);
    g->sums = NULL;
    g->view = NULL;
    g->weighed = NULL;
}
