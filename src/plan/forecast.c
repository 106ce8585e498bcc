#include "plan/forecast.h"

#include "plan/hardware/kernels.h"
#include "plan/hardware/natives.h"

#include <math.h>
#include <string.h>

/* The unit that multiplies the linears, by the grid of their inputs. */
static enum pith_unit form_unit(const struct pith_weight_form *f, const struct pith_hardware *h)
{
    if (f->linears.format && f->acts.format) return pith_native_unit(&f->acts);
    return h->ops[PITH_UNIT_BF16] > 0 ? PITH_UNIT_BF16 : PITH_UNIT_F32;
}

/* pith itself computes inputs of 16 bits in float32, or against integer weights as three numbers of
 * 8 bits each (the exact mode), attention in float32. */
static bool is_pith(const struct pith_deployment *d)
{
    return strcmp(d->engine->name, "pith") == 0;
}

static enum pith_unit unit_of(const struct pith_deployment *d, const struct pith_hardware *h)
{
    const struct pith_format *w = d->form->linears.format;
    if (!is_pith(d)) return form_unit(d->form, h);
    const bool bytes = w && (w->kind == PITH_KIND_INT || w->kind == PITH_KIND_GGUF);
    return bytes && h->ops[PITH_UNIT_INT8] > 0 ? PITH_UNIT_INT8 : PITH_UNIT_F32;
}

/* Of mixtures less of the arithmetic is reached: hardware.json, prefill_mfu moe by dense. */
static const double mixture_reach = 0.25 / 0.4;

/* What is the same for every batch. */
struct base {
    const struct pith_deployment *d;
    const struct pith_room *r;
    const struct pith_hardware *h;
    enum pith_unit unit;
    double linear; /* operations of a token */
    double parts;  /* numbers of 8 bits that an input is multiplied as */
    struct pith_reached reached;
    double layer;      /* seconds that a layer takes in addition to its bytes */
    double cache_read; /* bytes that a user's step reads, halfway through the answer */
};

/* What the machine's own kernels take where these were measured, else what the roofline says. */
static double by_kernels(const struct base *b, const struct pith_kernel_step *step, double roof)
{
    const double seconds = pith_kernels_seconds(b->d, b->h, step);
    return seconds > 0 ? seconds : roof;
}

/* Attention multiplies in 16 bits: as many operations of the linears' unit take as long. */
static double in_unit(const struct base *b, double ops)
{
    const bool floats = is_pith(b->d) || b->h->ops[PITH_UNIT_BF16] <= 0;
    const enum pith_unit half = floats ? PITH_UNIT_F32 : PITH_UNIT_BF16;
    return ops * b->h->ops[b->unit] / b->h->ops[half];
}

static void add_links(const struct base *b, double tokens, struct pith_roof_work *w)
{
    const struct pith_shape *s = &b->d->model->model->shape;
    const double n = b->d->over.tensor, row = 2.0 * s->hidden * tokens;
    if (b->d->over.tensor > 1) {
        w->link_bytes += 2.0 * s->layers * row * 2 * (n - 1) / n;
        w->link_steps += 2 * s->layers;
    }
    w->link_bytes += (b->d->over.pipeline - 1) * row;
    w->link_steps += b->d->over.pipeline - 1;
}

/* One after the other come the groups of layers, so a token waits for the devices of one group at a
 * time. Sends between groups count where no matrices are shared out, too. */
static double seconds(const struct base *b, struct pith_roof_work *w, enum pith_roof_bound *bound)
{
    const struct pith_spread_over *o = &b->d->over;
    const double layers = b->d->model->model->shape.layers;
    if (b->d->model->model->plans.experts) w->ops /= mixture_reach;
    double t = pith_roofline_seconds(b->h, o->tensor, w, b->reached, bound);
    if (o->tensor == 1 && o->pipeline > 1)
        t += w->link_steps * pith_links_reached.step +
             (b->h->link > 0 ? w->link_bytes / (b->h->link * pith_links_reached.share) : 0);
    return t + layers * b->layer;
}

/* A step of so many users, of which each group of layers has its share at a time. */
static double step(const struct base *b, double users, enum pith_roof_bound *bound,
                   struct pith_roof_work *out)
{
    const struct pith_demand *q = &b->d->demand;
    const double depth = (double)q->prompt + (double)q->gen / 2;
    const double at_once = fmax(1, users / b->d->over.pipeline);
    struct pith_roof_work w = {
        .weight_bytes = b->r->weights.read +
                        b->r->weights.experts * pith_experts_read(b->d->model, at_once),
        .cache_bytes = b->cache_read * at_once,
        .ops = at_once * (b->linear + in_unit(b, pith_attention_operations(b->d->model, depth))),
        .unit = b->unit};
    add_links(b, at_once, &w);
    const double t = seconds(b, &w, bound);
    if (out) *out = w;
    return by_kernels(b, &(struct pith_kernel_step){at_once, 1, depth}, t);
}

/* So many prompts together. */
static double prefill(const struct base *b, double prompts)
{
    const double prompt = (double)b->d->demand.prompt, tokens = prompts * prompt;
    const struct pith_shape *s = &b->d->model->model->shape;
    const double chunks = ceil(tokens / (double)b->d->engine->chunk);
    const double head = 2.0 * s->vocab * pith_shape_embed(s) * b->parts;
    struct pith_roof_work w = {
        .weight_bytes = chunks *
                        (b->r->weights.read +
                         b->r->weights.experts * pith_experts_read(b->d->model, tokens / chunks)),
        .ops = tokens * (b->linear - head +
                         in_unit(b, pith_attention_operations(b->d->model, prompt / 2))) +
               prompts * head,
        .unit = b->unit};
    add_links(b, tokens, &w);
    const double roof = seconds(b, &w, NULL) + (chunks - 1) * s->layers * b->layer;
    return chunks * by_kernels(b, &(struct pith_kernel_step){prompts, prompt / chunks, prompt / 2},
                               roof / chunks);
}

/* All users' prompts, of which the engine takes as many at once as its chunk holds. */
static double fill(const struct base *b)
{
    const struct pith_demand *q = &b->d->demand;
    const size_t chunk = b->d->engine->chunk;
    const double most = q->prompt && q->prompt < chunk ? (double)(chunk / q->prompt) : 1;
    const double users = (double)q->users, at_once = fmax(1, fmin(most, users));
    return users / at_once * prefill(b, at_once);
}

/* The fewest users whose step arithmetic bounds. */
static double crossover_of(const struct base *b)
{
    enum pith_roof_bound bound;
    double low = 0, high = 1;
    for (; high <= 65536; high *= 2) {
        (void)step(b, high, &bound, NULL);
        if (bound == PITH_BOUND_ARITHMETIC) break;
        low = high;
    }
    if (high > 65536) return 0;
    while (high - low > 1) {
        const double mid = floor((low + high) / 2);
        (void)step(b, mid, &bound, NULL);
        if (bound == PITH_BOUND_ARITHMETIC) high = mid;
        else low = mid;
    }
    return high;
}

void pith_forecast_bill(struct pith_forecast *f, double watts, double price)
{
    f->joules = watts > 0 ? watts / f->served : (double)NAN;
    f->cost = price > 0 ? price / 3600 / f->served * 1e6 : (double)NAN;
}

void pith_forecast_make(const struct pith_deployment *d, const struct pith_room *r,
                        const struct pith_hardware *h, struct pith_forecast *out)
{
    const struct pith_demand *q = &d->demand;
    struct pith_cache_sums mean;
    struct pith_roof_work w;
    pith_weigh_cache(d->model, d->kv, d->over, q->prompt + q->gen / 2, &mean);
    const struct pith_engine_need *e = d->engine;
    const bool apart = is_pith(d) && unit_of(d, h) == PITH_UNIT_INT8 && !d->form->acts.format;
    const double parts = apart ? 3 : 1;
    const struct base b = {
        .d = d,
        .r = r,
        .h = h,
        .unit = unit_of(d, h),
        .parts = parts,
        .linear = pith_linear_operations(d->model) * parts,
        .reached = {h->reached_memory > 0 ? h->reached_memory : e->memory,
                    h->reached_arithmetic > 0 ? h->reached_arithmetic : e->arithmetic},
        .layer = h->layer_seconds > 0 ? h->layer_seconds
                 : h->cpu             ? 0
                                      : e->layer_seconds,
        .cache_read = mean.read};
    const double users = (double)q->users, devices = d->over.tensor * d->over.pipeline;
    out->unit = b.unit;
    out->first = prefill(&b, 1);
    out->step = step(&b, users, &out->bound, &w);
    out->read = w.weight_bytes + w.cache_bytes;
    out->multiplied = w.ops;
    out->rate = users / out->step;
    out->fill = fill(&b);
    out->served = q->gen ? users * (double)q->gen / (out->fill + (double)q->gen * out->step)
                         : out->rate;
    out->crossover = crossover_of(&b);
    pith_forecast_bill(out, h->watts * devices, h->price * devices);
}
