#include "plan/hardware/hardware_json.h"

#include "plan/hardware/kernels.h"

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
