#include "api/hardware.h"

#include <pith/plan.h>

#include "api/context.h"
#include "backend/roof.h"
#include "eval/rates.h"
#include "model/kv.h"
#include "plan/kernels.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

json_t *pith_hardware_object(const struct pith_hardware *h)
{
    json_t *j = json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:f}", "hardware", h->name, "what",
                          h->title, "vendor", h->vendor, "memory_bytes", h->memory_bytes,
                          "bandwidth", h->bandwidth, "link", h->link, "host", h->host);
    for (int u = 0; u < PITH_UNITS; u++)
        pith_json_set(&j, pith_hardware_unit((enum pith_unit)u), json_real(h->ops[u]));
    pith_json_set(&j, "most", json_integer(h->most));
    pith_json_set(&j, "watts", json_real(h->watts));
    pith_json_set(&j, "price", json_real(h->price));
    pith_json_set(&j, "price_source", json_string(h->price_source));
    pith_json_set(&j, "source", json_string(h->source));
    pith_json_set(&j, "fnuz", json_boolean(h->fnuz));
    pith_json_set(&j, "cpu", json_boolean(h->cpu));
    if (h->reached_memory > 0) pith_json_set(&j, "memory_reached", json_real(h->reached_memory));
    if (h->reached_arithmetic > 0)
        pith_json_set(&j, "arithmetic_reached", json_real(h->reached_arithmetic));
    if (h->layer_seconds > 0) pith_json_set(&j, "layer_seconds", json_real(h->layer_seconds));
    pith_json_set(&j, "capability", json_integer(h->capability));
    if (h->threads) pith_json_set(&j, "threads", json_integer(h->threads));
    if (h->kernels) pith_json_set(&j, "kernels", json_deep_copy(h->kernels));
    return j;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* A number that is at least 0. */
static enum pith_status read_real(const json_t *j, const char *key, double *out, const char *where,
                                  struct pith_error *err)
{
    PITH_TRY(pith_json_get_real(j, key, out, where, err));
    if (*out < 0 || *out > 1e30)
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is no amount", where, key);
    return PITH_OK;
}

enum pith_status pith_hardware_read(const json_t *j, const char *where, struct pith_hardware *out,
                                    struct pith_error *err)
{
    int64_t most = 1, capability = 0, threads = 0;
    double any = 0;
    *out = (struct pith_hardware){.title = "", .vendor = "", .price_source = "", .source = where};
    if (!json_is_object(j)) return pith_fail(err, PITH_FORMAT, "%s: no object", where);
    PITH_TRY(pith_json_get_str(j, "hardware", &out->name, where, err));
    PITH_TRY(pith_json_get_str(j, "what", &out->title, where, err));
    PITH_TRY(pith_json_get_str(j, "vendor", &out->vendor, where, err));
    PITH_TRY(pith_json_get_str(j, "price_source", &out->price_source, where, err));
    PITH_TRY(pith_json_get_str(j, "source", &out->source, where, err));
    PITH_TRY(read_real(j, "memory_bytes", &out->memory_bytes, where, err));
    PITH_TRY(read_real(j, "bandwidth", &out->bandwidth, where, err));
    PITH_TRY(read_real(j, "link", &out->link, where, err));
    PITH_TRY(read_real(j, "host", &out->host, where, err));
    PITH_TRY(read_real(j, "watts", &out->watts, where, err));
    PITH_TRY(read_real(j, "price", &out->price, where, err));
    PITH_TRY(read_real(j, "memory_reached", &out->reached_memory, where, err));
    PITH_TRY(read_real(j, "arithmetic_reached", &out->reached_arithmetic, where, err));
    PITH_TRY(read_real(j, "layer_seconds", &out->layer_seconds, where, err));
    PITH_TRY(pith_json_get_int(j, "most", 1, 4096, &most, where, err));
    PITH_TRY(pith_json_get_bool(j, "fnuz", &out->fnuz, where, err));
    PITH_TRY(pith_json_get_bool(j, "cpu", &out->cpu, where, err));
    PITH_TRY(pith_json_get_int(j, "capability", 0, 1000, &capability, where, err));
    PITH_TRY(pith_json_get_int(j, "threads", 0, 65536, &threads, where, err));
    for (int u = 0; u < PITH_UNITS; u++) {
        PITH_TRY(read_real(j, pith_hardware_unit((enum pith_unit)u), &out->ops[u], where, err));
        any += out->ops[u];
    }
    out->most = (unsigned)most;
    if (out->reached_memory > 1 || out->reached_arithmetic > 1)
        return pith_fail(err, PITH_FORMAT, "%s: more than the peak cannot be reached", where);
    out->capability = (unsigned)capability;
    out->threads = (unsigned)threads;
    out->kernels = json_object_get(j, "kernels");
    PITH_TRY(pith_kernels_check(out->kernels, where, err));
    if (!out->name || out->bandwidth <= 0 || any <= 0 ||
        (out->ops[PITH_UNIT_BF16] <= 0 && out->ops[PITH_UNIT_F32] <= 0))
        return pith_fail(
            err, PITH_FORMAT,
            "%s: \"hardware\", \"bandwidth\" and operations as \"f32\" or \"bf16\" are "
            "needed; pith hardware l4 --json shows a whole row",
            where);
    return PITH_OK;
}

/* --- the table, the machine ------------------------------------------------------------------- */

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
