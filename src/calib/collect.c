#include "calib/collect.h"
#include "calib/gather.h"

#include "base/mem.h"
#include "kern/ops.h"

#include <string.h>

static size_t width_of(const struct pith_model *m)
{
    return (size_t)m->shape.hidden + pith_plans_carried(&m->plans);
}

enum pith_status pith_collector_init(struct pith_collector *c, struct pith_backend *be,
                                     const struct pith_model *m, size_t length,
                                     struct pith_error *err)
{
    *c = (struct pith_collector){.backend = be, .model = m, .length = length};
    enum pith_status s = pith_scratch_init(&c->scratch, &m->plans, length, err);
    if (s == PITH_OK) s = pith_kv_init(&c->kv, &m->plans, 1, length, PITH_F32, err);
    if (s == PITH_OK && !(c->row = pith_alloc_aligned(length * width_of(m), sizeof(float))))
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

uint64_t pith_collector_bytes(const struct pith_model *m, size_t length)
{
    return pith_scratch_bytes(&m->plans, length) + pith_kv_bytes(&m->plans, 1, length, PITH_F32) +
           (uint64_t)width_of(m) * length * sizeof(float);
}

static struct pith_pass make_pass(struct pith_collector *c, pith_tap_fn *tap, void *ctx)
{
    return (struct pith_pass){
        .backend = c->backend,
        .model = c->model,
        .scratch = &c->scratch,
        .kv = &c->kv,
        .carried = c->row + c->length * c->model->shape.hidden,
        .tap = tap,
        .tap_ctx = ctx,
    };
}

static enum pith_status run_window(struct pith_collector *c, const struct pith_pass *p,
                                   const struct pith_block *b, const struct pith_acts *acts,
                                   size_t w, struct pith_error *err)
{
    memcpy(c->row, pith_acts_window(acts, w), pith_acts_floats(acts) * sizeof(float));
    return pith_block_forward(p, b, c->row, acts->length, NULL, err);
}

/* Of the window that has just been run: its keys and values are still in the scratch. */
static void note_kv(const struct pith_collector *c, const struct pith_block *b)
{
    const struct pith_state_spec *s = &b->plan->state;
    const struct pith_node *node = pith_plan_attend(b->plan);
    const size_t dim[] = {s->key, s->value};
    if (!c->kv_most || !node) return;
    const float *const part[] = {c->scratch.reg[node->u.attend.k],
                                 c->scratch.reg[node->u.attend.v]};
    for (size_t row = 0; row < 2 * c->length * s->heads; row++) {
        const size_t i = row % 2, at = row / 2;
        float lo, hi, *of = &c->kv_most[i * s->heads + at % s->heads];
        pith_backend_kern(c->backend)->range(dim[i], part[i] + at * dim[i], &lo, &hi);
        const float most = -lo > hi ? -lo : hi;
        if (!(most <= *of)) *of = most;
    }
}

/* The most that any rank saw. */
static enum pith_status share_kv(const struct pith_collector *c, const struct pith_block *b,
                                 struct pith_error *err)
{
    const size_t count = 2 * (size_t)b->plan->state.heads;
    struct pith_ranks *ranks = c->relay.ranks;
    const size_t all = count * pith_ranks_count(ranks);
    if (pith_ranks_alone(ranks)) return PITH_OK;
    float *of = pith_alloc(all, sizeof *of);
    if (!of) return pith_fail_nomem(err, "the ends of keys and values");
    memcpy(of + count * pith_ranks_own(ranks), c->kv_most, count * sizeof *of);
    const enum pith_status s = pith_ranks_share_parts(ranks, of, all, sizeof *of, err);
    for (size_t i = 0; i < all && s == PITH_OK; i++)
        if (!(of[i] <= c->kv_most[i % count])) c->kv_most[i % count] = of[i];
    pith_free(of);
    return s;
}

static enum pith_status report(const struct pith_collector *c, struct pith_error *err)
{
    return c->step ? c->step(c->step_ctx, err) : PITH_OK;
}

enum pith_status pith_collect(struct pith_collector *c, const struct pith_block *b,
                              const struct pith_acts *acts, const struct pith_collect *what,
                              struct pith_stats *stats, struct pith_error *err)
{
    struct pith_gather g;
    const struct pith_gather_plan plan = {.layer = b->plan,
                                          .first = what->first,
                                          .count = what->count,
                                          .needs = what->needs,
                                          .tokens = pith_acts_all(acts) * acts->length,
                                          .samples = what->samples,
                                          .guided = what->guided,
                                          .rows = acts->length,
                                          .token_limit = c->token_limit};
    enum pith_status s = pith_gather_begin(&g, c->backend, &plan, stats, err);
    if (s == PITH_OK) s = pith_gather_spread(&g, &c->relay, acts, &plan, err);
    const struct pith_pass pass = make_pass(c, pith_gather_tap, &g);
    for (size_t w = 0; w < acts->windows && s == PITH_OK; w++) {
        s = run_window(c, &pass, b, acts, w, err);
        if (s == PITH_OK) note_kv(c, b);
        if (s == PITH_OK) s = report(c, err);
        g.seen += acts->length;
    }
    if (s == PITH_OK) s = pith_gather_meet(&g, acts, err);
    if (s == PITH_OK && c->kv_most) s = share_kv(c, b, err);
    c->hessian_seconds += g.hessian_seconds;
    pith_gather_end(&g, s == PITH_OK);
    return s;
}

enum pith_status pith_propagate(struct pith_collector *c, const struct pith_block *b,
                                const struct pith_acts *in, const struct pith_acts *out,
                                struct pith_error *err)
{
    const struct pith_pass pass = make_pass(c, NULL, NULL);
    for (size_t w = 0; w < in->windows; w++) {
        PITH_TRY(run_window(c, &pass, b, in, w, err));
        memcpy(pith_acts_window(out, w), c->row, pith_acts_floats(out) * sizeof(float));
        PITH_TRY(report(c, err));
    }
    return PITH_OK;
}

struct keep {
    uint32_t site;
    float *out;
};

static bool keep_tap(void *ctx, uint32_t site, const float *x, size_t n, size_t dim)
{
    struct keep *k = ctx;
    if (site != k->site) return false;
    memcpy(k->out, x, n * dim * sizeof *x);
    k->out += n * dim;
    return true;
}

enum pith_status pith_collect_windows(struct pith_collector *c, const struct pith_block *b,
                                      const struct pith_acts *acts, uint32_t site, size_t count,
                                      float *out, struct pith_error *err)
{
    struct keep k = {site, out};
    const struct pith_pass pass = make_pass(c, keep_tap, &k);
    const size_t all = pith_acts_all(acts);
    const size_t floats = acts->length * b->plan->site[site].dim;
    for (size_t i = 0; i < count; i++) {
        const size_t window = i * all / count;
        k.out = out + i * floats;
        if (window >= acts->first && window - acts->first < acts->windows)
            PITH_TRY(run_window(c, &pass, b, acts, window - acts->first, err));
        PITH_TRY(pith_relay_window(&c->relay, all, window, out + i * floats, floats, err));
    }
    return PITH_OK;
}
