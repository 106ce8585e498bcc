/* Which combinations of weights, engine, cache and hardware a plan looks at. */
#include "choose/plan.h"

#include <assert.h>
#include <string.h>

static_assert((int)PITH_PLAN_KV_OPTIONS == (int)PITH_ENGINE_CACHE, "one text");

static enum pith_status combine_cache(struct pith_plan_search *p, struct pith_plan_case *k,
                                      const char *name, const struct pith_plan_place *at,
                                      struct pith_error *err)
{
    PITH_TRY(pith_kv_parse(name, PITH_BF16, p->model.model, &k->kv, err));
    pith_kv_name(&k->kv, k->kv_name);
    const struct pith_target_engine *e = pith_engine_find(k->need->name);
    const bool coded = e && pith_kv_coded(&k->kv.k);
    k->kv_options[0] = '\0';
    if (coded && !pith_engine_cache(e, &k->kv, p->model.model->shape.head_dim, k->kv_options) &&
        !e->any_cache) {
        pith_plan_rule_out(p, k, at, "the engine has no such cache");
        return PITH_OK;
    }
    return pith_plan_demands_add(p, k, at, err);
}

static enum pith_status add_engine(struct pith_plan_search *p, struct pith_plan_case *k,
                                   const struct pith_plan_place *at, struct pith_error *err)
{
    const struct pith_list *requested = &p->options->kv;
    const char *name;
    enum pith_status s = PITH_OK;
    k->container = k->c->container[k->engine];
    pith_plan_form(p, k->c, k->need->name, k->container, &k->form);
    k->form.packed = strcmp(k->need->name, "pith") == 0;
    k->groups = k->c->quantizes ? pith_plan_groups(p, &k->form, k->group) : 0;
    for (size_t i = 0; i < requested->count && s == PITH_OK; i++)
        s = combine_cache(p, k, requested->item[i], at, err);
    for (size_t i = 0; requested->count == 0 && s == PITH_OK; i++) {
        struct pith_error why = {0};
        name = pith_plan_cache_tried(&i, k->need->name);
        if (!name) break;
        if (pith_kv_parse(name, PITH_BF16, p->model.model, &k->kv, &why) == PITH_OK)
            s = combine_cache(p, k, name, at, err);
    }
    return s;
}

static bool is_requested(const struct pith_plan_search *p, const char *engine)
{
    for (size_t i = 0; i < p->options->targets.count; i++)
        if (strcmp(p->options->targets.item[i], engine) == 0) return true;
    return false;
}

/* Engines that are planned for without a request: servers of many users where there are such,
 * llama.cpp on Apple's, pith on CPUs. */
static bool usual_on(const struct pith_engine_need *e, const struct pith_hardware *h)
{
    const bool apple = h && strcmp(h->vendor, "Apple") == 0;
    if (h && h->cpu) return e->cpu && !e->gpu;
    return apple ? strcmp(e->name, "llama.cpp") == 0 : e->shards;
}

/* Each requested engine, or the first that loads it there. */
static enum pith_status combine_candidate(struct pith_plan_search *p, struct pith_plan_candidate *c,
                                          const struct pith_plan_place *at, struct pith_error *err)
{
    size_t needs;
    const struct pith_engine_need *need = pith_engine_needs(&needs);
    const bool any = p->options->targets.count == 0;
    const size_t passes = any && c->stored ? 2 : 1; /* then those that are not usual */
    char why[PITH_PLAN_WHY], message[PITH_PLAN_WHY];
    size_t first = needs;
    for (size_t n = 0; n < passes * needs; n++) {
        const size_t i = n % needs;
        struct pith_plan_case k = {.c = c, .engine = i, .need = &need[i]};
        if (any ? usual_on(&need[i], at->h) != (n < needs) : !is_requested(p, need[i].name))
            continue;
        if (at->h && !pith_plan_runs_on(&need[i], at->h)) {
            if (n < needs)
                pith_plan_rule_out(p, &k, at,
                                   at->h->cpu ? "not planned for on a CPU" : "has no GPU");
            continue;
        }
        PITH_TRY(pith_plan_candidate_ask(p, c, i, at->h, err));
        pith_plan_find_reason(c, i, at->h, why);
        if (*why) {
            if (!any) pith_plan_rule_out(p, &k, at, why);
            if (any && first == needs) {
                memcpy(message, why, sizeof message);
                first = i;
            }
            continue;
        }
        PITH_TRY(add_engine(p, &k, at, err));
        if (any) return PITH_OK;
    }
    if (first < needs)
        pith_plan_rule_out(p, &(struct pith_plan_case){.c = c, .need = &need[first]}, at, message);
    return PITH_OK;
}

static enum pith_status add_place(struct pith_plan_search *p, const struct pith_plan_place *at,
                                  struct pith_error *err)
{
    for (size_t i = 0; i < p->candidates; i++)
        PITH_TRY(combine_candidate(p, &p->candidate[i], at, err));
    return PITH_OK;
}

/* Every kind that has a price. */
static enum pith_status add_all(struct pith_plan_search *p, struct pith_error *err)
{
    for (size_t i = 0; i < pith_hardware_count(); i++) {
        const struct pith_hardware *h = pith_hardware_at(i);
        if (h->price <= 0) continue;
        PITH_TRY(add_place(p, &(struct pith_plan_place){.h = h, .memory = h->memory_bytes}, err));
    }
    return PITH_OK;
}

/* Pools and the host's memory are times of some hardware. */
static enum pith_status check_split(const struct pith_plan_model_options *o, struct pith_error *err)
{
    bool elsewhere = false;
    for (size_t i = 0; i < o->prefill.count; i++)
        elsewhere |= strcmp(o->prefill.item[i], "none") != 0;
    if (o->hardware.count == 0 && (elsewhere || o->offload))
        return pith_fail(err, PITH_ARG, "`%s`: on which `hardware`?",
                         elsewhere ? "prefill" : "offload");
    if (elsewhere && o->offload)
        return pith_fail(err, PITH_ARG,
                         "`prefill` and `offload`: prompts come from other devices or from the "
                         "host's memory; plan for one of them at a time");
    if (o->pool_link && !elsewhere)
        return pith_fail(err, PITH_ARG, "`pool_link` does nothing without `prefill`");
    return PITH_OK;
}

enum pith_status pith_plan_enumerate(struct pith_plan_search *p, struct pith_error *err)
{
    const struct pith_plan_model_options *o = p->options;
    const bool backwards = o->max_latency > 0 || o->max_first > 0 || o->max_cost > 0 ||
                           (o->min_users && !o->fit);
    PITH_TRY(check_split(o, err));
    if (o->hardware.count == 0 && backwards) return add_all(p, err);
    if (o->hardware.count == 0)
        return add_place(p, &(struct pith_plan_place){.memory = (double)o->fit, .devices = 1}, err);
    for (size_t i = 0; i < o->hardware.count; i++) {
        struct pith_plan_place at;
        if (strcmp(o->hardware.item[i], "all") == 0) {
            PITH_TRY(add_all(p, err));
            continue;
        }
        PITH_TRY(pith_plan_place_find(p, "`hardware`", o->hardware.item[i], &at, err));
        PITH_TRY(add_place(p, &at, err));
    }
    return PITH_OK;
}
