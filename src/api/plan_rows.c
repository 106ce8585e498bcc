/* Every combination of weights, cache, hardware, context and users as a row of a plan's report. */
#include "api/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static json_t *real_or_null(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

/* --- a row ------------------------------------------------------------------------------------ */

static json_t *parts(const struct pith_room *r)
{
    json_t *j = json_object();
    for (int i = 0; i < PITH_PLAN_CLASSES; i++)
        pith_json_set(&j, pith_plan_class_name((enum pith_plan_class)i),
                      json_real(r->weights.class[i]));
    return j;
}

static json_t *quality(const struct plan_case *k)
{
    const double cache = plan_cache_kld(k->kv_name);
    json_t *j = json_object();
    pith_json_set(&j, "kld", real_or_null(k->c->kld + (pith_kv_coded(&k->kv.k) ? cache : 0)));
    pith_json_set(&j, "source", json_string(k->c->source));
    if (*k->c->published) pith_json_set(&j, "published", json_string(k->c->published));
    return j;
}

static json_t *parallel(struct pith_spread_over o)
{
    return json_pack("{s:i, s:i}", "tensor", (int)o.tensor, "pipeline", (int)o.pipeline);
}

static json_t *make_row(const struct plan_made *p, const struct plan_case *k,
                        const struct pith_room *r, struct pith_spread_over over)
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:s, s:s}", "recipe", k->c->name, "weights",
                          k->c->weights, "acts", k->c->acts, "kv", k->kv_name, "engine",
                          k->need->name);
    pith_json_set(&j, "count", json_integer(k->devices));
    pith_json_set(&j, "parallel", parallel(over));
    pith_json_set(&j, "context", json_integer((json_int_t)k->demand.context));
    pith_json_set(&j, "users", json_integer((json_int_t)k->demand.users));
    pith_json_set(&j, "bits_per_weight",
                  real_or_null(r->weights.quantized > 0
                                   ? r->weights.quantized_bits / r->weights.quantized
                                   : pith_dtype_bits(p->model.model->shape.dtype)));
    pith_json_set(&j, "weight_bytes", json_real(r->weights.all));
    pith_json_set(&j, "weight_parts", parts(r));
    pith_json_set(&j, "kv_bytes_per_token", json_real(r->cache.position));
    pith_json_set(&j, "kv_bytes", json_real(r->cache_all));
    pith_json_set(&j, "overhead_bytes", json_real(r->overhead_all));
    pith_json_set(&j, "total_bytes", json_real(r->total));
    pith_json_set(&j, "device_bytes", json_real(r->device));
    pith_json_set(&j, "quality", quality(k));
    pith_json_set(&j, "commands", plan_commands(p, k, over));
    return j;
}

/* --- all of them ------------------------------------------------------------------------------ */

/* Where a deployment is looked at. */
struct place {
    const char *name; /* NULL: nowhere in particular */
    unsigned devices; /* 0: as few as it fits on */
    double memory;    /* of a device, 0: not known */
    bool cpu;
};

/* The text without which a row has nothing to say. */
static void rule_out(struct plan_made *p, const struct plan_case *k, const struct place *at,
                     const char *why)
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:s}", "recipe", k->c->name, "weights", k->c->weights,
                          "acts", k->c->acts, "reason", why);
    if (k->need) pith_json_set(&j, "engine", json_string(k->need->name));
    if (*k->kv_name) pith_json_set(&j, "kv", json_string(k->kv_name));
    if (at->name) pith_json_set(&j, "hardware", json_string(at->name));
    pith_json_add(&p->out, j);
}

enum { DEVICES_MOST = 64 };

/* With as few devices as it fits on, or as many as were asked for. */
static struct pith_deployment deploy(const struct plan_made *p, struct plan_case *k,
                                     const struct place *at, struct pith_room *r)
{
    struct pith_deployment d = {.model = &p->model,
                                .form = &k->form,
                                .kv = &k->kv,
                                .engine = k->need,
                                .demand = k->demand,
                                .memory = at->memory};
    for (k->devices = at->devices ? at->devices : 1;; k->devices *= 2) {
        d.over = pith_spread_devices(&p->model, k->need, k->devices);
        pith_room_find(&d, r);
        if (r->fits || at->devices || at->memory <= 0 || k->devices == DEVICES_MOST) return d;
    }
}

static void add_row(struct plan_made *p, struct plan_case *k, const struct place *at)
{
    struct pith_room r;
    const struct pith_deployment d = deploy(p, k, at, &r);
    char why[200];
    if (at->memory > 0 && !r.fits) {
        (void)snprintf(why, sizeof why, "needs %.2f GB of each of %u device%s, %.2f are usable",
                       r.device / 1e9, k->devices, k->devices > 1 ? "s" : "", at->memory / 1e9);
        rule_out(p, k, at, why);
        return;
    }
    json_t *j = make_row(p, k, &r, d.over);
    pith_json_set(&j, "hardware", at->name ? json_string(at->name) : json_null());
    pith_json_set(&j, "fits", at->memory > 0 ? json_boolean(r.fits) : json_null());
    pith_json_set(&j, "max_context",
                  at->memory > 0 ? json_integer((json_int_t)r.most_context) : json_null());
    pith_json_set(&j, "max_users",
                  at->memory > 0 ? json_integer((json_int_t)r.most_users) : json_null());
    pith_json_add(&p->rows, j);
}

/* Every context and number of users. */
static enum pith_status add_demands(struct plan_made *p, struct plan_case *k,
                                    const struct place *at, struct pith_error *err)
{
    for (size_t i = 0; i < p->contexts; i++)
        for (size_t n = 0; n < p->user_counts; n++) {
            struct pith_demand *d = &k->demand;
            *d = (struct pith_demand){.context = p->context[i], .users = p->user_count[n]};
            d->prompt = d->context - d->context / 4;
            d->gen = d->context - d->prompt;
            add_row(p, k, at);
        }
    return p->rows && p->out ? PITH_OK : pith_fail_nomem(err, "a plan");
}

static enum pith_status add_cache(struct plan_made *p, struct plan_case *k, const char *name,
                                  const struct place *at, struct pith_error *err)
{
    PITH_TRY(pith_kv_parse(name, PITH_BF16, p->model.model, &k->kv, err));
    pith_kv_name(&k->kv, k->kv_name);
    return add_demands(p, k, at, err);
}

static enum pith_status add_engine(struct plan_made *p, struct plan_case *k, const struct place *at,
                                   struct pith_error *err)
{
    const struct pith_list *asked = &p->options->kv;
    const char *name;
    enum pith_status s = PITH_OK;
    plan_form(p, k->c, k->c->container[k->engine], &k->form);
    k->form.packed = strcmp(k->need->name, "pith") == 0;
    for (size_t i = 0; i < asked->count && s == PITH_OK; i++)
        s = add_cache(p, k, asked->item[i], at, err);
    for (size_t i = 0; asked->count == 0 && s == PITH_OK; i++) {
        struct pith_error why = {0};
        name = plan_cache_tried(&i, k->need->name);
        if (!name) break;
        if (pith_kv_parse(name, PITH_BF16, p->model.model, &k->kv, &why) == PITH_OK)
            s = add_cache(p, k, name, at, err);
    }
    return s;
}

static bool asked_for(const struct plan_made *p, const char *engine)
{
    for (size_t i = 0; i < p->options->targets.count; i++)
        if (strcmp(p->options->targets.item[i], engine) == 0) return true;
    return false;
}

/* Each engine that was asked for, or the first that loads it there. */
static enum pith_status add_candidate(struct plan_made *p, struct plan_candidate *c,
                                      const struct place *at, struct pith_error *err)
{
    size_t needs;
    const struct pith_engine_need *need = pith_engine_needs(&needs);
    const bool any = p->options->targets.count == 0;
    for (size_t i = 0; i < needs; i++) {
        struct plan_case k = {.c = c, .engine = i, .need = &need[i]};
        if (any ? (at->cpu ? !need[i].cpu : !need[i].gpu) : !asked_for(p, need[i].name)) continue;
        PITH_TRY(plan_candidate_ask(p, c, i, err));
        if (*c->why[i]) {
            if (!any || i + 1 == needs) rule_out(p, &k, at, c->why[i]);
            continue;
        }
        PITH_TRY(add_engine(p, &k, at, err));
        if (any) return PITH_OK;
    }
    return PITH_OK;
}

enum pith_status plan_rows_make(struct plan_made *p, struct pith_error *err)
{
    const struct place at = {.memory = (double)p->options->fit, .devices = 1};
    for (size_t i = 0; i < p->candidates; i++)
        PITH_TRY(add_candidate(p, &p->candidate[i], &at, err));
    return PITH_OK;
}
