#include "calib/guide.h"

#include "base/arena.h"
#include "calib/pairs.h"

#include <math.h>
#include <string.h>

/* --- where it lies ---------------------------------------------------------------------------- */

/* Of a layer: linears that all tokens reach; the linears of an expert, 0 without any. */
struct counts {
    uint32_t linears, first, each, experts, dense;
};

static struct counts counts_of(const struct pith_guide *g, const struct pith_layer_plan *l)
{
    const struct pith_node *node = pith_plan_experts(l);
    struct counts c = {.linears = l->linears, .first = l->linears, .dense = l->linears};
    if (!node) return c;
    c.first = node->u.experts.first;
    c.each = node->u.experts.each;
    c.experts = g->model->plans.experts;
    c.dense -= c.each * c.experts;
    return c;
}

/* What is felt of outputs one by one. */
static uint64_t squares_floats(const struct pith_guide *g, const struct counts *c)
{
    const uint64_t taken = c->each ? g->model->plans.taken : 0;
    return (uint64_t)g->tokens * ((uint64_t)g->groups * (c->dense + taken * c->each) + taken);
}

/* Of pairs, for the linears before that one. */
static uint64_t outputs_floats(const struct pith_guide *g, uint32_t layer, uint32_t linear)
{
    const struct pith_layer_plan *l = pith_plan(&g->model->plans, layer);
    uint64_t floats = 0;
    for (uint32_t i = 0; g->block && i < linear; i++)
        floats += pith_outputs_of(l->linear[i].rows, g->block, g->groups, g->groups);
    return floats;
}

uint64_t pith_guide_layer_floats(const struct pith_guide *g, uint32_t layer)
{
    const struct counts c = counts_of(g, pith_plan(&g->model->plans, layer));
    return squares_floats(g, &c) + outputs_floats(g, layer, c.linears);
}

float *pith_guide_outputs(const struct pith_guide *g, uint32_t layer, uint32_t linear)
{
    const struct counts c = counts_of(g, pith_plan(&g->model->plans, layer));
    return pith_guide_layer(g, layer) + squares_floats(g, &c) + outputs_floats(g, layer, linear);
}

uint64_t pith_guide_floats(const struct pith_guide *g, uint32_t layer)
{
    uint64_t floats = 0;
    for (uint32_t l = 0; l < layer; l++) floats += pith_guide_layer_floats(g, l);
    return floats;
}

static bool is_routed(const struct counts *c, uint32_t linear)
{
    return linear >= c->first && linear - c->first < c->each * c->experts;
}

/* What the tokens of a layer took. */
static float *takes_of(const struct pith_guide *g, uint32_t layer, const struct counts *c)
{
    return pith_guide_layer(g, layer) + (size_t)c->dense * g->groups * g->tokens;
}

static float *values_of(const struct pith_guide *g, uint32_t layer, const struct counts *c,
                        uint32_t linear)
{
    const size_t taken = g->model->plans.taken;
    const uint32_t before = linear < c->first ? linear : linear - c->each * c->experts;
    if (!is_routed(c, linear))
        return pith_guide_layer(g, layer) + (size_t)before * g->groups * g->tokens;
    return takes_of(g, layer, c) + taken * g->tokens +
           (size_t)((linear - c->first) % c->each) * g->groups * taken * g->tokens;
}

bool pith_guide_hash(const struct pith_guide *g, uint32_t layer, char hex[PITH_SHA256_HEX])
{
    const uint64_t bytes = pith_guide_layer_floats(g, layer) * sizeof(float);
    return pith_sha256_hex(pith_guide_layer(g, layer), (size_t)bytes, hex);
}

/* --- writing ---------------------------------------------------------------------------------- */

void pith_guide_begin(struct pith_guide *g, uint32_t layer)
{
    memset(pith_guide_layer(g, layer), 0, pith_guide_layer_floats(g, layer) * sizeof(float));
}

void pith_guide_routes(const struct pith_guide_window *w, const struct pith_tape *t,
                       const struct pith_block *b)
{
    const struct pith_guide *g = w->guide;
    const struct counts c = counts_of(g, b->plan);
    const size_t taken = g->model->plans.taken;
    if (!c.each) return;
    const uint32_t *chosen = t->step[pith_plan_experts(b->plan) - b->plan->node].routes.chosen;
    float *to = takes_of(g, w->layer, &c) + w->token * taken;
    for (size_t i = 0; i < t->n * taken; i++) to[i] = (float)chosen[i];
}

struct squaring {
    const struct pith_tape_gave *gave;
    float *to;
    size_t stride; /* between groups */
    uint32_t groups;
};

static void square_row(void *ctx, size_t i, unsigned thread)
{
    const struct squaring *q = ctx;
    const uint32_t rows = (uint32_t)q->gave->rows;
    const float *d = q->gave->d + i * rows;
    const size_t at = q->gave->place ? q->gave->place[i] : i;
    (void)thread;
    for (uint32_t g = 0; g < q->groups; g++) {
        const uint32_t from = pith_rows_from(q->groups, g, rows),
                       end = pith_rows_from(q->groups, g + 1, rows);
        double sum = 0;
        for (uint32_t r = from; r < end; r++) sum += (double)d[r] * (double)d[r];
        q->to[g * q->stride + at] = end > from ? (float)(sum / (end - from)) : 0;
    }
}

struct pairing {
    const struct pith_tape_gave *gave;
    size_t first, n; /* of outputs */
    float *to;       /* [tokens][n] */
};

/* A token's gradients of a block of outputs, times the norm of what the linear read. */
static void pair_row(void *ctx, size_t i, unsigned thread)
{
    const struct pairing *p = ctx;
    const float *x = p->gave->x + i * p->gave->cols, *d = p->gave->d + i * p->gave->rows + p->first;
    double squares = 0;
    (void)thread;
    for (size_t j = 0; j < p->gave->cols; j++) squares += (double)x[j] * (double)x[j];
    const float by = (float)sqrt(squares);
    for (size_t j = 0; j < p->n; j++) p->to[i * p->n + j] = d[j] * by;
}

/* Those of a group of rows, block by block. */
static void add_pairs(const struct pith_guide *g, const struct pith_tape_gave *gave, uint32_t group,
                      float *to)
{
    const uint32_t rows = (uint32_t)gave->rows, from = pith_rows_from(g->groups, group, rows),
                   count = pith_rows_from(g->groups, group + 1, rows) - from;
    struct pairing p = {.gave = gave, .to = g->scratch};
    for (uint32_t at = 0; at < count; at += g->block) {
        p.first = from + at;
        p.n = count - at < g->block ? count - at : g->block;
        pith_pool_run(pith_backend_pool(g->backend), gave->n, pair_row, &p);
        pith_syrk(g->backend, to + pith_outputs_at(count, g->block, at), p.n, g->scratch, gave->n,
                  1.0f / (float)g->tokens);
    }
}

/* The most outputs that a rotated copy may have. */
static uint32_t most_rows(const struct pith_plans *plans)
{
    uint32_t most = 0;
    for (uint32_t k = 0; k < plans->kinds; k++)
        for (uint32_t i = 0; i < plans->kind[k].linears; i++)
            if (plans->kind[k].linear[i].rows > most) most = plans->kind[k].linear[i].rows;
    return most;
}

uint64_t pith_guide_scratch(const struct pith_guide *g, size_t length)
{
    const uint64_t output_rotation = g->output_rotation ? most_rows(&g->model->plans) : 0;
    return pith_times_bytes((g->block + output_rotation) * sizeof(float), length);
}

/* The derivative in the basis of the stored outputs: d itself, or a rotated copy. */
static enum pith_status rotate(const struct pith_guide_window *w, struct pith_tape_gave *gave)
{
    const struct pith_guide *g = w->guide;
    const struct pith_rotation *r =
        g->output_rotation ? g->output_rotation(g->rotation_ctx, w->layer, gave->linear) : NULL;
    if (!r || r->dim == 0) return PITH_OK;
    float *d = g->scratch + (size_t)g->block * gave->n;
    memcpy(d, gave->d, gave->n * gave->rows * sizeof *d);
    gave->d = d;
    return pith_rotate_inputs(pith_backend_pool(g->backend), r, d, gave->n, gave->rows, w->err);
}

void pith_guide_gave(void *ctx, const struct pith_tape_gave *gave)
{
    struct pith_guide_window *w = ctx;
    const struct pith_guide *g = w->guide;
    const struct counts c = counts_of(g, pith_plan(&g->model->plans, w->layer));
    const size_t each = gave->place ? g->model->plans.taken : 1;
    struct pith_tape_gave felt = *gave;
    if (w->status == PITH_OK) w->status = rotate(w, &felt);
    if (w->status != PITH_OK) return;
    struct squaring q = {.gave = &felt,
                         .to = values_of(g, w->layer, &c, gave->linear) + w->token * each,
                         .stride = g->tokens * each,
                         .groups = g->groups};
    pith_pool_run(pith_backend_pool(g->backend), gave->n, square_row, &q);
    if (g->block && g->pairs) {
        w->status = pith_pairs_keep(g, &felt, w->err);
        return;
    }
    float *pairs = pith_guide_outputs(g, w->layer, gave->linear);
    for (uint32_t k = 0; g->block && k < g->groups; k++)
        add_pairs(g, &felt, k,
                  pairs + pith_outputs_of((uint32_t)gave->rows, g->block, g->groups, k));
}

/* So many lists of `each` floats a token, one after the other. */
struct lists {
    float *first;
    size_t count, each;
};

enum pith_status pith_guide_share(struct pith_guide *g, uint32_t layer, struct pith_ranks *ranks,
                                  size_t windows, struct pith_error *err)
{
    const struct counts c = counts_of(g, pith_plan(&g->model->plans, layer));
    const size_t taken = c.each ? g->model->plans.taken : 0;
    float *takes = takes_of(g, layer, &c);
    const struct lists all[] = {{pith_guide_layer(g, layer), (size_t)c.dense * g->groups, 1},
                                {takes, 1, taken},
                                {takes + taken * g->tokens, (size_t)c.each * g->groups, taken}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        const struct lists *l = &all[k];
        const size_t window = g->tokens / windows * l->each * sizeof *l->first;
        for (size_t i = 0; i < l->count && window; i++)
            PITH_TRY(pith_ranks_share_parts(ranks, l->first + i * g->tokens * l->each, windows,
                                            window, err));
    }
    return g->block ? pith_pairs_meet(g, layer, ranks, err) : PITH_OK;
}

/* --- reading ---------------------------------------------------------------------------------- */

struct pith_guide_view pith_guide_view(const struct pith_guide *g, uint32_t layer, uint32_t linear,
                                       uint32_t group)
{
    const struct pith_layer_plan *l = pith_plan(&g->model->plans, layer);
    const struct counts c = counts_of(g, l);
    const bool routed = is_routed(&c, linear);
    const size_t each = routed ? g->model->plans.taken : 1;
    struct pith_guide_view v = {.taken = routed ? takes_of(g, layer, &c) : NULL,
                                .each = (uint32_t)each,
                                .expert = l->linear[linear].expert};
    v.value = values_of(g, layer, &c, linear) + group * g->tokens * each;
    size_t seen = 0;
    for (size_t i = 0; i < g->tokens * each; i++) {
        if (routed && v.taken[i] != (float)v.expert) continue;
        v.mean += (double)v.value[i];
        seen++;
    }
    v.mean /= seen ? (double)seen : 1;
    return v;
}

float pith_guide_weight(const struct pith_guide_view *v, size_t token)
{
    if (!(v->mean > 0)) return 1;
    for (uint32_t i = 0; i < v->each; i++) {
        const size_t at = token * v->each + i;
        if (!v->taken || v->taken[at] == (float)v->expert)
            return (float)((double)v->value[at] / v->mean);
    }
    return 1;
}
