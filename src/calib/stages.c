#include "calib/stages.h"

#include "backend/input.h"
#include "base/file.h"
#include "calib/gather.h"

#include <string.h>

uint32_t pith_stages_width(const struct pith_shape *s)
{
    const uint32_t o = pith_site_dim(s, PITH_SITE_O), down = pith_site_dim(s, PITH_SITE_DOWN);
    return o > down ? o : down;
}

/* A stage at work on a window. */
struct stage {
    struct pith_stages *s;
    struct pith_gather *gather; /* NULL: nothing is gathered */
    size_t window;
};

static float *rows_of(const struct stage *t, const struct pith_acts *acts)
{
    return acts->x + t->window * acts->length * acts->hidden;
}

static float *between_of(const struct stage *t, size_t dim)
{
    return t->s->between + t->window * t->s->in->length * dim;
}

static void tap(const struct stage *t, enum pith_site site, const float *x)
{
    const struct pith_acts *in = t->s->in;
    const size_t dim = pith_site_dim(&t->s->collector->model->shape, site);
    if (t->gather) (void)pith_gather_tap(t->gather, site, x, in->length, dim);
}

/* Keeps the input of o or down, and goes no further. */
static bool keep(void *ctx, enum pith_site site, const float *x, size_t n, size_t dim)
{
    const struct stage *t = ctx;
    if (site != PITH_SITE_O && site != PITH_SITE_DOWN) return false;
    memcpy(between_of(t, dim), x, n * dim * sizeof *x);
    tap(t, site, x);
    return true;
}

static struct pith_pass pass_of(struct stage *t)
{
    struct pith_collector *c = t->s->collector;
    return (struct pith_pass){
        .backend = c->backend,
        .model = c->model,
        .scratch = &c->scratch,
        .kv = &c->kv,
        .tap = keep,
        .tap_ctx = t,
    };
}

/* The window's rows through one of the block's norms, in the collector's scratch. */
static const float *normed(const struct stage *t, enum pith_norm norm, const float *x)
{
    struct pith_collector *c = t->s->collector;
    const struct pith_shape *shape = &c->model->shape;
    pith_rmsnorm(c->backend, x, t->s->in->length, shape->hidden, t->s->block->norm[norm],
                 shape->eps, c->scratch.norm);
    return c->scratch.norm;
}

/* to = from + the linear's output for the input that was kept. */
static void add_linear(const struct stage *t, enum pith_role role, enum pith_site site,
                       const float *from, float *to)
{
    struct pith_collector *c = t->s->collector;
    const struct pith_linear_weights *l = &t->s->block->linear[role];
    const struct pith_acts *in = t->s->in;
    const size_t count = in->length * in->hidden;
    const size_t dim = pith_site_dim(&c->model->shape, site);
    struct pith_site_input input = {
        .x = between_of(t, dim), .n = in->length, .cols = dim, .work = c->scratch.gate};
    if (site == PITH_SITE_O) input.work = c->scratch.q;
    input.hadamard_done = true; /* so it was tapped, and kept */
    pith_linear_site(c->backend, &l->w, l->bias, &input, c->scratch.out);
    for (size_t i = 0; i < count; i++) to[i] = from[i] + c->scratch.out[i];
}

static enum pith_status run_stage(struct stage *t, int stage, struct pith_error *err)
{
    struct pith_stages *s = t->s;
    struct pith_collector *c = s->collector;
    const struct pith_pass pass = pass_of(t);
    const float *in = rows_of(t, s->in);
    float *out = rows_of(t, s->out);
    switch (stage) {
    case PITH_SITE_QKV: tap(t, PITH_SITE_QKV, normed(t, PITH_NORM_INPUT, in)); return PITH_OK;
    case PITH_SITE_O:
        return pith_block_attention(&pass, s->block, normed(t, PITH_NORM_INPUT, in), s->in->length,
                                    c->scratch.out, NULL, err);
    case PITH_SITE_GATE_UP:
        add_linear(t, PITH_ROLE_O, PITH_SITE_O, in, out);
        tap(t, PITH_SITE_GATE_UP, normed(t, PITH_NORM_POST, out));
        return PITH_OK;
    case PITH_SITE_DOWN:
        pith_block_mlp(&pass, s->block, normed(t, PITH_NORM_POST, out), s->in->length,
                       c->scratch.out, NULL);
        return PITH_OK;
    default: add_linear(t, PITH_ROLE_DOWN, PITH_SITE_DOWN, out, out); return PITH_OK;
    }
}

/* Has the kernel read the next window while this one is at work. */
static void read_ahead(const struct stage *t, int stage)
{
    const struct pith_stages *s = t->s;
    const struct pith_shape *shape = &s->collector->model->shape;
    const size_t length = s->in->length, next = t->window + 1;
    const enum pith_site kept = stage == PITH_SITE_GATE_UP ? PITH_SITE_O : PITH_SITE_DOWN;
    const size_t dim = pith_site_dim(shape, kept);
    if (next == s->in->windows) return;
    const struct pith_acts *acts = stage > PITH_SITE_GATE_UP ? s->out : s->in;
    pith_pages_prefetch(acts->x + next * length * acts->hidden,
                        length * acts->hidden * sizeof(float));
    if (stage == PITH_SITE_GATE_UP || stage > PITH_SITE_DOWN)
        pith_pages_prefetch(s->between + next * length * dim, length * dim * sizeof(float));
}

static enum pith_status run_windows(struct pith_stages *s, int stage, struct pith_gather *gather,
                                    struct pith_error *err)
{
    struct stage t = {.s = s, .gather = gather};
    struct pith_collector *c = s->collector;
    for (; t.window < s->in->windows; t.window++) {
        read_ahead(&t, stage);
        PITH_TRY(run_stage(&t, stage, err));
        if (gather) gather->seen += s->in->length;
        if (c->step) PITH_TRY(c->step(c->step_ctx, err));
    }
    s->done = stage;
    return PITH_OK;
}

/* Runs the stages before `stage` that nothing was asked of. */
static enum pith_status catch_up(struct pith_stages *s, int stage, struct pith_error *err)
{
    if (s->done < PITH_SITE_QKV) s->done = PITH_SITE_QKV; /* leaves nothing behind */
    while (s->done + 1 < stage) PITH_TRY(run_windows(s, s->done + 1, NULL, err));
    return PITH_OK;
}

enum pith_status pith_stages_collect(struct pith_stages *s, enum pith_site site, unsigned needs,
                                     struct pith_stats *stats, struct pith_error *err)
{
    struct pith_collector *c = s->collector;
    struct pith_gather g;
    const struct pith_gather_plan plan = {1u << site, needs, s->in->windows * s->in->length, 0};
    if (!s->between) return pith_collect(c, s->block, s->in, plan.sites, needs, 0, stats, err);
    enum pith_status st = pith_gather_begin(&g, c->backend, &c->model->shape, &plan, stats, err);
    if (st == PITH_OK && site > PITH_SITE_QKV) st = catch_up(s, (int)site, err);
    if (st == PITH_OK) st = run_windows(s, (int)site, &g, err);
    c->hessian_seconds += g.hessian_seconds;
    pith_gather_end(&g, st == PITH_OK);
    return st;
}

enum pith_status pith_stages_finish(struct pith_stages *s, struct pith_error *err)
{
    if (!s->between) return pith_propagate(s->collector, s->block, s->in, s->out, err);
    PITH_TRY(catch_up(s, PITH_SITE_COUNT, err));
    return run_windows(s, PITH_SITE_COUNT, NULL, err);
}
