/* A deployment of a model as a row of a plan's report, or why there is none: on how many devices,
 * what fits there, how fast it is. */
#include "plan/search.h"

#include "plan/hardware/natives.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- a row ------------------------------------------------------------------------------------ */

static json_t *parts(const struct pith_room *r)
{
    json_t *j = json_object();
    for (int i = 0; i < PITH_PLAN_CLASSES; i++)
        pith_json_set(&j, pith_plan_class_name((enum pith_plan_class)i),
                      pith_json_whole(r->weights.class[i]));
    return j;
}

static json_t *quality(const struct pith_plan_case *k)
{
    const double cache = pith_plan_cache_kld(k->kv_name);
    json_t *j = json_object();
    const double more = pith_kv_coded(&k->kv.k) ? cache : 0;
    const bool known = !pith_kv_coded(&k->kv.k); /* what such a cache loses here is not known */
    pith_json_set(&j, "kld", pith_json_finite(known ? k->c->kld : (double)NAN));
    pith_json_set(&j, "source",
                  json_string(known ? k->c->source
                                    : "not measured with this cache: pith advise or "
                                      "pith eval --baseline --kv measures it"));
    pith_json_set(&j, "likened", pith_json_finite(k->c->likened + more));
    pith_json_set(&j, "likened_to",
                  isnan(k->c->likened + more) ? json_null() : json_string(k->c->likened_to));
    if (*k->c->published) pith_json_set(&j, "published", json_string(k->c->published));
    return j;
}

static json_t *parallel(struct pith_spread_over o)
{
    return json_pack("{s:i, s:i}", "tensor", (int)o.tensor, "pipeline", (int)o.pipeline);
}

const struct pith_container *pith_plan_own_container(const struct pith_plan_candidate *c)
{
    return c->stored ? c->lies : pith_container_find(c->recipe.container);
}

/* Where it differs from the recipe's own, what it is packed in; whether that is a file. */
static void set_container(json_t **j, const struct pith_plan_case *k)
{
    const struct pith_container *own = pith_plan_own_container(k->c),
                                *c = k->c->container[k->engine];
    if (c && c != own) pith_json_set(j, "container", json_string(c->name));
    pith_json_set(j, "file", json_boolean(own && own->file));
}

/* The grid that most weights have, and where groups fell back the sizes that there are. */
static void set_grids(json_t **j, const struct pith_plan_case *k)
{
    char text[PITH_PLAN_TEXT];
    struct pith_grid g = k->form.linears;
    if (k->groups == 0 || (k->groups == 1 && k->group[0] == k->c->recipe.weights.group)) return;
    json_t *list = json_array();
    for (size_t i = 0; i < k->groups; i++) pith_json_add(&list, json_integer(k->group[i]));
    pith_json_set(j, "groups", list);
    g.group = k->group[0];
    pith_grid_format(&g, text);
    pith_json_set(j, "weights", json_string(text));
}

static json_t *make_row(const struct pith_plan_search *p, const struct pith_plan_case *k,
                        const struct pith_plan_row *row)
{
    const struct pith_room *r = &row->r;
    json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s}", "recipe", k->c->name, "weights",
                          k->c->weights, "acts", k->c->acts, "kv", k->kv_name, "engine",
                          k->need->name);
    pith_json_set(&j, "count", json_integer(k->devices));
    pith_json_set(&j, "parallel", parallel(row->d.over));
    pith_json_set(&j, "context", json_integer((json_int_t)k->demand.context));
    pith_json_set(&j, "users", json_integer((json_int_t)k->demand.users));
    pith_json_set(&j, "bits_per_weight",
                  pith_json_finite(r->weights.quantized > 0
                                   ? r->weights.quantized_bits / r->weights.quantized
                                   : pith_dtype_bits(p->model.model->shape.dtype)));
    pith_json_set(&j, "weight_bytes", pith_json_whole(r->weights.all));
    pith_json_set(&j, "weight_parts", parts(r));
    pith_json_set(&j, "kv_bytes_per_token", json_real(r->cache.position));
    pith_json_set(&j, "kv_bytes", pith_json_whole(r->cache_all));
    pith_json_set(&j, "overhead_bytes", pith_json_whole(r->overhead_all));
    pith_json_set(&j, "total_bytes", pith_json_whole(r->total));
    pith_json_set(&j, "device_bytes", pith_json_whole(r->device));
    pith_json_set(&j, "quality", quality(k));
    if (k->c->quantizes || k->c->stored) set_container(&j, k);
    set_grids(&j, k);
    pith_json_set(&j, "commands", pith_plan_commands(p, k, row));
    return j;
}

/* --- where it runs ---------------------------------------------------------------------------- */

/* The text without which a row has nothing to say. */
void pith_plan_rule_out(struct pith_plan_search *p, const struct pith_plan_case *k,
                        const struct pith_plan_place *at, const char *why)
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:s}", "recipe", k->c->name, "weights", k->c->weights,
                          "acts", k->c->acts, "reason", why);
    if (k->need) pith_json_set(&j, "engine", json_string(k->need->name));
    if (*k->kv_name) pith_json_set(&j, "kv", json_string(k->kv_name));
    if (at->h) pith_json_set(&j, "hardware", json_string(at->h->name));
    pith_json_add(&p->out, j);
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
static void refuse(const struct pith_plan_search *p, const struct pith_plan_case *k,
                   const struct pith_plan_place *at, const struct pith_plan_row *row,
                   char why[PITH_PLAN_WHY])
{
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

static void set_speed(json_t **j, const struct pith_forecast *f)
{
    pith_json_set(j, "unit", json_string(pith_hardware_unit(f->unit)));
    pith_json_set(j, "first_token_seconds", json_real(f->first));
    pith_json_set(j, "token_seconds", json_real(f->step));
    pith_json_set(j, "tokens_per_second_user", json_real(1 / f->step));
    pith_json_set(j, "tokens_per_second", json_real(f->rate));
    pith_json_set(j, "served_tokens_per_second", json_real(f->served));
    pith_json_set(j, "bound", json_string(pith_bound_name(f->bound)));
    pith_json_set(j, "arithmetic_from_users",
                  f->crossover > 0 ? json_real(f->crossover) : json_null());
    pith_json_set(j, "bytes_per_step", json_real(f->read));
    pith_json_set(j, "operations_per_step", json_real(f->multiplied));
    pith_json_set(j, "cost_per_million_tokens", pith_json_finite(f->cost));
    pith_json_set(j, "joules_per_token", pith_json_finite(f->joules));
}

/* [[context, users], ...]: each context twice the one before, up to the model's. */
static json_t *users_by_context(const struct pith_plan_search *p, const struct pith_deployment *d,
                                const struct pith_room *r)
{
    json_t *list = json_array();
    const size_t most = p->model.model->shape.max_position;
    for (size_t n = most < 1024 ? most : 1024; n <= most; n *= 2)
        pith_json_add(&list,
                      json_pack("[I, I]", (json_int_t)n, (json_int_t)pith_room_users(d, r, n)));
    return list;
}

static void set_room(json_t **j, const struct pith_plan_search *p, const struct pith_plan_place *at,
                     const struct pith_plan_row *row)
{
    const bool known = at->memory > 0;
    const struct pith_room *r = &row->r;
    pith_json_set(j, "hardware", at->h ? json_string(at->h->name) : json_null());
    pith_json_set(j, "fits", known ? json_boolean(r->fits) : json_null());
    pith_json_set(j, "max_context",
                  known ? json_integer((json_int_t)r->most_context) : json_null());
    pith_json_set(j, "max_users", known ? json_integer((json_int_t)r->most_users) : json_null());
    if (known) pith_json_set(j, "users_by_context", users_by_context(p, &row->d, r));
}

/* reads: where prompts are read, NULL: there, too. */
static void add_row(struct pith_plan_search *p, struct pith_plan_case *k,
                    const struct pith_plan_place *at, const struct pith_plan_place *reads)
{
    struct pith_plan_row row = {.h = at->h};
    char why[PITH_PLAN_WHY] = "";
    row.d = pith_plan_deploy(p, k, at, &row.r);
    if (at->h) pith_forecast_make(&row.d, &row.r, at->h, &row.f);
    if (!reads) pith_plan_offload(p, at, &row, why);
    if (!*why) refuse(p, k, at, &row, why);
    if (!*why && reads) pith_plan_pool(p, k, reads, &row, why);
    if (!*why && at->h) refuse_slow(p, &row.f, why);
    if (*why) {
        pith_plan_rule_out(p, k, at, why);
        pith_plan_would_fit_add(p, k, at, &row);
        return;
    }
    json_t *j = make_row(p, k, &row);
    set_room(&j, p, at, &row);
    if (at->h) set_speed(&j, &row.f);
    pith_plan_split_report(&j, p, &row);
    pith_json_add(&p->rows, j);
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
    return p->rows && p->out ? PITH_OK : pith_fail_nomem(err, "a plan");
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
