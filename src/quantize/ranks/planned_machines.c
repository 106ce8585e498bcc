/* What quantizing a model would take on machines that are not there. */
#include "quantize/ranks/planned_machines.h"

#include "calib/routed.h"
#include "export/groups.h"
#include "plan/search.h"
#include "plan/time/quantize_time.h"
#include "plan/time/ranks_report.h"

/* The request, as it is understood. */
struct request {
    struct pith_plan_search plan; /* the model, and the hardware's own file */
    struct pith_plan_place at;
    struct pith_recipe recipe;
    struct pith_quantize_task task;
    struct pith_cable cable;
    struct pith_group_rule groups;
    struct pith_container_opts opts; /* for which the estimate is made */
    bool mixed;                      /* each linear has its own size */
    uint32_t common;                 /* else this one */
};

/* Groups where the recipe's do not divide rows, as pith quantize settles them. */
static uint32_t group_of(const void *ctx, const struct pith_linear_spec *spec)
{
    const struct request *a = ctx;
    const struct pith_group_rule *rule = &a->groups;
    const struct pith_grid *g = &a->recipe.weights;
    if (!a->mixed) return a->common;
    for (uint32_t i = 0; i < rule->plans->layers; i++) {
        const struct pith_layer_plan *l = pith_plan(rule->plans, i);
        if (spec >= l->linear && spec < l->linear + l->linears)
            return pith_group_size(rule, g, l, (uint32_t)(spec - l->linear));
    }
    return g->group;
}

static void settle_groups(struct request *a)
{
    const struct pith_model *m = a->plan.model.model;
    a->opts = (struct pith_container_opts){.model_dtype = m->shape.dtype, .acts = a->recipe.acts};
    a->groups = (struct pith_group_rule){.plans = &m->plans,
                                         .container = pith_container_find(a->recipe.container),
                                         .opts = &a->opts};
    if (!a->groups.container || !pith_groups_vary(&a->recipe.weights)) return;
    a->mixed = pith_groups_mix(&a->groups);
    a->common = pith_group_common(&a->groups, &a->recipe.weights);
    a->task.group = group_of;
    a->task.group_ctx = a;
}

static enum pith_status understand(struct request *a, const struct pith_plan_quantize_options *o,
                                   struct pith_error *err)
{
    const struct pith_plan_subject *m = &a->plan.model;
    PITH_TRY(pith_recipe_load(o->recipe, &a->recipe, err));
    PITH_TRY(pith_cable_parse(o->link, &a->cable, err));
    PITH_TRY(pith_plan_place_find(&a->plan, "`hardware`", o->hardware, &a->at, err));
    if (!a->at.h->cpu || !(a->at.h->ops[PITH_UNIT_F32] > 0))
        return pith_fail(err, PITH_UNSUPPORTED, "`hardware` %.60s: pith quantizes on CPUs",
                         o->hardware);
    if (a->at.devices > PITH_RANKS_MOST)
        return pith_fail(err, PITH_ARG, "`hardware` %.60s: %d machines at most", o->hardware,
                         PITH_RANKS_MOST);
    PITH_TRY(pith_plan_subject_find(o->model, &a->plan.model, err));
    const size_t most = m->model->shape.max_position;
    a->task = (struct pith_quantize_task){.plans = &m->model->plans,
                                          .recipe = &a->recipe,
                                          .tokens = o->calib_tokens,
                                          .length = o->seq_len < most ? o->seq_len : most,
                                          .hidden = m->model->shape.hidden,
                                          .f32 = a->at.h->ops[PITH_UNIT_F32]};
    a->task.common = pith_experts_common(PITH_EXPERTS_POOLED, a->task.tokens);
    a->task.routed = true;
    settle_groups(a);
    const uint64_t ends = (uint64_t)m->model->shape.vocab * m->model->shape.hidden;
    a->task.ends = m->model->shape.ends.tied ? 1 : 2;
    a->task.outside = ends * a->task.ends * sizeof(uint16_t);
    if (a->task.length == 0 || a->task.tokens < a->task.length)
        return pith_fail(err, PITH_ARG, "%zu tokens of calibration make no window of %zu",
                         a->task.tokens, a->task.length);
    const char *why = pith_quantize_no_estimate(&a->task);
    return why ? pith_fail(err, PITH_UNSUPPORTED, "%s: %s", a->recipe.name, why) : PITH_OK;
}

/* The whole model by so many ranks. */
static void add_row(const struct request *a, unsigned ranks, struct pith_ranks_report *r)
{
    const struct pith_plans *p = a->task.plans;
    struct pith_ranks_row *row = pith_ranks_report_row(r, ranks);
    struct pith_ranks_cost outside = pith_quantize_cost(&a->task);
    if (!row) return;
    pith_quantize_outside(&a->task, &outside);
    pith_ranks_forecast_add(&row->other, &outside, 1);
    for (uint32_t kind = 0; kind < p->kinds; kind++) {
        struct pith_ranks_cost one = pith_quantize_cost(&a->task);
        double times = 0;
        for (uint32_t i = 0; i < p->layers; i++) times += p->of[i] == kind;
        pith_quantize_layer(&a->task, &p->kind[kind], &one);
        pith_ranks_forecast_add(&row->blocks, &one, times);
    }
}

static struct pith_ranks_report ranks_of(const struct request *a)
{
    const unsigned most = a->at.devices ? a->at.devices : PITH_RANKS_MOST;
    struct pith_ranks_report r = {.cable = a->cable, .blocks = a->task.plans->layers};
    for (unsigned n = 1; n < most; n *= 2) add_row(a, n, &r);
    add_row(a, most, &r);
    return r;
}

static void fill_report(struct pith_report *to, const struct request *a,
                        const struct pith_plan_quantize_options *o)
{
    const struct pith_ranks_report ranks = ranks_of(a);
    const uint64_t bytes = pith_quantize_memory(&a->task);
    const double memory = (double)bytes;
    pith_report_line(to, &(struct pith_line){0},
                     "%s by %s, %zu tokens of calibration, on %s:", o->model, a->recipe.name,
                     a->task.tokens, a->at.h->name);
    pith_report_label(to, "memory", PITH_WRAP_NONE, "about %.*f %s a machine",
                      memory >= 1e9 ? 2 : 1, memory >= 1e9 ? memory * 1e-9 : memory * 1e-6,
                      memory >= 1e9 ? "GB" : "MB");
    pith_ranks_report_text(to, &ranks);
    pith_report_set(to, "model", pith_words(o->model));
    pith_report_set(to, "recipe", pith_words(a->recipe.name));
    pith_report_set(to, "hardware", pith_words(a->at.h->name));
    pith_report_set(to, "memory_bytes", pith_whole((int64_t)bytes));
    pith_report_set(to, "tokens", pith_count(a->task.tokens));
    pith_ranks_report_set(to, &ranks);
}

enum pith_status pith_quantize_plan(const struct pith_plan_quantize_options *o,
                                    struct pith_report **report, struct pith_error *err)
{
    const struct pith_plan_model_options hardware = {.own = o->own};
    struct request a = {.plan = {.options = &hardware}};
    enum pith_status s = understand(&a, o, err);
    *report = s == PITH_OK ? pith_report_new() : NULL;
    if (s == PITH_OK && !*report) s = pith_fail_nomem(err, "the report");
    if (s == PITH_OK) fill_report(*report, &a, o);
    pith_plan_hardware_free(&a.plan);
    pith_plan_subject_free(&a.plan.model);
    return s;
}
