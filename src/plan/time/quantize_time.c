#include "plan/time/quantize_parts.h"

#include "backend/backend.h"
#include "base/mem.h"
#include "num/qmat.h"
#include "plan/time/ranks_stats.h"
#include "quant/round.h"
#include "quant/transform.h"

#include <string.h>

enum { POOLED = PITH_QUANTIZE_POOLED, INSPECTED = 2048 }; /* tokens: module_output.h */
static const double core = 1.42e11; /* float32 operations a second, where times were taken */
/* Of them products of windows reach this; a byte is hashed and written, a weight of GGUF's types
 * rounded to nearest, in so many seconds. */
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
    const bool plain = is_named(r->transform->name, "none") && is_named(r->split->name, "none");
    const bool calibrates = needs || learns || searched;
    unsigned k = calibrates ? CALIBRATES : plain ? STREAMS : 0;
    if (feeds) k |= HESSIAN;
    if (r->round->form == PITH_SWEEP_GPTAQ || feeds) k |= COLUMNS;
    if (needs & PITH_NEED_DRIFT) k |= DRIFT;
    if (needs & PITH_NEED_GUIDED) k |= GUIDED;
    if (needs & PITH_NEED_OUTPUTS) k |= OUTPUTS;
    if (learns) k |= LEARNS;
    if (awq) k |= feeds ? FORETELLS : SEARCHES;
    else if (searched) k |= SMOOTHS;
    if (r->transform->basis) k |= TURNS;
    if (r->split->two_four) k |= PRUNES;
    if (awq && r->clip && !feeds) k |= CLIPS;
    if (r->acts.is_static) k |= STATIC;
    return k & STREAMS ? k : k | SWEEPS;
}

const char *pith_quantize_untold(const struct pith_quantize_task *t)
{
    const struct pith_recipe *r = t->recipe;
    if (!r->weights.format && !r->split->two_four)
        return "times of recipes that leave weights in 16 bits are not foretold";
    if (r->weights.format && r->weights.format->kind == PITH_KIND_TRELLIS)
        return "times of trellis codes are not foretold";
    return NULL;
}

/* --- a linear --------------------------------------------------------------------------------- */

/* Of a linear: what it sees of the text, and for statistics. */
struct linear {
    const struct pith_quantize_task *t;
    const struct pith_linear_spec *l;
    double weights, tokens, gathered;
};

static double products(const struct linear *x)
{
    return 2 * x->weights * x->tokens;
}

/* Of an expert, to see what its next linear reads. */
static double taps(const struct linear *x)
{
    const bool last = x->l->to_stream || x->l->expert == PITH_NO_PART;
    return last ? 0 : 2 * x->weights * x->gathered;
}

static double there_and_back(const struct linear *x)
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

static uint32_t batch_of(const struct pith_round_options *o)
{
    return o->batch ? o->batch : 8;
}

/* A step's windows there and back. */
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
    return 2 * x->weights * (x->tokens < INSPECTED ? x->tokens : INSPECTED);
}

static double weights(const struct linear *x)
{
    return x->weights;
}

/* Of experts, which are held one at a time. */
static double lent(const struct linear *x)
{
    return x->l->expert == PITH_NO_PART ? 0 : x->weights;
}

/* Who does it: the rank with the most windows, of those of the text or of a step; who has the rows;
 * all; the expert's owner. */
enum who { WINDOWS, BATCH, ROWS, ALL };
struct work {
    unsigned kinds; /* recipes that are all of these */
    double (*count)(const struct linear *x);
    double share; /* of the machine's operations; 0: `each` seconds of such a core */
    double each;
    enum who who;
    bool disk; /* cores do not help */
    bool all;  /* also of linears that stay as they are */
};
static const struct work works[] = {
    {CALIBRATES, products, PRODUCT_SHARE, 0, WINDOWS, false, true},
    {CALIBRATES, taps, PRODUCT_SHARE, 0, ROWS, false, false},
    {DRIFT, products, PRODUCT_SHARE, 0, WINDOWS, false, true},
    {DRIFT, taps, PRODUCT_SHARE, 0, ROWS, false, false},
    {COLUMNS, columns, 0.176, 0, ROWS, false, false},
    {COLUMNS, weights, 0, 30e-9, ROWS, false, false},
    {DRIFT, columns, 0.028, 0, ROWS, false, false},
    {OUTPUTS, weights, 0, 450e-9, ROWS, false, false},
    {OUTPUTS | DRIFT, weights, 0, 380e-9, ROWS, false, false},
    {LEARNS, steps, 0.81, 0, BATCH, false, false},
    {LEARNS, iterations, 0, 57e-9, ALL, false, false},
    {SEARCHES, trials, 0.025, 0, ROWS, false, false}, /* 20 of them */
    {SEARCHES, weights, 0, 300e-9, ROWS, false, false},
    {SEARCHES, lent, 0, 160e-9, ROWS, false, false}, /* decoded and packed for each trial */
    {FORETELLS, weights, 0, 115e-9, ROWS, false, false},
    {SMOOTHS, trials, 0.3, 0, ROWS, false, false}, /* 2 of them, and what they are held to */
    {SMOOTHS, weights, 0, 82e-9, ALL, false, false},
    {TURNS, weights, 0, 23e-9, ALL, false, false},
    {PRUNES, weights, 0, 30e-9, ROWS, false, false},
    {PRUNES | COLUMNS, weights, 0, 25e-9, ROWS, false, false}, /* chosen four by four */
    {STREAMS, weights, 0, 7e-9, ROWS, true, false}, /* read */
    {SWEEPS, weights, 0, 7e-9, ROWS, true, true},  /* hashed */
    {SWEEPS, weights, 0, 4e-9, ALL, true, true},   /* read */
    {ALWAYS, weights, 0, 15e-9, ROWS, false, false}, /* compared */
};

/* What a grid's scales and codes take of a weight, in the order in which it is looked for. */
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

/* Seconds of a linear by who does it. */
struct bill {
    double of[ALL + 1];
};
static struct bill bill_of(const struct linear *x)
{
    const unsigned kinds = pith_quantize_kinds(x->t);
    struct bill b = {{0}};
    for (size_t i = 0; i < PITH_COUNT(works); i++) {
        const struct work *w = &works[i];
        if ((w->kinds & kinds) != w->kinds) continue;
        if (!w->all && !pith_quantize_changes(x->l)) continue;
        const double each = w->disk        ? w->each
                            : w->share > 0 ? 1 / w->share / x->t->f32
                                           : w->each * core / x->t->f32;
        b.of[w->who] += w->count(x) * each;
    }
    if (pith_quantize_changes(x->l)) b.of[ROWS] += x->weights * fitting(x->t) * core / x->t->f32;
    return b;
}

/* --- a layer ---------------------------------------------------------------------------------- */

static struct linear linear_of(const struct pith_quantize_task *t, const struct pith_linear_spec *l)
{
    const double all = (double)t->tokens;
    struct linear x = {t, l, (double)l->rows * l->cols, all, all};
    if (l->expert == PITH_NO_PART) return x;
    x.tokens = all * t->plans->taken / t->plans->experts;
    x.gathered = x.tokens + (all < POOLED ? all : POOLED);
    return x;
}

/* A site's linears: who has which rows, and how many of them several have rows of. */
struct cuts {
    uint32_t first[PITH_SPREAD_MOST][PITH_CREW_MOST + 1]; /* in runs of ranks + 1 */
    uint32_t whole[PITH_CREW_MOST + 1];                   /* of one that `owner` has */
    unsigned owner, cut, workers;
    bool spread;
};

static const uint32_t *rows_of(struct cuts *x, const struct pith_crew *c, uint32_t i, uint32_t rows)
{
    if (x->spread) return x->first[0] + (size_t)i * (c->ranks + 1);
    pith_spread_whole(rows, c->ranks, x->owner, x->whole);
    return x->whole;
}

static void cut_site(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                     const struct pith_site_spec *s, unsigned ranks, struct cuts *x)
{
    const struct pith_recipe *r = t->recipe;
    struct pith_spread_part part[PITH_SPREAD_MOST];
    const bool expert = s->expert != PITH_NO_PART;
    x->owner = expert ? s->expert % ranks : 0;
    x->cut = 0;
    x->workers = 1;
    x->spread = !expert && s->count <= PITH_SPREAD_MOST;
    for (uint32_t i = 0; x->spread && i < s->count; i++) {
        const struct pith_linear_spec *of = &l->linear[s->first + i];
        const struct pith_round_job one = {
            .grid = r->weights, .options = r->round_options, .rows = of->rows, .cols = of->cols};
        part[i] = (struct pith_spread_part){pith_quantize_changes(of) ? of->rows : 0,
                                       pith_round_cut(r->round, &one, r->split)};
    }
    if (!x->spread) return;
    pith_spread_rows(part, s->count, ranks, x->first[0]);
    x->workers = pith_rows_workers(x->first[0], s->count, ranks);
}

/* By rows of ranks, those of `first`. */
static void work_rows(struct pith_crew *c, const uint32_t *first, double seconds)
{
    if (!first[c->ranks]) pith_crew_add(c, PITH_CREW_DIVIDED, seconds / c->ranks);
    for (unsigned k = 0; k < c->ranks && first[c->ranks]; k++)
        pith_crew_work(c, k, seconds * (first[k + 1] - first[k]) / first[c->ranks], 0);
}

/* One that has an owner where no rows are cut: it streams, or has learned. */
static void owned(const struct pith_quantize_task *t, const struct pith_linear_spec *l,
                  unsigned owner, struct pith_crew *c)
{
    const struct linear one = linear_of(t, l);
    const struct bill b = bill_of(&one);
    const size_t windows = pith_quantize_windows(t), batch = batch_of(&t->recipe->round_options);
    pith_crew_windows(c, b.of[WINDOWS], windows);
    pith_crew_windows(c, b.of[BATCH], batch < windows ? batch : windows);
    pith_crew_add(c, PITH_CREW_REPEATED, b.of[ALL]);
    if (!pith_quantize_changes(l)) {
        pith_crew_add(c, PITH_CREW_DIVIDED, b.of[ROWS] / c->ranks);
        return;
    }
    const double written = (double)pith_qmat_bytes(l->rows, l->cols, &t->recipe->weights);
    if (pith_quantize_kinds(t) & LEARNS) {
        pith_crew_work(c, owner, b.of[ROWS], 0);
        pith_crew_add(c, PITH_CREW_DIVIDED, written * WRITE_BYTE / c->ranks);
        pith_quantize_tell_learned(owner, c);
        return;
    }
    pith_crew_work(c, owner, b.of[ROWS] + written * WRITE_BYTE, 0);
    pith_quantize_tell_streamed(t, owner, c);
}

static bool is_rounded(const void *ctx, uint32_t linear)
{
    const struct pith_layer_plan *l = ctx;
    return pith_quantize_changes(&l->linear[linear]);
}

static bool owned_layer(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                        struct pith_crew *c)
{
    unsigned *owner = pith_alloc(l->linears, sizeof *owner);
    if (!owner) return false;
    pith_spread_owners(l, is_rounded, l, c->ranks, owner);
    for (uint32_t i = 0; i < l->linears; i++)
        owned(t, &l->linear[i], pith_quantize_kinds(t) & LEARNS ? i % c->ranks : owner[i], c);
    pith_free(owner);
    return true;
}

static void linear(const struct pith_quantize_task *t, const struct pith_linear_spec *l,
                   const uint32_t *first, struct cuts *x, struct pith_crew *c)
{
    const struct linear one = linear_of(t, l);
    const struct bill b = bill_of(&one);
    const bool expert = l->expert != PITH_NO_PART, coded = t->recipe->weights.format;
    pith_crew_windows(c, b.of[WINDOWS], pith_quantize_windows(t));
    if (expert) pith_crew_work(c, x->owner, b.of[ALL], 0);
    else pith_crew_add(c, PITH_CREW_REPEATED, b.of[ALL]);
    if (!coded && !expert) /* zeros that every rank finds */
        pith_crew_add(c, PITH_CREW_REPEATED, b.of[ROWS]);
    else work_rows(c, first, b.of[ROWS]);
    if (!pith_quantize_changes(l)) return;
    const double written = coded ? (double)pith_qmat_bytes(l->rows, l->cols, &t->recipe->weights)
                                 : one.weights * sizeof(uint16_t);
    pith_crew_add(c, PITH_CREW_DIVIDED, written * WRITE_BYTE / c->ranks);
    pith_quantize_tell_linear(t, l, first, x->cut, c);
    x->cut += c->ranks > 1 && pith_rows_owner(first, c->ranks) == PITH_TO_ALL;
}

/* Statistics of a site that all tokens reach, or of an expert's, which are its owner's. */
static void statistics(const struct pith_quantize_task *t, const struct pith_site_spec *s,
                       const struct cuts *x, struct pith_crew *c)
{
    const unsigned needs = pith_quantize_needs(t), kinds = pith_quantize_kinds(t);
    const double d = s->dim, all = (double)t->tokens;
    const uint32_t views =
        needs & PITH_NEED_GUIDED ? s->count * t->recipe->round_options.row_groups : 1;
    const double tokens = s->expert == PITH_NO_PART
                              ? all
                              : all * t->plans->taken / t->plans->experts +
                                    (all < POOLED ? all : POOLED);
    const double drift = kinds & DRIFT ? d * d * tokens * views / 0.33 / t->f32 : 0;
    const double hessian =
        kinds & HESSIAN ? d * d * tokens * views / 0.40 / t->f32 + drift : 0;
    const double factor =
        kinds & HESSIAN ? views * (d * d * d / 1.66 + d * d * 10e-9 * core) / t->f32 : 0;
    if (s->expert != PITH_NO_PART) {
        pith_crew_work(c, s->expert % c->ranks, hessian + factor, 0);
        return;
    }
    const struct pith_crew_products of = {s->dim, needs, views, false, hessian};
    pith_crew_sums(c, s->dim, needs, views);
    pith_crew_products(c, &of);
    const bool shared = x->workers > 1 && t->recipe->round->by->factor && !(kinds & GUIDED) &&
                        pith_cholesky_scratch(c->ranks, s->dim) > 0;
    if (shared) pith_cholesky_told(c->ranks, s->dim, pith_crew_told, c);
    pith_crew_add(c, shared || c->ranks == 1 ? PITH_CREW_DIVIDED : PITH_CREW_REPEATED,
                  shared ? factor / c->ranks : factor);
}

static bool any_changes(const struct pith_layer_plan *l, const struct pith_site_spec *s)
{
    bool any = false;
    for (uint32_t k = s->first; k < s->first + s->count; k++)
        any |= pith_quantize_changes(&l->linear[k]);
    return any;
}

/* A transform's search, before any linear is rounded. */
static void search(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                   struct pith_crew *c)
{
    const uint32_t router = pith_plan_router(l);
    for (uint32_t i = 0; i < l->sites; i++) {
        const bool first = router == PITH_NO_PART || i <= router;
        const bool begins = pith_plan_group(l, i, NULL) > 0;
        if (l->site[i].expert == PITH_NO_PART && (first || begins))
            pith_quantize_tell_site(t, &l->site[i], c);
        if (begins) pith_quantize_tell_search(t, l, i, c);
    }
}

static void site(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                 const struct pith_site_spec *s, struct pith_crew *c)
{
    struct cuts x;
    cut_site(t, l, s, c->ranks, &x);
    if (any_changes(l, s) && pith_quantize_needs(t)) statistics(t, s, &x, c);
    for (uint32_t k = 0; k < s->count; k++) {
        const struct pith_linear_spec *of = &l->linear[s->first + k];
        linear(t, of, rows_of(&x, c, k, of->rows), &x, c);
    }
    if (s->expert == PITH_NO_PART) pith_crew_meet(c);
}

bool pith_quantize_layer(const struct pith_quantize_task *t, uint32_t layer, struct pith_crew *c)
{
    const struct pith_layer_plan *l = pith_plan(t->plans, layer);
    const unsigned kinds = pith_quantize_kinds(t);
    const bool routed = pith_plan_experts(l), whole = kinds & (STREAMS | LEARNS);
    const bool searched = kinds & (SEARCHES | FORETELLS | SMOOTHS);
    const size_t floats = t->hidden * (kinds & DRIFT ? 2 : 1);
    pith_quantize_tell_unit(t, l, c);
    if (searched) search(t, l, c);
    if (whole && !owned_layer(t, l, c)) return false;
    for (uint32_t i = 0; !whole && i < l->sites; i++) site(t, l, &l->site[i], c);
    pith_crew_meet(c);
    if (routed && searched) pith_quantize_tell_routes(t, t->hidden, true, c);
    if (routed && !whole && pith_quantize_needs(t))
        pith_quantize_tell_routes(t, floats, false, c);
    if (kinds & LEARNS) pith_quantize_tell_learning(t, l, c);
    pith_quantize_tell_behind(t, c);
    return true;
}

/* Guided rounding feels what a model's loss does before any block is done. */
void pith_quantize_before(const struct pith_quantize_task *t, struct pith_crew *c)
{
    double operations = 0;
    pith_quantize_tell_before(t, c);
    if (!(pith_quantize_kinds(t) & GUIDED)) return;
    for (uint32_t i = 0; i < t->plans->layers; i++) {
        const struct pith_layer_plan *l = pith_plan(t->plans, i);
        for (uint32_t k = 0; k < l->linears; k++) {
            const struct linear one = linear_of(t, &l->linear[k]);
            operations += there_and_back(&one);
        }
    }
    pith_crew_windows(c, operations / PRODUCT_SHARE / t->f32, pith_quantize_windows(t));
}

double pith_quantize_outside(const struct pith_quantize_task *t, unsigned ranks)
{
    const double head = (double)t->outside / sizeof(uint16_t) * 6 * (double)t->tokens;
    const bool feels = pith_quantize_kinds(t) & GUIDED;
    const double guided = feels ? head / PRODUCT_SHARE / t->f32 / ranks : 0;
    const struct pith_grid *g = &t->recipe->weights;
    const bool rounded = g->format && g->format->kind == PITH_KIND_GGUF; /* to nearest */
    const double each = rounded ? NEAREST_KQUANT * core / t->f32 : 0;
    return (double)t->outside * (WRITE_BYTE + each / sizeof(uint16_t)) / ranks + guided;
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
