#include "plan/quantize_time.h"

#include "backend/backend.h"
#include "base/mem.h"
#include "base/ranks.h"
#include "num/qmat.h"
#include "plan/ranks_stats.h"
#include "quant/round.h"
#include "quant/transform.h"

#include <string.h>

/* tokens: calib/routed.h, pipe/inspect.h */
enum { POOLED = 4096, INSPECTED = 2048, SAMPLES = 512 };
static const double core = 1.42e11; /* float32 operations a second, where times were taken */
/* Of them products of windows reach this; a byte is hashed and written, a weight of GGUF's types
 * rounded to nearest, in so many seconds. */
#define PRODUCT_SHARE 0.45
#define WRITE_BYTE 5.5e-9
#define NEAREST_KQUANT 345e-9

/* --- what a recipe is ------------------------------------------------------------------------- */

/* Kinds of recipes that the tables' rows are of. */
enum kind {
    ALWAYS = 0,
    CALIBRATES = 1,
    STREAMS = 2, /* needs nothing but its weights */
    HESSIAN = 4,
    COLUMNS = 8,
    DRIFT = 16,
    GUIDED = 32,
    OUTPUTS = 64,
    LEARNS = 128,
    SEARCHES = 256,  /* awq, judged by what modules give */
    FORETELLS = 512, /* awq, judged by what GPTQ will lose */
    SMOOTHS = 1024,
    TURNS = 2048,
    PRUNES = 4096,
    SWEEPS = 8192 /* a float of each weight: not streamed */
};

static unsigned round_needs(const struct pith_quantize_task *t)
{
    return t->recipe->round->needs | t->recipe->split->needs;
}

static unsigned input_needs(const struct pith_quantize_task *t)
{
    return t->recipe->acts.is_static ? PITH_NEED_RANGE : 0;
}

static bool is_named(const char *name, const char *begins)
{
    return strncmp(name, begins, strlen(begins)) == 0;
}

static unsigned kinds_of(const struct pith_quantize_task *t)
{
    const struct pith_recipe *r = t->recipe;
    const unsigned needs = round_needs(t);
    const bool learns = r->round->block, feeds = needs & PITH_NEED_HESSIAN;
    const bool awq = is_named(r->transform->name, "awq");
    const bool searched = r->transform->needs && !r->transform->basis;
    const bool plain = is_named(r->transform->name, "none") && is_named(r->split->name, "none");
    const bool calibrates = needs || input_needs(t) || learns || searched;
    unsigned k = calibrates ? CALIBRATES : plain ? STREAMS : 0;
    if (feeds) k |= HESSIAN;
    if (r->round->columns || feeds) k |= COLUMNS;
    if (needs & PITH_NEED_DRIFT) k |= DRIFT;
    if (needs & PITH_NEED_GUIDED) k |= GUIDED;
    if (needs & PITH_NEED_OUTPUTS) k |= OUTPUTS;
    if (learns) k |= LEARNS;
    if (awq) k |= feeds ? FORETELLS : SEARCHES;
    else if (searched) k |= SMOOTHS;
    if (r->transform->basis) k |= TURNS;
    if (r->split->two_four) k |= PRUNES;
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
static uint32_t iterations_of(const struct pith_round_options *o)
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
    const double batch = batch_of(o), iterations = iterations_of(o);
    const double part = x->tokens / (double)x->t->tokens;
    return 6 * x->weights * part * (double)x->t->length * iterations *
           (batch < windows ? batch : windows);
}

static double iterations(const struct linear *x)
{
    return x->weights * iterations_of(&x->t->recipe->round_options);
}

static double trials(const struct linear *x)
{
    return 2 * x->weights * (x->tokens < INSPECTED ? x->tokens : INSPECTED);
}

static double weights(const struct linear *x)
{
    return x->weights;
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
    {GUIDED, there_and_back, PRODUCT_SHARE, 0, WINDOWS, false, true},
    {COLUMNS, columns, 0.176, 0, ROWS, false, false},
    {COLUMNS, weights, 0, 30e-9, ROWS, false, false},
    {DRIFT, columns, 0.028, 0, ROWS, false, false},
    {OUTPUTS, weights, 0, 450e-9, ROWS, false, false},
    {OUTPUTS | DRIFT, weights, 0, 380e-9, ROWS, false, false},
    {LEARNS, steps, 0.81, 0, BATCH, false, false},
    {LEARNS, iterations, 0, 57e-9, ALL, false, false},
    {SEARCHES, trials, 0.025, 0, ROWS, false, false}, /* 20 of them */
    {SEARCHES, weights, 0, 240e-9, ROWS, false, false},
    {FORETELLS, weights, 0, 115e-9, ROWS, false, false},
    {SMOOTHS, trials, 0.5, 0, ROWS, false, false},
    {SMOOTHS, weights, 0, 50e-9, ALL, false, false},
    {TURNS, weights, 0, 23e-9, ALL, false, false},
    {PRUNES, weights, 0, 20e-9, ROWS, false, false},
    {STREAMS, weights, 0, 7e-9, ROWS, true, false}, /* read */
    {SWEEPS, weights, 0, 11e-9, ALL, true, true},  /* read */
    {ALWAYS, weights, 0, 15e-9, ROWS, false, false}, /* compared */
};

/* What a grid's scales and codes take of a weight, in the order in which it is looked for. */
static double fitting(const struct pith_quantize_task *t)
{
    const struct pith_grid *g = &t->recipe->weights;
    const unsigned k = kinds_of(t);
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

static bool changes(const struct pith_linear_spec *l)
{
    return !l->stays;
}

/* Seconds of a linear by who does it. */
struct bill {
    double of[ALL + 1];
};
static struct bill bill_of(const struct linear *x)
{
    const unsigned kinds = kinds_of(x->t);
    struct bill b = {{0}};
    for (size_t i = 0; i < PITH_COUNT(works); i++) {
        const struct work *w = &works[i];
        if ((w->kinds & kinds) != w->kinds) continue;
        if (!w->all && !changes(x->l)) continue;
        const double each = w->disk        ? w->each
                            : w->share > 0 ? 1 / w->share / x->t->f32
                                           : w->each * core / x->t->f32;
        b.of[w->who] += w->count(x) * each;
    }
    if (changes(x->l)) b.of[ROWS] += x->weights * fitting(x->t) * core / x->t->f32;
    return b;
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* What of a matrix is told to all: its parts, each rank's rows of them or all of one rank's, and of
 * the whole. */
enum { WHOLE = 5, SMALL = 64 };

static void tell_rows(const struct pith_linear_spec *l, uint64_t codes, struct pith_crew *c)
{
    const uint64_t part[] = {codes, l->rows * sizeof(double), l->rows * sizeof(double)};
    for (size_t i = 0; i < PITH_COUNT(part); i++) pith_crew_parts(c, part[i], 1);
    for (unsigned i = 0; i < WHOLE; i++) pith_crew_share(c, i % c->ranks, SMALL);
}

static void tell_whole(uint64_t codes, unsigned from, struct pith_crew *c)
{
    pith_crew_share(c, from, codes);
    for (unsigned i = 0; i < WHOLE; i++) pith_crew_share(c, from, SMALL);
}

/* pipe/stream.c, pipe/writers.c: what became of a linear that its owner writes, and its hashes. */
static void tell_made(struct pith_crew *c)
{
    enum { RESULT = 2000, HASHES = 2 * SMALL };
    pith_crew_pass(c, 0, RESULT * (c->ranks - 1) / c->ranks);
    for (unsigned k = 1; k < c->ranks; k++) pith_crew_pass(c, 0, HASHES);
}

static size_t windows_of(const struct pith_quantize_task *t)
{
    return t->tokens / t->length;
}

/* calib/sent.c, each expert with as many tokens of each rank. */
static void tell_routes(const struct pith_quantize_task *t, struct pith_crew *c)
{
    const size_t pooled = t->tokens < POOLED ? t->tokens : POOLED;
    const uint64_t row = t->hidden * sizeof(float) * (kinds_of(t) & DRIFT ? 2 : 1);
    const double taken = (double)t->tokens * t->plans->taken, n = c->ranks;
    pith_crew_parts(c, windows_of(t), t->length * t->plans->taken * sizeof(uint32_t));
    pith_crew_parts(c, pooled, row);
    for (unsigned k = 0; k < c->ranks && c->ranks > 1; k++) {
        const uint32_t experts = t->plans->experts / c->ranks + (k < t->plans->experts % c->ranks);
        const double rows = taken * experts / t->plans->experts;
        c->received[k] += (uint64_t)(rows * (n - 1) / n * (double)row);
    }
    for (unsigned turn = 1; turn < c->ranks; turn++)
        pith_crew_add(c, PITH_CREW_LINK,
                      2 * pith_crew_message(c, taken / n / n * (double)row));
}

/* calib/guide.c, of lists of numbers for each token; and of pairs. */
static void tell_felt(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                      struct pith_crew *c)
{
    const unsigned k = kinds_of(t);
    const uint32_t groups = t->recipe->round_options.row_groups;
    const uint32_t most = pith_output_block(t->recipe->round_options.output_block);
    for (uint32_t i = 0; i < l->linears; i++) {
        const struct pith_linear_spec *of = &l->linear[i];
        const uint64_t each = of->expert == PITH_NO_PART ? 1 : of->expert ? 0 : t->plans->taken;
        const uint64_t pairs = pith_outputs_of(of->rows, most, groups, groups) * sizeof(float);
        for (uint32_t g = 0; each && g < groups; g++)
            pith_crew_parts(c, windows_of(t), t->length * each * sizeof(float));
        if (k & OUTPUTS) pith_crew_sum(c, 0, pairs, (of->rows + most - 1) / most);
    }
}

/* pipe/learn.c: what windows read and are to give; each step, gradients. */
static void tell_learning(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                          struct pith_crew *c)
{
    enum { A_RANK = 6, LISTS = 2 };
    const uint32_t n = iterations_of(&t->recipe->round_options);
    uint64_t all = 0;
    for (uint32_t i = 0; i < l->linears; i++)
        if (changes(&l->linear[i]))
            all += (uint64_t)l->linear[i].rows * l->linear[i].cols * sizeof(float);
    for (int i = 0; i < LISTS; i++)
        pith_crew_parts(c, windows_of(t), t->length * t->hidden * sizeof(float));
    for (uint32_t i = 0; i < n; i++) {
        pith_crew_relay(c, 0, all, (size_t)A_RANK * c->ranks);
        pith_crew_share(c, c->ranks - 1, all);
    }
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

/* Whether several ranks have rows of it. */
static bool is_cut(const struct pith_quantize_task *t, const struct pith_linear_spec *l)
{
    const struct pith_round_job one = {.grid = t->recipe->weights,
                                       .options = t->recipe->round_options,
                                       .rows = l->rows,
                                       .cols = l->cols};
    return l->expert == PITH_NO_PART && !(kinds_of(t) & (STREAMS | LEARNS)) &&
           pith_round_cut(t->recipe->round, &one, t->recipe->split) > 0;
}

static void linear(const struct pith_quantize_task *t, const struct pith_linear_spec *l,
                   unsigned owner, struct pith_crew *c)
{
    const struct linear x = linear_of(t, l);
    const struct bill b = bill_of(&x);
    const size_t windows = windows_of(t), batch = batch_of(&t->recipe->round_options);
    const unsigned k = kinds_of(t);
    pith_crew_windows(c, b.of[WINDOWS], windows);
    pith_crew_windows(c, b.of[BATCH], batch < windows ? batch : windows);
    if (l->expert == PITH_NO_PART) pith_crew_add(c, PITH_CREW_REPEATED, b.of[ALL]);
    else pith_crew_work(c, owner, b.of[ALL], 0);
    if (is_cut(t, l) || k & STREAMS)
        pith_crew_add(c, PITH_CREW_DIVIDED, b.of[ROWS] / c->ranks);
    else if (!t->recipe->weights.format && l->expert == PITH_NO_PART)
        pith_crew_add(c, PITH_CREW_REPEATED, b.of[ROWS]); /* zeros that every rank finds */
    else pith_crew_work(c, owner, b.of[ROWS], 0);
    if (!changes(l) || !t->recipe->weights.format) return;
    const uint64_t codes = pith_qmat_bytes(l->rows, l->cols, &t->recipe->weights);
    pith_crew_add(c, PITH_CREW_DIVIDED, (double)codes * WRITE_BYTE / c->ranks); /* written */
    if (k & LEARNS) pith_crew_share(c, owner, 4 * SMALL);
    else if (is_cut(t, l)) tell_rows(l, codes, c);
    else if (k & STREAMS) tell_made(c);
    else tell_whole(codes, owner, c);
}

/* Statistics of a site that all tokens reach, or of an expert's, which are its owner's. */
static void statistics(const struct pith_quantize_task *t, const struct pith_site_spec *s,
                       struct pith_crew *c)
{
    const unsigned needs = round_needs(t) | input_needs(t), kinds = kinds_of(t);
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
    const bool shared = c->ranks > 1 && kinds & HESSIAN && !(kinds & GUIDED) &&
                        t->recipe->weights.format && pith_cholesky_scratch(c->ranks, s->dim) > 0;
    if (shared) pith_cholesky_told(c->ranks, s->dim, pith_crew_told, c);
    pith_crew_add(c, shared || c->ranks == 1 ? PITH_CREW_DIVIDED : PITH_CREW_REPEATED,
                  shared ? factor / c->ranks : factor);
}

/* Samples that were taken before the windows of each rank, then all. */
static void tell_samples(const struct pith_quantize_task *t, const struct pith_site_spec *s,
                         struct pith_crew *c)
{
    const uint64_t bytes = (t->tokens < SAMPLES ? t->tokens : SAMPLES) * s->dim * sizeof(float);
    for (unsigned k = 1; k < c->ranks; k++) pith_crew_pass(c, k, bytes * k / c->ranks);
    pith_crew_share(c, c->ranks - 1, bytes);
}

/* What a transform's search asks of a site's inputs. */
static void searched(const struct pith_quantize_task *t, const struct pith_site_spec *s,
                     struct pith_crew *c)
{
    const struct pith_transform *by = t->recipe->transform;
    const unsigned needs = by->needs | (by->also & round_needs(t));
    const size_t inspected = t->tokens < INSPECTED ? t->tokens : INSPECTED;
    if (by->basis || !by->needs || s->expert != PITH_NO_PART) return;
    const struct pith_crew_products of = {s->dim, needs, 1, false, 0};
    pith_crew_sums(c, s->dim, needs, 1);
    pith_crew_products(c, &of);
    if (s->to) pith_crew_parts(c, inspected, s->dim * sizeof(float));
    if (needs & PITH_NEED_SAMPLES) tell_samples(t, s, c);
}

static bool any_changes(const struct pith_layer_plan *l, const struct pith_site_spec *s)
{
    bool any = false;
    for (uint32_t k = s->first; k < s->first + s->count; k++) any |= changes(&l->linear[k]);
    return any;
}

void pith_quantize_layer(const struct pith_quantize_task *t, uint32_t layer, struct pith_crew *c)
{
    const struct pith_layer_plan *l = pith_plan(t->plans, layer);
    const unsigned kinds = kinds_of(t), needs = round_needs(t) | input_needs(t);
    for (uint32_t i = 0; i < l->sites; i++) {
        const struct pith_site_spec *s = &l->site[i];
        for (uint32_t k = s->first; k < s->first + s->count; k++)
            linear(t, &l->linear[k], (s->expert == PITH_NO_PART ? k : s->expert) % c->ranks, c);
        if (any_changes(l, s)) searched(t, s, c);
        if (any_changes(l, s) && needs && !(kinds & LEARNS)) statistics(t, s, c);
        if (s->expert == PITH_NO_PART && !(kinds & (STREAMS | LEARNS))) pith_crew_meet(c);
    }
    pith_crew_meet(c);
    const bool routed = pith_plan_experts(l) && !(kinds & LEARNS);
    if (routed && needs) tell_routes(t, c);
    if (routed && kinds & (SEARCHES | FORETELLS | SMOOTHS)) tell_routes(t, c);
    if (kinds & GUIDED) tell_felt(t, l, c);
    if (kinds & LEARNS) tell_learning(t, l, c);
}

double pith_quantize_outside(const struct pith_quantize_task *t, unsigned ranks)
{
    const double head = (double)t->outside / sizeof(uint16_t) * 6 * (double)t->tokens;
    const double guided = kinds_of(t) & GUIDED ? head / PRODUCT_SHARE / t->f32 / ranks : 0;
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
    const unsigned kinds = kinds_of(t);
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
