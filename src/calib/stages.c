#include "calib/stages.h"

#include "base/file.h"
#include "base/mem.h"
#include "calib/gather.h"

#include <string.h>

/* --- where a program is cut ------------------------------------------------------------------- */

/* Which registers besides the stream the nodes from `at` on read before they write them. */
static unsigned live_at(const struct pith_layer_plan *l, uint32_t at)
{
    unsigned live = 0;
    for (uint32_t i = l->nodes; i-- > at;) {
        const struct pith_node *n = &l->node[i];
        live = (live & ~pith_node_writes(n)) | pith_node_reads(n);
    }
    return live & ~(1u << PITH_REG_STREAM | l->carried);
}

static uint32_t stage_width(const struct pith_layer_plan *l, unsigned live)
{
    uint32_t width = 0;
    for (int i = 0; i < PITH_LAYER_REGS; i++)
        if (live >> i & 1) width += l->width[i];
    return width;
}

/* Where one stage ends and the next begins. */
struct cut {
    uint32_t at;   /* the next stage's first node */
    unsigned live; /* registers that are stored */
    bool out;      /* the stream is in `out`: some node before has added to it */
    bool tapped;   /* `at` is the first linear of the site: its input has been looked at */
};

/* The first linear of a site; the end of the program for a site beyond the last. */
static uint32_t first_linear(const struct pith_layer_plan *l, uint32_t site)
{
    return site < l->sites ? l->site[site].from : l->nodes;
}

static bool stage_is_routed(const struct pith_layer_plan *l, uint32_t site)
{
    return site < l->sites && l->site[site].expert != PITH_NO_PART;
}

/* The site before that all tokens reach; PITH_NO_PART: there is none. Experts' sites are no stages:
 * what they read is computed from what the router's leaves. */
static uint32_t site_before(const struct pith_layer_plan *l, uint32_t site)
{
    do site--;
    while (site != PITH_NO_PART && stage_is_routed(l, site));
    return site;
}

/* The cut that ends stage `site`: between the linears of the site before and its own, where the
 * least is to be stored. Stage l->sites is the end. */
static struct cut cut_of(const struct pith_layer_plan *l, uint32_t site)
{
    struct cut c = {.at = first_linear(l, site)};
    const uint32_t last = site_before(l, site);
    const uint32_t before = last == PITH_NO_PART ? 0 : l->site[last].from + l->site[last].count;
    c.live = live_at(l, c.at);
    for (uint32_t i = c.at; i-- > before;) {
        const unsigned live = live_at(l, i);
        if (stage_width(l, live) >= stage_width(l, c.live)) continue;
        c.at = i;
        c.live = live;
    }
    for (uint32_t i = 0; i < c.at; i++)
        c.out |= pith_node_writes(&l->node[i]) & 1u << PITH_REG_STREAM;
    c.tapped = site < l->sites && c.at == first_linear(l, site);
    return c;
}

static uint32_t widest_cut(const struct pith_layer_plan *l)
{
    uint32_t most = 0;
    for (uint32_t site = 0; site <= l->sites; site++) {
        const uint32_t width = stage_is_routed(l, site) ? 0 : stage_width(l, cut_of(l, site).live);
        if (width > most) most = width;
    }
    return most;
}

uint32_t pith_stages_width(const struct pith_plans *plans)
{
    uint32_t most = 0;
    for (uint32_t k = 0; k < plans->kinds; k++) {
        const uint32_t width = widest_cut(&plans->kind[k]);
        if (width > most) most = width;
    }
    return most;
}

/* --- a stage ---------------------------------------------------------------------------------- */

/* A stage at work on a window. */
struct stage {
    struct pith_stages *s;
    struct pith_gather *gather; /* NULL: nothing is gathered */
    float *rows;                /* receives the site's input; NULL: nobody wants it */
    uint32_t site;
    struct cut from, to;
    struct pith_nodes nodes;
    size_t window;
};

static float *stage_rows(const struct stage *t, const struct pith_acts *acts)
{
    return pith_acts_window(acts, t->window);
}

/* Copies the registers of a cut to their place in memory, or back. A window has the same place in
 * all stages: what one stage writes must not lie on what it has still to read. */
static void copy_registers(const struct stage *t, const struct cut *c, bool keep)
{
    const struct pith_layer_plan *l = t->s->block->plan;
    const size_t length = t->s->in->length;
    float *at = t->s->between + t->window * length * t->s->width;
    for (int i = 0; i < PITH_LAYER_REGS; i++) {
        const size_t n = length * l->width[i];
        if (!(c->live >> i & 1)) continue;
        if (keep) memcpy(at, t->nodes.reg[i], n * sizeof *at);
        else memcpy(t->nodes.reg[i], at, n * sizeof *at);
        at += n;
    }
}

/* Looks at the site's input; keeps what is live where the cut is there. */
static bool tap_stage(void *ctx, uint32_t site, const float *x, size_t n, size_t dim)
{
    const struct stage *t = ctx;
    if (site != t->site) return false;
    if (t->to.tapped) copy_registers(t, &t->to, true);
    if (t->gather) (void)pith_gather_tap(t->gather, site, x, n, dim);
    if (t->rows) memcpy(t->rows, x, n * dim * sizeof *x);
    return true;
}

/* The stream after the stage before; a stage that adds to it does so in `out`. */
static float *stream_of(const struct stage *t)
{
    float *const in = stage_rows(t, t->s->in), *const out = stage_rows(t, t->s->out);
    if (t->from.out) return out;
    if (!t->to.out) return in;
    memcpy(out, in, t->s->in->length * t->s->in->hidden * sizeof *in);
    return out;
}

/* Registers that layers carry: where the last stage wrote them, or, where this one writes them, the
 * new place. */
static void find_carried(struct stage *t)
{
    const struct pith_plans *p = &t->s->collector->model->plans;
    const struct pith_acts *in = t->s->in, *out = t->s->out;
    const unsigned written = pith_plan_leaves(t->s->block->plan);
    float *old[PITH_LAYER_REGS] = {NULL}, *new[PITH_LAYER_REGS] = {NULL};
    pith_plans_lay(p, stage_rows(t, in) + in->length * in->hidden, in->length, old);
    pith_plans_lay(p, stage_rows(t, out) + in->length * in->hidden, in->length, new);
    for (int i = 0; i < PITH_LAYER_REGS; i++) {
        if (!old[i]) continue;
        t->nodes.reg[i] = written >> i & 1 ? new[i] : old[i];
        if (t->site == t->s->block->plan->sites && !(written >> i & 1))
            memcpy(new[i], old[i], in->length * p->width[i] * sizeof **new);
    }
}

static enum pith_status run_stage(struct stage *t, struct pith_error *err)
{
    struct pith_collector *c = t->s->collector;
    const struct pith_block *b = t->s->block;
    const struct pith_pass pass = {.backend = c->backend,
                                   .model = c->model,
                                   .scratch = &c->scratch,
                                   .kv = &c->kv,
                                   .tap = tap_stage,
                                   .tap_ctx = t};
    t->nodes = pith_nodes_begin(&pass, b, stream_of(t), t->s->in->length);
    find_carried(t);
    t->nodes.from = t->from.at;
    t->nodes.no_tap_first = t->from.tapped;
    copy_registers(t, &t->from, false);
    if (!t->to.tapped) {
        t->nodes.to = t->to.at;
        PITH_TRY(pith_nodes_run(&pass, b, &t->nodes, NULL, err));
        copy_registers(t, &t->to, true);
        t->nodes.from = t->to.at;
        t->nodes.no_tap_first = false;
    }
    t->nodes.to = t->site < b->plan->sites ? first_linear(b->plan, t->site) + 1 : b->plan->nodes;
    return pith_nodes_run(&pass, b, &t->nodes, NULL, err);
}

/* Has the kernel read the next window while this one is at work. */
static void read_ahead(const struct stage *t)
{
    const struct pith_stages *s = t->s;
    const size_t length = s->in->length, next = t->window + 1;
    const size_t width = s->width, stored = stage_width(s->block->plan, t->from.live);
    if (next == s->in->windows) return;
    const struct pith_acts *acts = t->from.out ? s->out : s->in;
    pith_pages_prefetch(pith_acts_window(acts, next), length * acts->hidden * sizeof(float));
    if (stored)
        pith_pages_prefetch(s->between + next * length * width, length * stored * sizeof(float));
}

static struct stage stage_of(struct pith_stages *s, uint32_t stage)
{
    const struct pith_layer_plan *l = s->block->plan;
    struct stage t = {.s = s, .site = stage, .to = cut_of(l, stage)};
    const uint32_t before = site_before(l, stage);
    if (before != PITH_NO_PART) t.from = cut_of(l, before);
    if (s->done == 0 || s->width == 0) s->width = widest_cut(l);
    return t;
}

static enum pith_status run_windows(struct pith_stages *s, uint32_t stage,
                                    struct pith_gather *gather, struct pith_error *err)
{
    struct stage t = stage_of(s, stage), twin = {0};
    struct pith_collector *c = s->collector;
    t.gather = gather;
    if (s->twin) twin = stage_of(s->twin, stage);
    if (gather) gather->other = twin.rows = s->rows;
    for (; t.window < s->in->windows; t.window++, twin.window++) {
        read_ahead(&t);
        if (s->twin) PITH_TRY(run_stage(&twin, err));
        PITH_TRY(run_stage(&t, err));
        if (gather) gather->seen += s->in->length;
        if (c->step) PITH_TRY(c->step(c->step_ctx, err));
    }
    s->done = stage + 1;
    if (s->twin) s->twin->done = s->done;
    return PITH_OK;
}

/* Runs the stages before `stage` without statistics; the first stores nothing. */
static enum pith_status catch_up(struct pith_stages *s, uint32_t stage, struct pith_error *err)
{
    if (s->done == 0 && stage > 0) s->done = 1;
    if (s->twin) s->twin->done = s->done;
    while (s->done < stage) {
        if (stage_is_routed(s->block->plan, s->done)) s->done++;
        else PITH_TRY(run_windows(s, s->done, NULL, err));
    }
    return PITH_OK;
}

/* Where nothing is stored between stages: the stream before the experts, into `out`, by the linears
 * as they are now. */
static enum pith_status run_to(struct pith_stages *s, const struct cut *cut, struct pith_error *err)
{
    struct pith_collector *c = s->collector;
    struct pith_pass pass = {
        .backend = c->backend, .model = c->model, .scratch = &c->scratch, .kv = &c->kv};
    const size_t count = pith_acts_floats(s->in);
    for (size_t w = 0; w < s->in->windows; w++) {
        float *x =
            memcpy(pith_acts_window(s->out, w), pith_acts_window(s->in, w), count * sizeof *x);
        pass.carried = x + s->in->length * s->in->hidden;
        struct pith_nodes nodes = pith_nodes_begin(&pass, s->block, x, s->in->length);
        nodes.to = cut->at;
        PITH_TRY(pith_nodes_run(&pass, s->block, &nodes, NULL, err));
        if (c->step) PITH_TRY(c->step(c->step_ctx, err));
    }
    return PITH_OK;
}

/* The first node behind what experts read. */
static uint32_t behind_input(const struct pith_layer_plan *l)
{
    const struct pith_node *experts = pith_plan_experts(l);
    uint32_t at = (uint32_t)(experts - l->node);
    while (at > 0 && !(pith_node_writes(&l->node[at - 1]) & 1u << experts->in)) at--;
    return at;
}

/* An expert's site: the router's stage has run, and the stream is stored. */
static enum pith_status collect_routed(struct pith_stages *s, const struct pith_gather_plan *plan,
                                       struct pith_stats *stats, struct pith_error *err)
{
    const struct pith_layer_plan *l = s->block->plan;
    const struct cut cut = cut_of(l, pith_plan_router(l));
    struct pith_routed_place twin = {0};
    struct pith_routed_place place = {.collector = s->collector,
                                      .block = s->block,
                                      .acts = cut.out || !s->between ? s->out : s->in,
                                      .from = cut.at,
                                      .to = behind_input(l)};
    if (plan->needs & PITH_NEED_DRIFT) {
        twin = place;
        twin.block = s->twin->block;
        twin.acts = cut.out ? s->twin->out : s->twin->in;
        place.twin = &twin;
    }
    if (cut.live)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "a layer whose experts read more than the stream cannot be calibrated");
    if (!s->between && !s->routed.chosen) PITH_TRY(run_to(s, &cut, err));
    return pith_routed_collect(&s->routed, &place, plan, stats, err);
}

static enum pith_status collect_stage(struct pith_stages *s, const struct pith_gather_plan *plan,
                                      struct pith_stats *stats, struct pith_error *err)
{
    struct pith_collector *c = s->collector;
    struct pith_gather g;
    enum pith_status st = pith_gather_begin(&g, c->backend, plan, stats, err);
    if (st == PITH_OK && plan->needs & PITH_NEED_DRIFT) {
        s->rows = pith_alloc_aligned(plan->rows * stats->dim, sizeof *s->rows);
        if (!s->rows) st = pith_fail_nomem(err, "a calibration window");
    }
    if (st == PITH_OK) st = pith_gather_spread(&g, &c->relay, s->in, plan, err);
    if (st == PITH_OK) st = run_windows(s, plan->first, &g, err);
    if (st == PITH_OK) st = pith_gather_meet(&g, s->in, err);
    pith_free(s->rows);
    s->rows = NULL;
    c->hessian_seconds += g.hessian_seconds;
    pith_gather_end(&g, st == PITH_OK);
    return st;
}

enum pith_status pith_stages_collect(struct pith_stages *s, uint32_t site, unsigned needs,
                                     size_t samples, struct pith_stats *stats,
                                     struct pith_error *err)
{
    const struct pith_layer_plan *l = s->block->plan;
    const bool routed = stage_is_routed(l, site);
    const struct pith_gather_plan plan = {.layer = l,
                                          .first = site,
                                          .count = 1,
                                          .needs = needs,
                                          .samples = samples,
                                          .tokens = pith_acts_all(s->in) * s->in->length,
                                          .guided = &s->guided,
                                          .rows = s->in->length,
                                          .token_limit = s->collector->token_limit};
    const struct pith_collect what = {
        .first = site, .count = 1, .needs = needs, .samples = samples, .guided = &s->guided};
    *stats = (struct pith_stats){0};
    if (needs & PITH_NEED_DRIFT && (!s->between || !s->twin))
        return pith_fail(err, PITH_UNSUPPORTED, "what has drifted is known stage by stage alone");
    if (!s->between && routed) return collect_routed(s, &plan, stats, err);
    if (!s->between) return pith_collect(s->collector, s->block, s->in, &what, stats, err);
    PITH_TRY(catch_up(s, routed ? pith_plan_router(l) + 1 : site, err));
    return routed ? collect_routed(s, &plan, stats, err) : collect_stage(s, &plan, stats, err);
}

enum pith_status pith_stages_finish(struct pith_stages *s, struct pith_error *err)
{
    const uint32_t end = s->block->plan->sites;
    if (!s->between) return pith_propagate(s->collector, s->block, s->in, s->out, err);
    PITH_TRY(catch_up(s, end, err));
    return run_windows(s, end, NULL, err);
}

void pith_stages_end(struct pith_stages *s)
{
    pith_routed_free(&s->routed);
    s->done = 0;
    if (s->twin) s->twin->done = 0;
}
