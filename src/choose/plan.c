/* A plan, from the request to its report. */
#include "choose/plan.h"

#include "base/mem.h"
#include "eval/harm.h"

#include <pith/names.h>

#include <stdio.h>
#include <string.h>

enum { CONTEXT_USUAL = 4096 };

/* Numbers of a list, at least 1 each; `usual` where there are none. */
static enum pith_status read_counts(const struct pith_list *list, const char *option, size_t usual,
                                    size_t *out, size_t *count, struct pith_error *err)
{
    *count = 0;
    if (list->count == 0) out[(*count)++] = usual;
    if (list->count > PITH_PLAN_LIST)
        return pith_fail(err, PITH_ARG, "%s: at most %d of them", option, PITH_PLAN_LIST);
    for (size_t i = 0; i < list->count; i++) {
        uint64_t n;
        if (!pith_number_parse(list->item[i], &n) || n == 0 || n > UINT32_MAX)
            return pith_fail(err, PITH_ARG, "%s %.64s: expected a whole number, such as 8 or 32k",
                             option, list->item[i]);
        out[(*count)++] = (size_t)n;
    }
    return PITH_OK;
}

static enum pith_status check_targets(const struct pith_plan_model_options *o,
                                      struct pith_error *err)
{
    for (size_t i = 0; i < o->targets.count; i++)
        if (!pith_engine_need_find(o->targets.item[i])) {
            size_t count;
            char names[200] = "";
            const struct pith_engine_need *need = pith_engine_needs(&count);
            for (size_t k = 0; k < count; k++)
                (void)snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s",
                               k ? ", " : "", need[k].name);
            return pith_fail(err, PITH_ARG, "`targets` %.64s: there are %s", o->targets.item[i],
                             names);
        }
    return PITH_OK;
}

static enum pith_status check_contexts(const struct pith_plan_search *p, struct pith_error *err)
{
    const size_t most = p->model.model->shape.max_position;
    for (size_t i = 0; i < p->contexts; i++)
        if (p->context[i] > most)
            return pith_fail(err, PITH_ARG, "`contexts` %zu: the model's context is %zu",
                             p->context[i], most);
    return PITH_OK;
}

static enum pith_status make(struct pith_plan_search *p, struct pith_error *err)
{
    const struct pith_plan_model_options *o = p->options;
    PITH_TRY(check_targets(o, err));
    PITH_TRY(pith_plan_subject_find(o->model, &p->model, err));
    (void)snprintf(p->name, sizeof p->name, "%.250s", o->model);
    pith_plan_subject_count(&p->model, &p->census);
    const size_t most = p->model.model->shape.max_position;
    PITH_TRY(read_counts(&o->contexts, "`contexts`", most < CONTEXT_USUAL ? most : CONTEXT_USUAL,
                         p->context, &p->contexts, err));
    PITH_TRY(read_counts(&o->users, "`users`", o->min_users ? o->min_users : 1, p->user_count,
                         &p->user_counts, err));
    PITH_TRY(check_contexts(p, err));
    PITH_TRY(pith_plan_stored_open(p, err));
    PITH_TRY(pith_plan_candidates_make(p, err));
    PITH_TRY(pith_plan_enumerate(p, err));
    PITH_TRY(pith_plan_rank(p, err));
    pith_plan_would_fit_settle(p);
    return PITH_OK;
}

enum pith_status pith_plan_make(const struct pith_plan_model_options *options,
                                struct pith_report **report, struct pith_error *err)
{
    struct pith_plan_search p = {.options = options,
                                 .rows = json_array(),
                                 .out = json_array(),
                                 .would_fit = json_array(),
                                 .harm = pith_harm_of};
    enum pith_status s = make(&p, err);
    *report = s == PITH_OK ? pith_plan_report(&p) : NULL;
    if (s == PITH_OK && !*report) s = pith_fail_nomem(err, "the report");
    json_decref(p.rows);
    json_decref(p.out);
    json_decref(p.would_fit);
    pith_plan_stored_free(&p);
    pith_free(p.candidate);
    pith_plan_hardware_free(&p);
    pith_plan_subject_free(&p.model);
    return s;
}
