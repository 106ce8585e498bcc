#include <pith/plan.h>

#include "api/context.h"
#include "backend/roof.h"
#include "eval/rates.h"
#include "model/kv.h"
#include "plan/hardware_json.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum pith_status pith_hardware_json(char **report, struct pith_error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < pith_hardware_count(); i++)
        pith_json_add(&list, pith_hardware_object(pith_hardware_at(i)));
    return pith_report_text(list, report, err);
}

static const size_t rate_rows[] = {1, 2, 4, 8, 16, 64, 256, 512};
enum { RATES = sizeof rate_rows / sizeof rate_rows[0] };

static void add_rate(json_t **kernels, const char *kind, const char *name, const double *seconds)
{
    json_t *rows = json_array(), *list = json_array();
    for (size_t i = 0; i < RATES; i++) {
        pith_json_add(&rows, json_integer((json_int_t)rate_rows[i]));
        pith_json_add(&list, json_real(seconds[i]));
    }
    pith_json_add(kernels, json_pack("{s:s, s:o, s:o}", kind, name, "rows", rows, "seconds", list));
}

/* Matrices in 16 bits are part of any model: its head. */
static enum pith_status measure_matrices(struct pith_backend *be, const struct pith_list *grids,
                                         json_t **kernels, struct pith_error *err)
{
    double seconds[RATES];
    const struct pith_grid none = {0};
    PITH_TRY(pith_rate_matrix(be, &none, rate_rows, RATES, seconds, err));
    add_rate(kernels, "grid", "none", seconds);
    for (size_t i = 0; i < grids->count; i++) {
        struct pith_grid g;
        char name[PITH_GRID_TEXT];
        PITH_TRY(pith_grid_parse(grids->item[i], &g, err));
        if (!g.format) continue;
        pith_grid_format(&g, name);
        PITH_TRY(pith_rate_matrix(be, &g, rate_rows, RATES, seconds, err));
        add_rate(kernels, "grid", name, seconds);
    }
    return PITH_OK;
}

static enum pith_status measure_caches(struct pith_backend *be, const struct pith_list *caches,
                                       json_t **kernels, struct pith_error *err)
{
    static const char *const usual[] = {"bf16"};
    const struct pith_list those = caches->count ? *caches : (struct pith_list){usual, 1};
    for (size_t i = 0; i < those.count; i++) {
        double seconds[RATES];
        struct pith_kv_format f;
        char name[PITH_KV_TEXT];
        PITH_TRY(pith_kv_parse(those.item[i], PITH_BF16, NULL, &f, err));
        pith_kv_name(&f, name);
        pith_kv_format_free(&f);
        PITH_TRY(pith_rate_cache(be, those.item[i], rate_rows, RATES, seconds, err));
        add_rate(kernels, "cache", name, seconds);
    }
    return PITH_OK;
}

static enum pith_status measure_rest(struct pith_backend *be, json_t **kernels,
                                     struct pith_error *err)
{
    double seconds[RATES];
    PITH_TRY(pith_rate_rest(be, rate_rows, RATES, seconds, err));
    add_rate(kernels, "rest", "layer", seconds);
    return PITH_OK;
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
    json_t *kernels = json_array();
    *report = NULL;
    enum pith_status s = measure_matrices(context->backend, weights, &kernels, err);
    if (s == PITH_OK) s = measure_caches(context->backend, caches, &kernels, err);
    if (s == PITH_OK) s = measure_rest(context->backend, &kernels, err);
    if (s == PITH_OK && !kernels) s = pith_fail_nomem(err, "kernels");
    if (s == PITH_OK) s = report_this(context, kernels, report, err);
    json_decref(kernels);
    return s;
}
