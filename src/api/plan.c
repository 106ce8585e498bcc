#include <pith/plan.h>

#include "api/context.h"
#include "api/options.h"
#include "api/report.h"
#include "choose/plan.h"
#include "plan/shapes.h"
#include "plan/time/quantize_time.h"
#include "quantize/ranks/planned_machines.h"

static const struct pith_plan_model_options model_defaults = {.size = sizeof model_defaults};

void pith_plan_model_defaults_sized(struct pith_plan_model_options *o, size_t size)
{
    pith_options_give(o, size, &model_defaults, sizeof model_defaults);
}

enum pith_status pith_plan_model_report(const struct pith_plan_model_options *given,
                                        struct pith_report **report, struct pith_error *err)
{
    *report = NULL;
    PITH_OPTIONS(pith_plan_model_options, o, model_defaults, given, err);
    if (!o->model) return pith_fail(err, PITH_ARG, "a model is needed");
    return pith_plan_make(o, report, err);
}

enum pith_status pith_plan_model(const struct pith_plan_model_options *given, char **report,
                                 struct pith_error *err)
{
    struct pith_report *r = NULL;
    *report = NULL;
    return pith_report_give(&r, pith_plan_model_report(given, &r, err), report, err);
}

/* A shape as a member of the list and as a row of the table. */
static void add_shape(struct pith_report *r, struct pith_table *t, const json_t *shape)
{
    const json_t *config = json_object_get(shape, "config"),
                 *archs = json_object_get(config, "architectures");
    const char *name = json_string_value(json_object_get(shape, "name")),
               *arch = json_string_value(json_array_get(archs, 0));
    const json_int_t n = json_integer_value(json_object_get(shape, "parameters"));
    pith_report_open(r, "");
    pith_report_set(r, "name", pith_words(name));
    pith_report_set(r, "parameters", pith_whole(n));
    pith_report_set(r, "architecture", pith_words(arch));
    pith_report_set(r, "from", pith_words(json_string_value(json_object_get(shape, "from"))));
    pith_report_close(r);
    pith_table_row(t);
    pith_table_text(t, name);
    pith_table_printf(t, "%lld", (long long)n);
    pith_table_text(t, arch);
}

enum pith_status pith_plan_shapes_report(struct pith_report **report, struct pith_error *err)
{
    json_t *shapes;
    const json_t *s;
    size_t i;
    *report = NULL;
    PITH_TRY(pith_shapes_read(&shapes, err));
    struct pith_report *r = pith_report_new();
    if (r) {
        struct pith_table *t = pith_report_add_table(r, PITH_DETAIL_ANY);
        pith_report_listed(r);
        pith_table_column(t, "name", "name", PITH_CELL_TEXT);
        pith_table_column(t, "parameters", "parameters", PITH_CELL_NUMBER);
        pith_table_column(t, "architecture", "architecture", PITH_CELL_TEXT);
        json_array_foreach (shapes, i, s) add_shape(r, t, s);
    }
    json_decref(shapes);
    *report = r;
    return r ? PITH_OK : pith_fail_nomem(err, "a list");
}

enum pith_status pith_plan_shapes(char **report, struct pith_error *err)
{
    struct pith_report *r = NULL;
    *report = NULL;
    return pith_report_give(&r, pith_plan_shapes_report(&r, err), report, err);
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

enum pith_status pith_plan_quantize_report(const struct pith_plan_quantize_options *given,
                                           struct pith_report **report, struct pith_error *err)
{
    *report = NULL;
    PITH_OPTIONS(pith_plan_quantize_options, o, quantize_defaults, given, err);
    if (!o->model || !o->recipe || !o->hardware)
        return pith_fail(err, PITH_ARG, "a model, a recipe and hardware are needed");
    return pith_quantize_plan(o, report, err);
}

enum pith_status pith_plan_quantize(const struct pith_plan_quantize_options *given, char **report,
                                    struct pith_error *err)
{
    struct pith_report *r = NULL;
    *report = NULL;
    return pith_report_give(&r, pith_plan_quantize_report(given, &r, err), report, err);
}
