#include <pith/plan.h>

#include "api/context.h"
#include "api/options.h"
#include "choose/plan.h"
#include "plan/shapes.h"
#include "plan/time/quantize_time.h"
#include "quantize/ranks/planned_machines.h"

static const struct pith_plan_model_options model_defaults = {.size = sizeof model_defaults};

void pith_plan_model_defaults_sized(struct pith_plan_model_options *o, size_t size)
{
    pith_options_give(o, size, &model_defaults, sizeof model_defaults);
}

enum pith_status pith_plan_model(const struct pith_plan_model_options *given, char **report,
                                 struct pith_error *err)
{
    PITH_OPTIONS(pith_plan_model_options, o, model_defaults, given, err);
    json_t *j;
    *report = NULL;
    if (!o->model) return pith_fail(err, PITH_ARG, "a model is needed");
    PITH_TRY(pith_plan_make(o, &j, err));
    return pith_report_text(j, report, err);
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

static const struct pith_plan_quantize_options quantize_defaults = {
    .size = sizeof quantize_defaults,
    .link = PITH_CABLE_DEFAULT,
    .calib_tokens = 131072,
    .seq_len = 2048};

void pith_plan_quantize_defaults_sized(struct pith_plan_quantize_options *o, size_t size)
{
    pith_options_give(o, size, &quantize_defaults, sizeof quantize_defaults);
}

enum pith_status pith_plan_quantize(const struct pith_plan_quantize_options *given, char **report,
                                    struct pith_error *err)
{
    PITH_OPTIONS(pith_plan_quantize_options, o, quantize_defaults, given, err);
    json_t *j;
    *report = NULL;
    if (!o->model || !o->recipe || !o->hardware)
        return pith_fail(err, PITH_ARG, "a model, a recipe and hardware are needed");
    PITH_TRY(pith_quantize_plan(o, &j, err));
    return pith_report_text(j, report, err);
}
