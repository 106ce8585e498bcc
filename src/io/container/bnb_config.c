#include "io/container/bnb_config.h"
#include "io/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum pith_status pith_bnb_config_read(const struct pith_checkpoint *c, struct pith_bnb_config *out,
                                      struct pith_error *err)
{
    char where[512];
    bool four = false;
    double threshold = 6.0;
    *out = (struct pith_bnb_config){0};
    snprintf(where, sizeof where, "%.400s: quantization_config", c->dir);
    PITH_TRY(pith_json_get_bool(c->quantization, "load_in_8bit", &out->eight, where, err));
    PITH_TRY(pith_json_get_bool(c->quantization, "load_in_4bit", &four, where, err));
    PITH_TRY(pith_json_get_real(c->quantization, "llm_int8_threshold", &threshold, where, err));
    if (four == out->eight)
        return pith_fail(err, PITH_FORMAT, "%s: one of load_in_8bit and load_in_4bit must be true",
                         where);
    if (!(threshold >= 0.0) || !isfinite(threshold))
        return pith_fail(err, PITH_FORMAT, "%s: llm_int8_threshold is %g", where, threshold);
    out->threshold = (float)threshold;
    out->skipped = json_object_get(c->quantization, "llm_int8_skip_modules");
    return PITH_OK;
}

static bool same_kind(const struct pith_grid *a, const struct pith_grid *b)
{
    return a->format == b->format && a->double_quant == b->double_quant;
}

/* Unquantized modules, the head among them; null when it is the only one, so that the
 * loader's own rule for heads counts. */
static json_t *skipped(const struct pith_linear_grid *linears, size_t count)
{
    json_t *list = json_array();
    bool more = false;
    for (size_t i = 0; i < count; i++) {
        if (linears[i].grid.format) continue;
        more |= !pith_module_is_head(linears[i].module);
        json_array_append_new(list, json_string(linears[i].module));
    }
    if (more) return list;
    json_decref(list);
    return json_null();
}

static const char *compute_dtype(enum pith_dtype t)
{
    return t == PITH_BF16 ? "bfloat16" : t == PITH_F16 ? "float16" : "float32";
}

enum pith_status pith_bnb_config_make(const struct pith_linear_grid *linears, size_t count,
                                      const struct pith_container_opts *opts, json_t **out,
                                      struct pith_error *err)
{
    const struct pith_grid *kind = NULL;
    for (size_t i = 0; i < count; i++) {
        const struct pith_grid *g = &linears[i].grid;
        if (!g->format) continue;
        if (!kind) kind = g;
        if (!same_kind(g, kind))
            return pith_fail(err, PITH_UNSUPPORTED,
                             "%s: bitsandbytes has one kind of quantized linear a model",
                             linears[i].module);
    }
    if (!kind) return pith_fail(err, PITH_ARG, "bitsandbytes: no linear is quantized");
    const bool eight = kind->format->kind == PITH_KIND_INT;
    json_t *o = json_pack(
        "{s:s, s:b, s:b, s:b, s:b, s:s, s:b, s:s, s:s, s:f, s:o, s:b, s:b}", "quant_method",
        "bitsandbytes", "load_in_4bit", !eight, "load_in_8bit", eight, "_load_in_4bit", !eight,
        "_load_in_8bit", eight, "bnb_4bit_quant_type",
        strcmp(kind->format->name, "nf4") == 0 ? "nf4" : "fp4", "bnb_4bit_use_double_quant",
        kind->double_quant, "bnb_4bit_compute_dtype", compute_dtype(opts->model_dtype),
        "bnb_4bit_quant_storage", "uint8", "llm_int8_threshold",
        eight ? (double)opts->threshold : 6.0, "llm_int8_skip_modules", skipped(linears, count),
        "llm_int8_enable_fp32_cpu_offload", 0, "llm_int8_has_fp16_weight", 0);
    if (!o) return pith_fail_nomem(err, "the config of bitsandbytes");
    *out = o;
    return PITH_OK;
}
