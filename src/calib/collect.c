#include "calib/collect.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

enum pith_status pith_collector_init(struct pith_collector *c, struct pith_backend *be,
                                     const struct pith_model *m, size_t length,
                                     struct pith_error *err)
{
    *c = (struct pith_collector){.backend = be, .model = m, .length = length};
    enum pith_status s = pith_scratch_init(&c->scratch, &m->shape, length, err);
    if (s == PITH_OK) s = pith_kv_init(&c->kv, &m->shape, 1, length, PITH_F32, err);
    if (s == PITH_OK && !(c->row = pith_alloc_aligned(length * m->shape.hidden, sizeof(float))))
        s = pith_fail_nomem(err, "a calibration window");
    if (s != PITH_OK) pith_collector_free(c);
    return s;
}

void pith_collector_free(struct pith_collector *c)
{
    pith_scratch_free(&c->scratch);
    pith_kv_free(&c->kv);
    pith_free(c->row);
    *c = (struct pith_collector){0};
}

uint64_t pith_collector_bytes(const struct pith_shape *s, size_t length)
{
    return pith_scratch_bytes(s, length) + pith_kv_bytes(s, 1, length, PITH_F32) +
           (uint64_t)s->hidden * length * sizeof(float);
}

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

/* One pass over all windows. */
struct gather {
    struct pith_backend *backend;
    struct pith_stats *stats;
    double
        *sum[PITH_SITE_COUNT]; /* of |x|; averages of millions of values need more than float32 */
    unsigned sites, last_site;
    size_t step; /* every step-th token is a sample */
    size_t seen; /* tokens of the windows before this one */
    float alpha; /* 2 / tokens */
    size_t sample_limit;
};

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

static bool gather_tap(void *ctx, enum pith_site site, const float *x, size_t n, size_t dim)
{
    struct gather *g = ctx;
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
    if (st->hessian) pith_syrk(g->backend, st->hessian, dim, x, n, g->alpha);
    st->tokens += n;
    return site == (enum pith_site)g->last_site;
}

static enum pith_status prepare(struct gather *g, const struct pith_shape *shape, unsigned needs,
                                size_t tokens, size_t samples, struct pith_error *err)
{
    g->step = samples && tokens > samples ? tokens / samples : 1;
    g->alpha = 2.0f / (float)tokens;
    g->sample_limit = samples;
    for (unsigned i = 0; i < PITH_SITE_COUNT; i++) {
        if (!(g->sites & 1u << i)) continue;
        struct pith_stats *st = &g->stats[i];
        const uint32_t dim = pith_site_dim(shape, (enum pith_site)i);
        st->dim = dim;
        g->last_site = i;
        bool ok = true;
        if (needs & PITH_NEED_ABSMEAN) {
            st->absmean = pith_zalloc(dim, sizeof(float));
            g->sum[i] = pith_zalloc(dim, sizeof(double));
            ok = st->absmean && g->sum[i];
        }
        if (needs & PITH_NEED_SAMPLES)
            ok = ok && (st->samples = pith_alloc_aligned(samples * dim, sizeof(float)));
        if (needs & PITH_NEED_HESSIAN)
            ok = ok && (st->hessian = pith_alloc_aligned((size_t)dim * dim, sizeof(float)));
        if (!ok) return pith_fail_nomem(err, "calibration statistics");
        if (st->hessian) memset(st->hessian, 0, (size_t)dim * dim * sizeof(float));
    }
    return PITH_OK;
}

static struct pith_pass make_pass(struct pith_collector *c, pith_tap_fn *tap, void *ctx)
{
    return (struct pith_pass){
        .backend = c->backend,
        .model = c->model,
        .scratch = &c->scratch,
        .kv = &c->kv,
        .tap = tap,
        .tap_ctx = ctx,
    };
}

static enum pith_status run_window(struct pith_collector *c, const struct pith_pass *p,
                                   const struct pith_block *b, const struct pith_acts *acts,
                                   size_t w, struct pith_error *err)
{
    const size_t count = acts->length * acts->hidden;
    memcpy(c->row, acts->x + w * count, count * sizeof(float));
    return pith_block_forward(p, b, c->row, acts->length, NULL, err);
}

static enum pith_status tell(const struct pith_collector *c, struct pith_error *err)
{
    return c->step ? c->step(c->step_ctx, err) : PITH_OK;
}

enum pith_status pith_collect(struct pith_collector *c, const struct pith_block *b,
                              const struct pith_acts *acts, unsigned sites, unsigned needs,
                              size_t samples, struct pith_stats *stats, struct pith_error *err)
{
    memset(stats, 0, PITH_SITE_COUNT * sizeof *stats);
    struct gather g = {.backend = c->backend, .stats = stats, .sites = sites};
    enum pith_status s =
        prepare(&g, &c->model->shape, needs, acts->windows * acts->length, samples, err);
    const struct pith_pass pass = make_pass(c, gather_tap, &g);
    for (size_t w = 0; w < acts->windows && s == PITH_OK; w++) {
        s = run_window(c, &pass, b, acts, w, err);
        if (s == PITH_OK) s = tell(c, err);
        g.seen += acts->length;
    }
    for (unsigned i = 0; i < PITH_SITE_COUNT; i++) {
        if (g.sum[i] && s == PITH_OK)
            for (uint32_t j = 0; j < stats[i].dim; j++)
                stats[i].absmean[j] = (float)(g.sum[i][j] / (double)stats[i].tokens);
        pith_free(g.sum[i]);
    }
    return s;
}

enum pith_status pith_propagate(struct pith_collector *c, const struct pith_block *b,
                                const struct pith_acts *in, const struct pith_acts *out,
                                struct pith_error *err)
{
    const struct pith_pass pass = make_pass(c, NULL, NULL);
    const size_t count = in->length * in->hidden;
    for (size_t w = 0; w < in->windows; w++) {
        PITH_TRY(run_window(c, &pass, b, in, w, err));
        memcpy(out->x + w * count, c->row, count * sizeof(float));
        PITH_TRY(tell(c, err));
    }
    return PITH_OK;
}

struct keep {
    enum pith_site site;
    float *out;
};

static bool keep_tap(void *ctx, enum pith_site site, const float *x, size_t n, size_t dim)
{
    struct keep *k = ctx;
    if (site != k->site) return false;
    memcpy(k->out, x, n * dim * sizeof *x);
    k->out += n * dim;
    return true;
}

enum pith_status pith_collect_windows(struct pith_collector *c, const struct pith_block *b,
                                      const struct pith_acts *acts, enum pith_site site,
                                      size_t count, float *out, struct pith_error *err)
{
    struct keep k = {site, out};
    const struct pith_pass pass = make_pass(c, keep_tap, &k);
    for (size_t i = 0; i < count; i++)
        PITH_TRY(run_window(c, &pass, b, acts, i * acts->windows / count, err));
    return PITH_OK;
}
