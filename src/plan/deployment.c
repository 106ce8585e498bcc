/* Deployments of a model as rows of a plan, or why there is none: on how many devices, what fits
 * there, how fast it is. */
#include "plan/search.h"

#include "base/grow.h"
#include "plan/hardware/natives.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- rows ------------------------------------------------------------------------------------- */

void pith_plan_rule_out(struct pith_plan_search *p, const struct pith_plan_case *k,
                        const struct pith_plan_place *at, const char *why)
{
    struct pith_plan_ruled_out *out = pith_grow(p->out, p->outs, &p->out_cap, 64, sizeof *out);
    p->failed |= !out;
    if (!out) return;
    p->out = out;
    out += p->outs++;
    *out = (struct pith_plan_ruled_out){
        .c = k->c, .engine = k->need ? k->need->name : NULL, .h = at->h};
    (void)snprintf(out->kv, sizeof out->kv, "%s", k->kv_name);
    (void)snprintf(out->why, sizeof out->why, "%s", why);
}

/* Takes the row over. */
static void keep(struct pith_plan_search *p, struct pith_plan_row *row)
{
    struct pith_plan_row **all = pith_grow(p->row, p->rows, &p->row_cap, 64, sizeof *all);
    p->failed |= !all;
    if (all) {
        p->row = all;
        p->row[p->rows++] = row;
    } else pith_free(row);
}

/* The weights over these devices, weighed once. */
static const struct pith_weighed *weighed(const struct pith_plan_search *p,
                                          struct pith_plan_case *k, struct pith_spread_over over)
{
    struct pith_plan_candidate *c = k->c;
    for (size_t i = 0; i < c->weighings && i < PITH_PLAN_WEIGHED; i++) {
        const struct pith_plan_weighed *w = &c->weighed[i];
        if (w->engine == k->engine && w->over.tensor == over.tensor &&
            w->over.pipeline == over.pipeline)
            return &w->weights;
    }
    struct pith_plan_weighed *w = &c->weighed[c->weighings++ % PITH_PLAN_WEIGHED];
    w->engine = k->engine;
    w->over = over;
    pith_weigh(&p->model, &k->form, over, &w->weights);
    return &w->weights;
}

struct pith_deployment pith_plan_deploy(const struct pith_plan_search *p, struct pith_plan_case *k,
                                        const struct pith_plan_place *at, struct pith_room *r)
{
    struct pith_deployment d = {.model = &p->model,
                                .form = &k->form,
                                .kv = &k->kv,
                                .engine = k->need,
                                .demand = k->demand,
                                .memory = at->memory,
                                .threads = at->h ? at->h->threads : 0};
    const unsigned most = at->h ? at->h->most : 1;
    struct pith_offload offload;
    for (k->devices = at->devices ? at->devices : 1;; k->devices *= 2) {
        d.over = pith_spread_devices(&p->model, k->need, k->devices);
        d.weights = weighed(p, k, d.over);
        pith_room_find(&d, r);
        if (r->fits || at->devices || at->memory <= 0 || k->devices * 2 > most) return d;
        if (pith_plan_offloads(p, &d, r, at, &offload)) return d;
    }
}

/* Why that is not to be had there, or an empty text. */
static void refuse(const struct pith_plan_search *p, const struct pith_plan_place *at,
                   const struct pith_plan_row *row, char why[PITH_PLAN_WHY])
{
    const struct pith_plan_case *k = &row->k;
    const struct pith_plan_model_options *o = p->options;
    const struct pith_room *r = &row->r;
    const size_t waiting = row->offloads ? row->offload.waiting : 0;
    why[0] = '\0';
    if (k->demand.prompt + k->demand.gen > k->demand.context)
        (void)snprintf(why, PITH_PLAN_WHY,
                       "a prompt of %zu and %zu tokens after it are no context of %zu",
                       k->demand.prompt, k->demand.gen, k->demand.context);
    else if (at->memory > 0 && !r->fits && !row->offloads)
        (void)snprintf(why, PITH_PLAN_WHY,
                       k->devices > 1 ? "needs %.2f GB on each of %u devices, %.2f are usable"
                                      : "needs %.2f GB on %u device, %.2f are usable",
                       r->device / 1e9, k->devices, at->memory / 1e9);
    else if (o->fit && r->total > (double)o->fit)
        (void)snprintf(why, PITH_PLAN_WHY, "needs %.2f GB in all, %.2f may be", r->total / 1e9,
                       (double)o->fit / 1e9);
    else if (o->min_users && at->memory > 0 && r->most_users + waiting < o->min_users)
        (void)snprintf(why, PITH_PLAN_WHY, "has room for %zu users", r->most_users + waiting);
}

static void refuse_slow(const struct pith_plan_search *p, const struct pith_forecast *f,
                        char why[PITH_PLAN_WHY])
{
    const struct pith_plan_model_options *o = p->options;
    if (o->max_latency > 0 && f->step > o->max_latency)
        (void)snprintf(why, PITH_PLAN_WHY, "%.1f ms between tokens", f->step * 1e3);
    else if (o->max_first > 0 && f->first > o->max_first)
        (void)snprintf(why, PITH_PLAN_WHY, "%.3g s to the first token", f->first);
    else if (o->max_cost > 0 && !(f->cost <= o->max_cost))
        (void)snprintf(why, PITH_PLAN_WHY,
                       isfinite(f->cost) ? "%.3g USD a million tokens"
                                         : "no dated price of it is known",
                       f->cost);
}

/* reads: where prompts are read, NULL: there, too. */
static void add_row(struct pith_plan_search *p, const struct pith_plan_case *k,
                    const struct pith_plan_place *at, const struct pith_plan_place *reads)
{
    struct pith_plan_row *row = pith_zalloc(1, sizeof *row);
    char why[PITH_PLAN_WHY] = "";
    p->failed |= !row;
    if (!row) return;
    row->k = *k;
    row->h = at->h;
    row->d = pith_plan_deploy(p, &row->k, at, &row->r);
    row->d.weights = &row->r.weights; /* the candidate's may be replaced by later ones */
    if (at->h) pith_forecast_make(&row->d, &row->r, at->h, &row->f);
    if (!reads) pith_plan_offload(p, at, row, why);
    if (!*why) refuse(p, at, row, why);
    if (!*why && reads) pith_plan_pool(p, reads, row, why);
    if (!*why && at->h) refuse_slow(p, &row->f, why);
    if (!*why) {
        keep(p, row);
        return;
    }
    pith_plan_rule_out(p, k, at, why);
    pith_plan_near_add(p, at, row);
    pith_free(row);
}

/* With prompts read wherever the options say. */
static enum pith_status add_rows(struct pith_plan_search *p, struct pith_plan_case *k,
                                 const struct pith_plan_place *at, struct pith_error *err)
{
    const struct pith_list *requested = &p->options->prefill;
    if (requested->count == 0) add_row(p, k, at, NULL);
    for (size_t i = 0; i < requested->count; i++) {
        struct pith_plan_place reads = {.h = at->h, .memory = at->memory};
        if (strcmp(requested->item[i], "none") == 0) {
            add_row(p, k, at, NULL);
            continue;
        }
        if (strcmp(requested->item[i], "same") != 0)
            PITH_TRY(pith_plan_place_find(p, "`prefill`", requested->item[i], &reads, err));
        add_row(p, k, at, &reads);
    }
    return PITH_OK;
}

enum pith_status pith_plan_demands_add(struct pith_plan_search *p, struct pith_plan_case *k,
                                       const struct pith_plan_place *at, struct pith_error *err)
{
    for (size_t i = 0; i < p->contexts; i++)
        for (size_t n = 0; n < p->user_counts; n++) {
            struct pith_demand *d = &k->demand;
            *d = (struct pith_demand){.context = p->context[i], .users = p->user_count[n]};
            d->prompt = p->options->prompt ? p->options->prompt : d->context - d->context / 4;
            d->gen = p->options->gen ? p->options->gen : d->context - d->prompt;
            PITH_TRY(add_rows(p, k, at, err));
        }
    return p->failed ? pith_fail_nomem(err, "a plan") : PITH_OK;
}

void pith_plan_find_reason(const struct pith_plan_candidate *c, size_t engine,
                           const struct pith_hardware *h, char why[PITH_PLAN_WHY])
{
    const struct pith_container *container = c->container[engine];
    char native[PITH_NATIVE_WHY] = "";
    size_t needs;
    if (!*c->why[engine] && (c->quantizes || c->stored) && h && container) {
        const struct pith_native_case of = {.engine = pith_engine_needs(&needs)[engine].name,
                                            .container = container->name,
                                            .weights = c->form.linears,
                                            .acts = c->form.acts,
                                            .hardware = h};
        (void)pith_native_ask(&of, native);
    }
    (void)snprintf(why, PITH_PLAN_WHY, "%s", *c->why[engine] ? c->why[engine] : native);
}

bool pith_plan_runs_on(const struct pith_engine_need *e, const struct pith_hardware *h)
{
    return h && h->cpu ? e->cpu : e->gpu;
}

bool pith_plan_runs(const struct pith_plan_case *k, const struct pith_hardware *h,
                    char why[PITH_PLAN_WHY])
{
    pith_plan_find_reason(k->c, k->engine, h, why);
    if (!*why && !pith_plan_runs_on(k->need, h))
        (void)snprintf(why, PITH_PLAN_WHY, "%.60s: %s", h->name,
                       h->cpu ? "not planned for on a CPU" : "has no GPU");
    return !*why;
}
