#include "plan/hardware/hardware_json.h"

#include "plan/hardware/kernels.h"

static void set_real(struct pith_report *r, const char *key, double x)
{
    pith_report_set(r, key, pith_real(x, 1));
}

void pith_hardware_rows(struct pith_report *r, const struct pith_hardware *h)
{
    pith_report_set(r, "hardware", pith_words(h->name));
    pith_report_set(r, "what", pith_words(h->title));
    pith_report_set(r, "vendor", pith_words(h->vendor));
    pith_report_set(r, "memory_bytes", pith_whole((int64_t)h->memory_bytes));
    set_real(r, "bandwidth", h->bandwidth);
    set_real(r, "link", h->link);
    set_real(r, "host", h->host);
    for (int u = 0; u < PITH_UNITS; u++)
        set_real(r, pith_hardware_unit((enum pith_unit)u), h->ops[u]);
    pith_report_set(r, "most", pith_count(h->most));
    set_real(r, "watts", h->watts);
    set_real(r, "price", h->price);
    pith_report_set(r, "price_source", pith_words(h->price_source));
    pith_report_set(r, "source", pith_words(h->source));
    pith_report_set(r, "fnuz", pith_yes(h->fnuz));
    pith_report_set(r, "cpu", pith_yes(h->cpu));
    if (h->reached_memory > 0) set_real(r, "memory_reached", h->reached_memory);
    if (h->reached_arithmetic > 0) set_real(r, "arithmetic_reached", h->reached_arithmetic);
    if (h->layer_seconds > 0) set_real(r, "layer_seconds", h->layer_seconds);
    pith_report_set(r, "capability", pith_count(h->capability));
    if (h->threads) pith_report_set(r, "threads", pith_count(h->threads));
    if (h->kernels) pith_report_set(r, "kernels", pith_tree(json_deep_copy(h->kernels)));
}

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
