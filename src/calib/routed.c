#include "calib/routed.h"

#include "base/mem.h"
#include "base/names.h"
#include "calib/sent.h"

#include <string.h>

static const char *const names[] = {
    [PITH_EXPERTS_POOLED] = "pooled", [PITH_EXPERTS_ROUTED] = "routed", [PITH_EXPERTS_ALL] = "all"};

static const char *rule_name(size_t i)
{
    return i < PITH_COUNT(names) ? names[i] : NULL;
}

enum pith_status pith_experts_rule_find(const char *name, enum pith_experts_rule *out,
                                        struct pith_error *err)
{
    *out = PITH_EXPERTS_POOLED;
    if (!name) return PITH_OK;
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        if (!pith_name_equal(names[i], name)) continue;
        *out = (enum pith_experts_rule)i;
        return PITH_OK;
    }
    return pith_fail_name(err, "rule for experts", name, rule_name);
}

const char *pith_experts_rule_name(enum pith_experts_rule rule)
{
    return names[rule];
}

size_t pith_experts_common(enum pith_experts_rule rule, size_t tokens)
{
    const size_t pooled = tokens < PITH_POOLED_TOKENS ? tokens : PITH_POOLED_TOKENS;
    return rule == PITH_EXPERTS_ALL ? tokens : rule == PITH_EXPERTS_POOLED ? pooled : 0;
}

void pith_routed_free(struct pith_routed *r)
{
    pith_free(r->chosen);
    pith_free(r->share);
    pith_free(r->count);
    pith_free(r->sent.from);
    *r = (struct pith_routed){.rule = r->rule};
}

static struct pith_pass pass_of(const struct pith_routed_place *p, pith_tap_fn *tap, void *ctx)
{
    return (struct pith_pass){.backend = p->collector->backend,
                              .model = p->collector->model,
                              .scratch = &p->collector->scratch,
                              .kv = &p->collector->kv,
                              .tap = tap,
                              .tap_ctx = ctx};
}

static enum pith_status report_routed(const struct pith_collector *c, struct pith_error *err)
{
    return c->step ? c->step(c->step_ctx, err) : PITH_OK;
}

/* --- choices ---------------------------------------------------------------------------------- */

/* Every token's experts, a window at a time. */
static enum pith_status choose(struct pith_routed *r, const struct pith_routed_place *p,
                               struct pith_error *err)
{
    const struct pith_moe *m = &p->collector->model->shape.moe;
    const struct pith_acts *a = p->acts;
    const struct pith_pass pass = pass_of(p, NULL, NULL);
    r->taken = m->taken;
    r->tokens = pith_acts_all(a) * a->length;
    r->chosen = pith_alloc(r->tokens, m->taken * sizeof *r->chosen);
    r->count = pith_zalloc(m->experts, sizeof *r->count);
    if (m->scales_input) r->share = pith_alloc(r->tokens, m->taken * sizeof *r->share);
    if (!r->chosen || !r->count || (m->scales_input && !r->share))
        return pith_fail_nomem(err, "the choices of experts");
    for (size_t w = 0; w < a->windows; w++) {
        float *x = pith_acts_window(a, w);
        struct pith_nodes nodes = pith_nodes_begin(&pass, p->block, x, a->length);
        nodes.from = p->from;
        const size_t at = (a->first + w) * a->length * m->taken;
        PITH_TRY(pith_experts_choose(&pass, p->block, &nodes, r->chosen + at, err));
        if (r->share)
            memcpy(r->share + at, p->collector->scratch.share,
                   a->length * m->taken * sizeof *r->share);
        PITH_TRY(report_routed(p->collector, err));
    }
    PITH_TRY(pith_sent_choices(r, p, err));
    for (size_t i = 0; i < r->tokens * m->taken; i++) r->count[r->chosen[i]]++;
    return PITH_OK;
}

/* What an expert's own tokens are multiplied by on the average; 1 where there is none. */
static float usual_share(const struct pith_routed *r, uint32_t expert)
{
    double sum = 0;
    for (size_t t = 0; r->share && t < r->tokens; t++) {
        const uint32_t *at = pith_routed_taken(r, t, expert);
        if (at) sum += (double)r->share[at - r->chosen];
    }
    return r->share && r->count[expert] ? (float)(sum / (double)r->count[expert]) : 1.0f;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* Rows on their way to an expert. */
struct batch {
    const struct pith_routed_place *place;
    struct pith_gather *gather;
    uint32_t expert;
    size_t n; /* in the collector's row */
    const struct pith_routed *routed;
    float usual;     /* share of tokens that do not take the expert */
    float *share;    /* [length] of the rows, where it multiplies the input; else NULL */
    uint32_t *token; /* [length]: which they are */
    const float *sent; /* the next token's row where rows were sent here; else NULL */
    /* With a twin: its rows of the stream, and what it has at the site. */
    float *twin_row, *other;
};

static bool tap(void *ctx, uint32_t site, const float *x, size_t n, size_t dim)
{
    return pith_gather_tap(ctx, site, x, n, dim);
}

static bool keep_routed_tap(void *ctx, uint32_t site, const float *x, size_t n, size_t dim)
{
    const struct batch *b = ctx;
    if (site != b->gather->first) return false;
    memcpy(b->other, x, n * dim * sizeof *x);
    return true;
}

/* The batch's rows of the stream, `row`, to the expert as it is in that place. */
static enum pith_status run_rows(const struct batch *b, const struct pith_routed_place *p,
                                 const struct pith_pass *pass, float *row, struct pith_error *err)
{
    struct pith_nodes nodes = pith_nodes_begin(pass, p->block, row, b->n);
    nodes.from = p->from;
    nodes.to = p->to;
    PITH_TRY(pith_nodes_run(pass, p->block, &nodes, NULL, err));
    float *x = nodes.reg[pith_plan_experts(p->block->plan)->in];
    const size_t hidden = p->acts->hidden;
    for (size_t i = 0; b->share && i < b->n * hidden; i++) x[i] *= b->share[i / hidden];
    return pith_expert_tap(pass, p->block, b->expert, x, b->n, err);
}

static enum pith_status flush(struct batch *b, struct pith_error *err)
{
    const struct pith_routed_place *p = b->place;
    const struct pith_pass pass = pass_of(p, tap, b->gather), twin = pass_of(p, keep_routed_tap, b);
    if (b->n == 0) return PITH_OK;
    if (p->twin) PITH_TRY(run_rows(b, p->twin, &twin, b->twin_row, err));
    PITH_TRY(run_rows(b, p, &pass, p->collector->row, err));
    b->gather->seen += b->n;
    b->n = 0;
    return report_routed(p->collector, err);
}

static enum pith_status add_row(struct batch *b, size_t token, struct pith_error *err)
{
    const struct pith_acts *a = b->place->acts;
    struct pith_collector *c = b->place->collector;
    const float *row = b->sent ? b->sent : pith_acts_row(a, token);
    b->token[b->n] = (uint32_t)token;
    memcpy(c->row + b->n * a->hidden, row, a->hidden * sizeof *c->row);
    if (b->twin_row) {
        const float *other = b->sent ? b->sent + a->hidden
                                     : pith_acts_row(b->place->twin->acts, token);
        memcpy(b->twin_row + b->n * a->hidden, other, a->hidden * sizeof *b->twin_row);
    }
    if (b->sent) b->sent += pith_sent_width(b->place);
    if (b->share) {
        const uint32_t *at = pith_routed_taken(b->routed, token, b->expert);
        b->share[b->n] = at ? b->routed->share[at - b->routed->chosen] : b->usual;
    }
    b->n++;
    return b->n < c->length ? PITH_OK : flush(b, err);
}

/* How many tokens of the whole text are added to an expert's own. */
static size_t pooled_tokens(const struct pith_routed *r)
{
    return r->rule == PITH_EXPERTS_POOLED ? pith_experts_common(r->rule, r->tokens) : 0;
}

static enum pith_status add_tokens(const struct pith_routed *r, struct batch *b,
                                   struct pith_error *err)
{
    const size_t pooled = pooled_tokens(r);
    b->gather->weight = pooled ? (double)PITH_POOLED_MASS / (double)pooled : 1;
    b->sent = r->sent.rows;
    for (size_t i = 0; i < pooled; i++)
        PITH_TRY(add_row(b, pith_pooled_token(r, i, pooled), err));
    PITH_TRY(flush(b, err));
    b->gather->weight = 1;
    if (b->sent && r->rule != PITH_EXPERTS_ALL)
        b->sent = r->sent.rows + r->sent.from[b->expert] * pith_sent_width(b->place);
    for (size_t t = 0; t < r->tokens; t++)
        if (r->rule == PITH_EXPERTS_ALL || pith_routed_taken(r, t, b->expert))
            PITH_TRY(add_row(b, t, err));
    return flush(b, err);
}

static bool take_batch(struct batch *b, uint32_t dim)
{
    const size_t length = b->place->collector->length, hidden = b->place->acts->hidden;
    b->token = pith_alloc(length, sizeof *b->token);
    if (b->routed->share) b->share = pith_alloc(length, sizeof *b->share);
    if (b->place->twin) {
        b->twin_row = pith_alloc_aligned(length * hidden, sizeof *b->twin_row);
        b->other = pith_alloc_aligned(length * dim, sizeof *b->other);
    }
    return b->token && (!b->routed->share || b->share) &&
           (!b->place->twin || (b->twin_row && b->other));
}

static void free_batch(struct batch *b)
{
    pith_free(b->token);
    pith_free(b->share);
    pith_free(b->twin_row);
    pith_free(b->other);
}

enum pith_status pith_routed_collect(struct pith_routed *r, const struct pith_routed_place *place,
                                     const struct pith_gather_plan *plan, struct pith_stats *stats,
                                     struct pith_error *err)
{
    const struct pith_site_spec *site = &plan->layer->site[plan->first];
    struct pith_collector *c = place->collector;
    struct pith_gather g;
    struct batch b = {.place = place, .gather = &g, .expert = site->expert, .routed = r};
    struct pith_ranks *ranks = c->relay.ranks;
    if (!r->chosen) {
        PITH_TRY(choose(r, place, err));
        if (!pith_ranks_alone(ranks))
            PITH_TRY(pith_sent_bring(r, place, pith_experts_common(r->rule, r->tokens), err));
    }
    if (pith_relay_owner(&c->relay, b.expert) != pith_ranks_own(ranks)) return PITH_OK;
    b.usual = usual_share(r, b.expert);
    const size_t own = r->rule == PITH_EXPERTS_ALL ? r->tokens : r->count[b.expert];
    struct pith_gather_plan these = *plan;
    these.tokens = own + pooled_tokens(r);
    these.mass = (double)own + (pooled_tokens(r) ? PITH_POOLED_MASS : 0);
    if (these.tokens == 0) these.tokens = 1;
    enum pith_status s = pith_gather_begin(&g, c->backend, &these, stats, err);
    if (s == PITH_OK && !take_batch(&b, site->dim)) s = pith_fail_nomem(err, "a batch of tokens");
    g.token = b.token;
    g.other = b.other;
    if (s == PITH_OK) s = add_tokens(r, &b, err);
    c->hessian_seconds += g.hessian_seconds;
    pith_gather_end(&g, s == PITH_OK);
    free_batch(&b);
    return s;
}
