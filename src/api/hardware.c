#include <pith/plan.h>

#include "api/context.h"
#include "api/report.h"
#include "backend/roof.h"
#include "eval/speed/rates_report.h"
#include "plan/hardware/hardware_json.h"
#include "report/records.h"

#include <stdio.h>
#include <unistd.h>

static enum pith_status measure_roof(struct pith_backend *be, struct pith_roof_sample *s,
                                     struct pith_error *err)
{
    struct pith_roof *roof;
    PITH_TRY(pith_roof_new(be, &roof, err));
    pith_roof_measure(roof, s);
    pith_roof_free(roof);
    return PITH_OK;
}

static enum pith_status report_this(struct pith_context *context, json_t *kernels,
                                    struct pith_report **report, struct pith_error *err)
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
    struct pith_report *r = pith_report_new(), *one = pith_report_new();
    if (r && one) {
        pith_report_open(one, "");
        pith_hardware_rows(one, &h);
        pith_report_close(one);
        pith_records_table(one, 0, pith_report_alone(r));
        pith_record_entry(r, one, 0, "hardware", NULL);
        pith_record_copy(r, one, 0);
        r->failed |= one->failed;
        *report = r;
    } else {
        pith_report_free(&r);
    }
    pith_report_free(&one);
    return *report ? PITH_OK : pith_fail_nomem(err, "the report");
}

enum pith_status pith_hardware_report(struct pith_context *context, const struct pith_list *weights,
                                      const struct pith_list *caches, struct pith_report **report,
                                      struct pith_error *err)
{
    json_t *kernels = NULL;
    *report = NULL;
    if (weights->count + caches->count)
        PITH_TRY(pith_rates_report(context->backend, weights, caches, &kernels, err));
    const enum pith_status s = report_this(context, kernels, report, err);
    json_decref(kernels);
    return s;
}

enum pith_status pith_hardware_measure(struct pith_context *context, char **report,
                                       struct pith_error *err)
{
    const struct pith_list none = {0};
    return pith_hardware_measure_kernels(context, &none, &none, report, err);
}

enum pith_status pith_hardware_measure_kernels(struct pith_context *context,
                                               const struct pith_list *weights,
                                               const struct pith_list *caches, char **report,
                                               struct pith_error *err)
{
    struct pith_report *r = NULL;
    *report = NULL;
    return pith_report_give(&r, pith_hardware_report(context, weights, caches, &r, err), report,
                            err);
}
