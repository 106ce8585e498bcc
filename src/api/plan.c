#include <pith/plan.h>

#include "api/context.h"
#include "api/options.h"
#include "api/plan.h"
#include "base/file.h"
#include "base/mem.h"
#include "plan/shapes.h"

#include <pith/names.h>

#include <stdio.h>
#include <string.h>

static const struct pith_plan_model_options defaults = {.size = sizeof defaults};

enum { CONTEXT_USUAL = 4096 };

void pith_plan_model_defaults_sized(struct pith_plan_model_options *o, size_t size)
{
    pith_options_give(o, size, &defaults, sizeof defaults);
}

/* Numbers of a list, at least 1 each; `usual` where there are none. */
static enum pith_status read_counts(const struct pith_list *list, const char *option, size_t usual,
                                    size_t *out, size_t *count, struct pith_error *err)
{
    *count = 0;
    if (list->count == 0) out[(*count)++] = usual;
    if (list->count > PLAN_LIST)
        return pith_fail(err, PITH_ARG, "%s: at most %d of them", option, PLAN_LIST);
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
            return pith_fail(err, PITH_ARG, "--for %.64s: there are %s", o->targets.item[i], names);
        }
    return PITH_OK;
}

static enum pith_status check_contexts(const struct plan_made *p, struct pith_error *err)
{
    const size_t most = p->model.model->shape.max_position;
    for (size_t i = 0; i < p->contexts; i++)
        if (p->context[i] > most)
            return pith_fail(err, PITH_ARG, "--context %zu: the model's context is %zu",
                             p->context[i], most);
    return PITH_OK;
}

enum pith_status plan_model_open(const char *name, struct pith_plan_subject *out,
                                 struct pith_error *err)
{
    json_t *shapes;
    if (pith_path_exists(name)) return pith_plan_subject_open(name, out, err);
    PITH_TRY(pith_shapes_read(&shapes, err));
    char names[PITH_SHAPE_NAMES];
    const json_t *s = pith_shapes_match(shapes, name, names);
    const enum pith_status status =
        s ? pith_plan_subject_read(json_object_get(s, "config"), name, out, err)
          : pith_fail(err, PITH_ARG,
                      "%.200s: no such folder or file, and no well-known model of that name%s%s; "
                      "pith plan --shapes lists those",
                      name, *names ? "; there are " : "", names);
    if (status == PITH_OK)
        (void)snprintf(out->shape_name, sizeof out->shape_name, "%s",
                       json_string_value(json_object_get(s, "name")));
    json_decref(shapes);
    return status;
}

static json_t *parameters(const struct pith_census *n)
{
    json_t *j = json_object();
    for (int i = 0; i < PITH_PLAN_CLASSES; i++)
        pith_json_set(&j, pith_plan_class_name((enum pith_plan_class)i),
                      json_integer((json_int_t)n->class[i]));
    pith_json_set(&j, "all", json_integer((json_int_t)n->all));
    pith_json_set(&j, "active", json_real(n->active));
    return j;
}

static json_t *describe(struct plan_made *p)
{
    json_t *j = json_object();
    pith_json_set(&j, "model", pith_json_name(p->name));
    if (*p->model.shape_name) pith_json_set(&j, "shape", json_string(p->model.shape_name));
    pith_json_set(&j, "architecture", json_string(p->model.model->arch->name));
    pith_json_set(&j, "context", json_integer(p->model.model->shape.max_position));
    pith_json_set(&j, "parameters", parameters(&p->census));
    if (p->model.stored)
        pith_json_set(&j, "stored_bytes", json_integer((json_int_t)p->model.stored));
    if (p->stored) pith_json_set(&j, "stored", plan_stored_report(p));
    if (json_array_size(p->rows) == 0 && p->near && json_array_size(p->near) > 0)
        pith_json_set(&j, "would_fit", json_incref(p->near));
    pith_json_set(&j, "rows", p->rows);
    pith_json_set(&j, "ruled_out", p->out);
    p->rows = p->out = NULL;
    return j;
}

static enum pith_status make(struct plan_made *p, char **report, struct pith_error *err)
{
    const struct pith_plan_model_options *o = p->options;
    PITH_TRY(check_targets(o, err));
    PITH_TRY(plan_model_open(o->model, &p->model, err));
    (void)snprintf(p->name, sizeof p->name, "%.250s", o->model);
    pith_plan_subject_count(&p->model, &p->census);
    const size_t most = p->model.model->shape.max_position;
    PITH_TRY(read_counts(&o->contexts, "--context", most < CONTEXT_USUAL ? most : CONTEXT_USUAL,
                         p->context, &p->contexts, err));
    PITH_TRY(read_counts(&o->users, "--users", o->min_users ? o->min_users : 1, p->user_count,
                         &p->user_counts, err));
    PITH_TRY(check_contexts(p, err));
    PITH_TRY(plan_stored_open(p, err));
    PITH_TRY(plan_candidates_make(p, err));
    PITH_TRY(plan_rows_make(p, err));
    PITH_TRY(plan_rank(p, err));
    plan_near_settle(p);
    return pith_report_text(describe(p), report, err);
}

enum pith_status pith_plan_model(const struct pith_plan_model_options *given, char **report,
                                 struct pith_error *err)
{
    PITH_OPTIONS(pith_plan_model_options, o, defaults, given, err);
    *report = NULL;
    if (!o->model) return pith_fail(err, PITH_ARG, "a model is needed");
    struct plan_made p = {
        .options = o, .rows = json_array(), .out = json_array(), .near = json_array()};
    const enum pith_status s = make(&p, report, err);
    json_decref(p.rows);
    json_decref(p.out);
    json_decref(p.near);
    plan_stored_free(&p);
    pith_free(p.candidate);
    plan_hardware_free(&p);
    pith_plan_subject_free(&p.model);
    return s;
}

enum pith_status pith_plan_shapes(char **report, struct pith_error *err)
{
    json_t *shapes, *list = json_array();
    const json_t *s;
    size_t i;
    *report = NULL;
    PITH_TRY(pith_shapes_read(&shapes, err));
    json_array_foreach (shapes, i, s) {
        const json_t *config = json_object_get(s, "config"), *n = json_object_get(s, "parameters");
        const json_t *archs = json_object_get(config, "architectures");
        pith_json_add(&list, json_pack("{s:O, s:O, s:O, s:O}", "name", json_object_get(s, "name"),
                                       "parameters", n, "architecture", json_array_get(archs, 0),
                                       "from", json_object_get(s, "from")));
    }
    json_decref(shapes);
    return pith_report_text(list, report, err);
}
