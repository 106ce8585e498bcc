#include <pith/plan.h>

#include "api/context.h"
#include "backend/roof.h"
#include "eval/speed/rates_report.h"
#include "plan/hardware/hardware_json.h"

#include <stdio.h>
#include <unistd.h>

enum pith_status pith_hardware_json(char **report, struct pith_error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < pith_hardware_count(); i++)
        pith_json_add(&list, pith_hardware_object(pith_hardware_at(i)));
    return pith_report_text(list, report, err);
}

static enum pith_status measure_roof(struct pith_backend *be, struct pith_roof_sample *s,
                                     struct pith_error *err)
{
    struct pith_roof *roof;
    PITH_TRY(pith_roof_new(be, &roof, err));
    pith_roof_measure(roof, s);
    pith_roof_free(roof);
    return PITH_OK;
}

static enum pith_status report_this(struct pith_context *context, json_t *kernels, char **report,
                                    struct pith_error *err)
{
    struct pith_roof_sample s;
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    char title[160];
    PITH_TRY(measure_roof(context->backend, &s, err));
    (void)snprintf(title, sizeof title, "this machine, %u threads, kernels %.60s",
                   pith_context_threads(context), pith_context_cpu(context));
    const struct pith_hardware h = {
        .name = "this",
        .vendor = "",
        .title = title,
        .memory_bytes = pages > 0 && page > 0 ? (double)pages * (double)page : 0,
        .bandwidth = s.read_all,
        .ops = {[PITH_UNIT_F32] = s.f32, [PITH_UNIT_BF16] = s.bf16, [PITH_UNIT_INT8] = s.int8},
        .most = 1,
        .price_source = "",
        .source = "measured",
        .cpu = true,
        .threads = pith_context_threads(context),
        .kernels = kernels};
    return pith_report_text(pith_hardware_object(&h), report, err);
}

enum pith_status pith_hardware_measure(struct pith_context *context, char **report,
                                       struct pith_error *err)
{
    *report = NULL;
    return report_this(context, NULL, report, err);
}

enum pith_status pith_hardware_measure_kernels(struct pith_context *context,
                                               const struct pith_list *weights,
                                               const struct pith_list *caches, char **report,
                                               struct pith_error *err)
{
    json_t *kernels;
    *report = NULL;
    PITH_TRY(pith_rates_report(context->backend, weights, caches, &kernels, err));
    const enum pith_status s = report_this(context, kernels, report, err);
    json_decref(kernels);
    return s;
}
