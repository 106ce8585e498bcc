#include "plan/time/quantize_kinds.h"

#include "backend/backend.h"
#include "base/mem.h"
#include "num/qmat.h"
#include "quant/round.h"
#include "quant/scale.h"
#include "quant/transform.h"

#include <string.h>

static const double core = 1.42e11; /* float32 operations a second, where times were taken */
/* The part of them that products of windows reach; seconds to hash and write a byte, and to round a
 * weight of GGUF's types to nearest. */
#define PRODUCT_SHARE 0.45
#define WRITE_BYTE 5.5e-9
#define NEAREST_KQUANT 345e-9

/* --- what a recipe is ------------------------------------------------------------------------- */

unsigned pith_quantize_needs(const struct pith_quantize_task *t)
{
    return t->recipe->round->needs | t->recipe->split->needs |
           (t->recipe->acts.is_static ? PITH_NEED_RANGE : 0);
}

static bool is_named(const char *name, const char *begins)
{
    return strncmp(name, begins, strlen(begins)) == 0;
}

unsigned pith_quantize_kinds(const struct pith_quantize_task *t)
{
    const struct pith_recipe *r = t->recipe;
    const unsigned needs = pith_quantize_needs(t);
    const bool learns = r->round->by->block, feeds = needs & PITH_NEED_HESSIAN;
    const bool awq = is_named(r->transform->name, "awq");
    const bool searched = r->transform->needs && !r->transform->basis;
    const bool plain = is_named(r->transform->name, "none") && is_named(r->split->name, "none") &&
                       r->round->by->rows && r->weights.format &&
                       pith_fit_scope(&r->weights) != PITH_FIT_MATRIX;
    const bool calibrates = needs || learns || searched;
    unsigned k = calibrates ? CALIBRATES : plain ? STREAMS : 0;
    if (feeds) k |= HESSIAN;
    if (r->round->form == PITH_SWEEP_GPTAQ || feeds) k |= COLUMNS;
    if (needs & PITH_NEED_DRIFT) k |= DRIFT;
    if (needs & PITH_NEED_GUIDED) k |= GUIDED;
    if (needs & PITH_NEED_OUTPUTS) k |= OUTPUTS;
    if (learns) k |= LEARNS;
    if (awq) k |= feeds ? PREDICTS : SEARCHES;
    else if (searched) k |= SMOOTHS;
    if (r->transform->basis) k |= ROTATES;
    if (r->split->two_four) k |= PRUNES;
    if (awq && r->clip && !feeds) k |= CLIPS;
    return k & STREAMS ? k : k | SWEEPS;
}

const char *pith_quantize_no_estimate(const struct pith_quantize_task *t)
{
    const struct pith_recipe *r = t->recipe;
    if (!r->weights.format && !r->split->two_four)
        return "there is no estimate for recipes that leave weights in 16 bits";
    if (r->weights.format && r->weights.format->kind == PITH_KIND_TRELLIS)
        return "there is no estimate for trellis codes";
    return NULL;
}

/* --- a linear --------------------------------------------------------------------------------- */

/* A linear, the tokens that reach it, and those whose statistics are gathered. */
struct linear {
    const struct pith_quantize_task *t;
    const struct pith_linear_spec *l;
    double weights, tokens, gathered;
};

static double products(const struct linear *x)
{
    return 2 * x->weights * x->tokens;
}

/* Products of an expert's tokens, for the input of its next linear. */
static double taps(const struct linear *x)
{
    const bool last = x->l->to_stream || x->l->expert == PITH_NO_PART;
    return last ? 0 : 2 * x->weights * x->gathered;
}

static double forward_and_back(const struct linear *x)
{
    return 3 * products(x);
}

static double columns(const struct linear *x)
{
    return x->weights * x->l->cols;
}

/* What quant/round.h says of zeros. */
uint32_t pith_quantize_steps(const struct pith_round_options *o)
{
    return o->iterations ? o->iterations : 200;
}

/* Windows of a step. */
static uint32_t batch_of(const struct pith_round_options *o)
{
    return o->batch ? o->batch : 8;
}

/* Windows of all steps, forward and back. */
static double steps(const struct linear *x)
{
    const struct pith_round_options *o = &x->t->recipe->round_options;
    const double windows = (double)x->t->tokens / (double)x->t->length;
    const double batch = batch_of(o), iterations = pith_quantize_steps(o);
    const double part = x->tokens / (double)x->t->tokens;
    return 6 * x->weights * part * (double)x->t->length * iterations *
           (batch < windows ? batch : windows);
}

static double iterations(const struct linear *x)
{
    return x->weights * pith_quantize_steps(&x->t->recipe->round_options);
}

static double trials(const struct linear *x)
{
    return 2 * x->weights *
           (x->tokens < PITH_QUANTIZE_INSPECTED ? x->tokens : PITH_QUANTIZE_INSPECTED);
}

static double weights(const struct linear *x)
{
    return x->weights;
}

/* Of experts, of which one at a time is in memory as floats. */
static double experts(const struct linear *x)
{
    return x->l->expert == PITH_NO_PART ? 0 : x->weights;
}

/* What is done to each linear, and how ranks divide it; an expert's is its owner's. */
struct work {
    unsigned kinds; /* recipes that are all of these */
    double (*count)(const struct linear *x);
    double share; /* of the machine's operations; 0: `each` seconds of such a core */
    double each;
    enum pith_work_kind by;
    bool disk; /* faster cores do not help */
    bool all;  /* also of linears that stay as they are */
};
static const struct work works[] = {
    {CALIBRATES, products, PRODUCT_SHARE, 0, PITH_WORK_WINDOWS, false, true},
    {CALIBRATES, taps, PRODUCT_SHARE, 0, PITH_WORK_ROWS, false, false},
    {DRIFT, products, PRODUCT_SHARE, 0, PITH_WORK_WINDOWS, false, true},
    {DRIFT, taps, PRODUCT_SHARE, 0, PITH_WORK_ROWS, false, false},
    {COLUMNS, columns, 0.176, 0, PITH_WORK_ROWS, false, false},
    {COLUMNS, weights, 0, 30e-9, PITH_WORK_ROWS, false, false},
    {DRIFT, columns, 0.028, 0, PITH_WORK_ROWS, false, false},
    {OUTPUTS, weights, 0, 450e-9, PITH_WORK_ROWS, false, false},
    {OUTPUTS | DRIFT, weights, 0, 380e-9, PITH_WORK_ROWS, false, false},
    {LEARNS, steps, 0.81, 0, PITH_WORK_BATCH, false, false},
    {LEARNS, iterations, 0, 57e-9, PITH_WORK_REPEATED, false, false},
    {SEARCHES, trials, 0.025, 0, PITH_WORK_ROWS, false, false}, /* 20 of them */
    {SEARCHES, weights, 0, 300e-9, PITH_WORK_ROWS, false, false},
    {SEARCHES, experts, 0, 160e-9, PITH_WORK_ROWS, false,
     false}, /* decoded and packed for each trial */
    {PREDICTS, weights, 0, 115e-9, PITH_WORK_ROWS, false, false},
    {SMOOTHS, trials, 0.3, 0, PITH_WORK_ROWS, false, false}, /* 2 of them, and the reference */
    {SMOOTHS, weights, 0, 82e-9, PITH_WORK_REPEATED, false, false},
    {ROTATES, weights, 0, 23e-9, PITH_WORK_REPEATED, false, false},
    {PRUNES, weights, 0, 30e-9, PITH_WORK_ROWS, false, false},
    {PRUNES | COLUMNS, weights, 0, 25e-9, PITH_WORK_ROWS, false, false}, /* chosen four by four */
    {STREAMS, weights, 0, 7e-9, PITH_WORK_ROWS, true, false},            /* read */
    {SWEEPS, weights, 0, 7e-9, PITH_WORK_ROWS, true, true},              /* hashed */
    {SWEEPS, weights, 0, 4e-9, PITH_WORK_REPEATED, true, true},          /* read */
    {ALWAYS, weights, 0, 15e-9, PITH_WORK_ROWS, false, false},           /* compared */
};

/* Seconds that finding a grid's scales and codes takes a weight; the first row that holds. */
static double fitting(const struct pith_quantize_task *t)
{
    const struct pith_grid *g = &t->recipe->weights;
    const unsigned k = pith_quantize_kinds(t);
    if (!g->format) return 0;
    const struct {
        bool is;
        double each;
    } of[] = {{g->format->kind == PITH_KIND_LEVELS, 330e-9},
              {g->format->kind == PITH_KIND_GGUF && k & COLUMNS, 870e-9},
              {g->format->kind == PITH_KIND_GGUF && k & CALIBRATES, 500e-9},
              {g->format->kind == PITH_KIND_GGUF, NEAREST_KQUANT},
              {g->hqq, 40e-9},
              {g->format->kind == PITH_KIND_BLOCK && g->mse, 19e-9},
              {g->mse, 105e-9}};
    for (size_t i = 0; i < PITH_COUNT(of); i++)
        if (of[i].is) return of[i].each;
    return 3e-9;
}

/* Seconds of a row, of one that it applies to. */
static double seconds_of(const struct work *w, const struct linear *x)
{
    const double f32 = x->t->f32;
    const double each = w->disk        ? w->each
                        : w->share > 0 ? 1 / w->share / f32
                                       : w->each * core / f32;
    return w->count(x) * each;
}

static struct linear linear_of(const struct pith_quantize_task *t, const struct pith_linear_spec *l)
{
    const double all = (double)t->tokens;
    struct linear x = {t, l, (double)l->rows * l->cols, all, all};
    if (l->expert == PITH_NO_PART) return x;
    x.tokens = all * t->plans->taken / t->plans->experts;
    x.gathered = pith_quantize_expert_tokens(t);
    return x;
}

static double written_bytes(const struct linear *x)
{
    const struct pith_grid *g = &x->t->recipe->weights;
    return g->format ? (double)pith_qmat_bytes(x->l->rows, x->l->cols, g)
                     : x->weights * sizeof(uint16_t);
}

/* Every rank finds the zeros of a linear that stays in 16 bits, unless it is an expert's. */
static enum pith_work_kind divided_by(const struct linear *x, enum pith_work_kind kind)
{
    const bool expert = x->l->expert != PITH_NO_PART;
    if (kind == PITH_WORK_REPEATED && expert) return PITH_WORK_ROWS;
    if (kind == PITH_WORK_ROWS && !x->t->recipe->weights.format && !expert)
        return PITH_WORK_REPEATED;
    return kind;
}

static void add_linear(const struct pith_quantize_task *t, const struct pith_linear_spec *l,
                       struct pith_ranks_cost *c)
{
    const unsigned kinds = pith_quantize_kinds(t);
    const struct linear x = linear_of(t, l);
    for (size_t i = 0; i < PITH_COUNT(works); i++) {
        const struct work *w = &works[i];
        if ((w->kinds & kinds) != w->kinds) continue;
        if (!w->all && !pith_quantize_changes(l)) continue;
        c->seconds[divided_by(&x, w->by)] += seconds_of(w, &x);
    }
    if (!pith_quantize_changes(l)) return;
    c->seconds[PITH_WORK_ROWS] += x.weights * fitting(t) * core / t->f32;
    c->seconds[PITH_WORK_ROWS] += written_bytes(&x) * WRITE_BYTE;
}

/* --- a site ----------------------------------------------------------------------------------- */

bool pith_quantize_site_changes(const struct pith_layer_plan *l, const struct pith_site_spec *s)
{
    bool any = false;
    for (uint32_t k = s->first; k < s->first + s->count; k++)
        any |= pith_quantize_changes(&l->linear[k]);
    return any;
}

bool pith_quantize_shares_factors(const struct pith_quantize_task *t,
                                  const struct pith_layer_plan *l)
{
    uint32_t widest = 0;
    for (uint32_t i = 0; i < l->sites; i++)
        if (l->site[i].dim > widest) widest = l->site[i].dim;
    return t->recipe->round->by->factor && t->recipe->weights.format &&
           !(pith_quantize_kinds(t) & GUIDED) && pith_cholesky_scratch(2, widest) > 0;
}

bool pith_quantize_shares_search(const struct pith_quantize_task *t)
{
    return pith_quantize_kinds(t) & (SEARCHES | PREDICTS | SMOOTHS);
}

/* Hessians and their factors: of all tokens, or of an expert's and the common pool. */
static void add_site(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                     const struct pith_site_spec *s, struct pith_ranks_cost *c)
{
    const unsigned kinds = pith_quantize_kinds(t);
    const double d = s->dim, views = pith_quantize_views(t, s);
    const bool expert = s->expert != PITH_NO_PART;
    const double tokens = expert ? pith_quantize_expert_tokens(t) : (double)t->tokens;
    const double drift = kinds & DRIFT ? 1 / 0.33 : 0;
    const bool shared = expert || pith_quantize_shares_factors(t, l);
    if (!(kinds & HESSIAN) || !pith_quantize_site_changes(l, s)) return;
    c->seconds[expert ? PITH_WORK_ROWS : PITH_WORK_WINDOWS] += d * d * tokens * views *
                                                               (1 / 0.40 + drift) / t->f32;
    c->seconds[shared ? PITH_WORK_ROWS : PITH_WORK_REPEATED] +=
        views * (d * d * d / 1.66 + d * d * 10e-9 * core) / t->f32;
}

/* --- layers ----------------------------------------------------------------------------------- */

struct pith_ranks_cost pith_quantize_cost(const struct pith_quantize_task *t)
{
    const size_t windows = t->tokens / t->length, batch = batch_of(&t->recipe->round_options);
    return (struct pith_ranks_cost){.windows = windows, .batch = batch < windows ? batch : windows};
}

void pith_quantize_layer(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                         struct pith_ranks_cost *c)
{
    const bool whole = pith_quantize_kinds(t) & (STREAMS | LEARNS);
    for (uint32_t i = 0; i < l->linears; i++) add_linear(t, &l->linear[i], c);
    for (uint32_t i = 0; !whole && i < l->sites; i++) add_site(t, l, &l->site[i], c);
    pith_quantize_layer_traffic(t, l, c);
}

/* Embedding and head; and guided rounding, which needs the gradient of the loss at every output
 * before the first layer. */
void pith_quantize_outside(const struct pith_quantize_task *t, struct pith_ranks_cost *c)
{
    const struct pith_grid *g = &t->recipe->weights;
    const bool rounded = g->format && g->format->kind == PITH_KIND_GGUF; /* to nearest */
    const double each = rounded ? NEAREST_KQUANT * core / t->f32 : 0;
    double operations = (double)t->outside / sizeof(uint16_t) * 6 * (double)t->tokens;
    c->seconds[PITH_WORK_ROWS] += (double)t->outside * (WRITE_BYTE + each / sizeof(uint16_t));
    pith_quantize_outside_traffic(t, c);
    if (!(pith_quantize_kinds(t) & GUIDED)) return;
    for (uint32_t i = 0; i < t->plans->layers; i++) {
        const struct pith_layer_plan *l = pith_plan(t->plans, i);
        for (uint32_t k = 0; k < l->linears; k++) {
            const struct linear one = linear_of(t, &l->linear[k]);
            operations += forward_and_back(&one);
        }
    }
    c->seconds[PITH_WORK_WINDOWS] += operations / PRODUCT_SHARE / t->f32;
}

/* Blocks that are learned at once. */
static uint32_t together(const struct pith_quantize_task *t)
{
    const uint32_t blocks = t->recipe->round_options.blocks, layers = t->plans->layers;
    return blocks > 1 ? (blocks < layers ? blocks : layers) : 1;
}

uint64_t pith_quantize_memory(const struct pith_quantize_task *t)
{
    enum { MATRICES = 3, LEARNED = 3 };
    const unsigned kinds = pith_quantize_kinds(t);
    uint64_t most = 0;
    for (uint32_t k = 0; k < t->plans->kinds; k++) {
        const struct pith_layer_plan *l = &t->plans->kind[k];
        uint64_t floats = 0, largest = 0, widest = 0;
        for (uint32_t i = 0; i < l->linears; i++) {
            const uint64_t n = (uint64_t)l->linear[i].rows * l->linear[i].cols;
            const bool late = l->linear[i].expert != PITH_NO_PART && l->linear[i].expert > 0;
            if (kinds & LEARNS || !late) floats += n;
            largest = n > largest ? n : largest;
        }
        for (uint32_t i = 0; i < l->sites; i++)
            widest = l->site[i].dim > widest ? l->site[i].dim : widest;
        if (kinds & LEARNS) floats *= LEARNED * (uint64_t)together(t);
        if (kinds & DRIFT) floats *= 2;
        if (kinds & STREAMS) floats = 0;
        if (kinds & HESSIAN) floats += widest * widest * (kinds & DRIFT ? 2 : 1);
        floats += MATRICES * largest;
        most = floats > most ? floats : most;
    }
    return most * sizeof(float);
}
