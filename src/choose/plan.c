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

static enum pith_status search(struct pith_plan_search *p, struct pith_error *err)
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
    pith_plan_rank(p);
    return p->failed ? pith_fail_nomem(err, "a plan") : PITH_OK;
}

enum pith_status pith_plan_search_make(const struct pith_plan_model_options *options,
                                       struct pith_plan_search *p, struct pith_error *err)
{
    *p = (struct pith_plan_search){.options = options, .harm = pith_harm_of};
    const enum pith_status s = search(p, err);
    if (s != PITH_OK) pith_plan_search_free(p);
    return s;
}

void pith_plan_search_free(struct pith_plan_search *p)
{
    for (size_t i = 0; i < p->rows; i++) pith_free(p->row[i]);
    pith_free(p->row);
    pith_free(p->out);
    pith_plan_stored_free(p);
    pith_free(p->candidate);
    pith_plan_hardware_free(p);
    pith_plan_subject_free(&p->model);
    *p = (struct pith_plan_search){0};
}

enum pith_status pith_plan_make(const struct pith_plan_model_options *options,
                                struct pith_report **report, struct pith_error *err)
{
    struct pith_plan_search p;
    PITH_TRY(pith_plan_search_make(options, &p, err));
    *report = pith_plan_report(&p);
    pith_plan_search_free(&p);
    return *report ? PITH_OK : pith_fail_nomem(err, "the report");
}
