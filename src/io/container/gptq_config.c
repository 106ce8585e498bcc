#include "io/container/gptq_config.h"

#include "base/mem.h"
#include "base/str.h"
#include "io/json_members.h"
#include "io/parts.h"

#include <inttypes.h>
#include <string.h>

/* --- reading ---------------------------------------------------------------------------------- */

/* An integer under one of two names (older tools used the second). */
static enum pith_status get_int(const json_t *o, const char *name, const char *older, int64_t lo,
                                int64_t hi, int64_t *value, const char *where,
                                struct pith_error *err)
{
    PITH_TRY(pith_json_get_int(o, older, lo, hi, value, where, err));
    return pith_json_get_int(o, name, lo, hi, value, where, err);
}

/* Fields that are present replace those of *s. */
static enum pith_status read_scheme(const json_t *o, const char *where, struct pith_gptq_scheme *s,
                                    struct pith_error *err)
{
    int64_t bits = s->bits, group = s->group ? (int64_t)s->group : -1;
    PITH_TRY(get_int(o, "bits", "w_bit", 1, 32, &bits, where, err));
    PITH_TRY(get_int(o, "group_size", "q_group_size", -1, INT32_MAX, &group, where, err));
    PITH_TRY(pith_json_get_bool(o, "sym", &s->sym, where, err));
    PITH_TRY(pith_json_get_bool(o, "desc_act", &s->desc_act, where, err));
    if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: gptq with %" PRId64 " bits; this version reads 2, 3, 4 and 8", where,
                         bits);
    if (group == 0)
        return pith_fail(err, PITH_FORMAT, "%s: group_size must be positive or -1, not 0", where);
    s->bits = (unsigned)bits;
    s->group = group < 0 ? 0 : (uint32_t)group;
    return PITH_OK;
}

static enum pith_status read_override(const char *key, const json_t *value, const char *where,
                                      const struct pith_gptq_scheme *base,
                                      struct pith_gptq_override *out, struct pith_error *err)
{
    out->excluded = strncmp(key, "-:", 2) == 0;
    if (out->excluded || strncmp(key, "+:", 2) == 0) key += 2;
    out->scheme = *base;
    if (!out->excluded) {
        if (!json_is_object(value))
            return pith_fail(err, PITH_FORMAT, "%s: dynamic \"%.100s\" is not an object", where,
                             key);
        PITH_TRY(read_scheme(value, where, &out->scheme, err));
    }
    return pith_pattern_regex(key, where, &out->pattern, err);
}

static enum pith_status read_dynamic(const json_t *o, struct pith_gptq_config *config,
                                     struct pith_error *err)
{
    const json_t *dynamic = json_object_get(o, "dynamic");
    if (!dynamic || json_is_null(dynamic)) return PITH_OK;
    if (json_is_false(dynamic)) return PITH_OK;
    if (!json_is_object(dynamic))
        return pith_fail(err, PITH_FORMAT, "%s: dynamic is not an object", config->where);
    const size_t n = json_object_size(dynamic);
    config->override = pith_zalloc(n, sizeof *config->override);
    if (!config->override) return pith_fail_nomem(err, config->where);
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)dynamic, key, value) {
        PITH_TRY(read_override(key, value, config->where, &config->base,
                               &config->override[config->count], err));
        config->count++;
    }
    return PITH_OK;
}

/* A key whose other values change the layout. */
static enum pith_status expect(const json_t *o, const char *key, const char *only,
                               const char *where, struct pith_error *err)
{
    const char *value = only;
    PITH_TRY(pith_json_get_str(o, key, &value, where, err));
    if (strcmp(value, only) == 0) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED, "%s: %s is \"%.60s\"; this version reads \"%s\"", where,
                     key, value, only);
}

static enum pith_status read_object(const json_t *o, struct pith_gptq_config *config,
                                    struct pith_error *err)
{
    const char *format = "gptq";
    PITH_TRY(pith_json_get_str(o, "format", &format, config->where, err));
    PITH_TRY(pith_json_get_str(o, "checkpoint_format", &format, config->where, err));
    config->v2 = strcmp(format, "gptq_v2") == 0;
    if (!config->v2 && strcmp(format, "gptq") != 0)
        return pith_fail(
            err, PITH_UNSUPPORTED,
            "%s: checkpoint_format \"%.60s\"; this version reads \"gptq\" and \"gptq_v2\"",
            config->where, format);
    PITH_TRY(expect(o, "pack_dtype", "int32", config->where, err));
    static const char *const needed[] = {"bits", "group_size"};
    static const char *const older[] = {"w_bit", "q_group_size"};
    for (size_t i = 0; i < PITH_COUNT(needed); i++)
        if (!json_object_get(o, needed[i]) && !json_object_get(o, older[i]))
            return pith_fail(err, PITH_FORMAT, "%s: has no %s", config->where, needed[i]);
    config->base.sym = true;
    PITH_TRY(read_scheme(o, config->where, &config->base, err));
    return read_dynamic(o, config, err);
}

enum pith_status pith_gptq_config_read(const struct pith_checkpoint *c,
                                       struct pith_gptq_config *out, struct pith_error *err)
{
    *out = (struct pith_gptq_config){0};
    struct pith_str where = {0};
    pith_str_printf(&where, "%s: quantization_config", c->dir);
    out->where = pith_str_take(&where);
    if (!out->where) return pith_fail_nomem(err, c->dir);
    const enum pith_status s = read_object(c->quantization, out, err);
    if (s != PITH_OK) pith_gptq_config_free(out);
    return s;
}

void pith_gptq_config_free(struct pith_gptq_config *config)
{
    for (size_t i = 0; i < config->count; i++) pith_pattern_free(&config->override[i].pattern);
    pith_free(config->override);
    pith_free(config->where);
    *config = (struct pith_gptq_config){0};
}

enum pith_status pith_gptq_config_scheme(const struct pith_gptq_config *config, const char *module,
                                         struct pith_gptq_scheme *out, bool *excluded,
                                         struct pith_error *err)
{
    *out = config->base;
    *excluded = false;
    for (size_t i = 0; i < config->count; i++) {
        enum pith_match_rank rank;
        PITH_TRY(pith_pattern_match(&config->override[i].pattern, module, &rank, err));
        if (rank == PITH_MATCH_NONE) continue;
        *out = config->override[i].scheme;
        *excluded = config->override[i].excluded;
        break;
    }
    return PITH_OK;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* The fields that a config has for a grid. */
struct fields {
    unsigned bits;
    int64_t group;
    bool sym;
};

static struct fields fields_of(const struct pith_grid *g)
{
    return (struct fields){
        .bits = g->format->bits,
        .group = g->granularity == PITH_PER_GROUP ? (int64_t)g->group : -1,
        .sym = !g->asym,
    };
}

static bool same(struct fields a, struct fields b)
{
    return a.bits == b.bits && a.group == b.group && a.sym == b.sym;
}

/* The commonest grid stands in the object itself, the first of them; bits 0: there is none. */
static enum pith_status base_of(const struct pith_linear_grid *linears, size_t count,
                                struct fields *base, struct pith_error *err)
{
    size_t most = 0, grids, *first = pith_distinct_grids(linears, count, &grids);
    if (!first) return pith_fail_nomem(err, "the config of gptq");
    for (size_t i = 0; i < grids; i++) {
        const struct fields f = fields_of(&linears[first[i]].grid);
        size_t n = 0;
        for (size_t j = 0; j < count; j++)
            n += linears[j].grid.format && same(fields_of(&linears[j].grid), f);
        if (n <= most) continue;
        most = n;
        *base = f;
    }
    pith_free(first);
    return PITH_OK;
}

/* What vLLM and SGLang call the linear that they make of a module and its neighbours: they look for
 * that name, and only that (vLLM utils/gptq_utils.py, get_dynamic_override). NULL: the module's
 * own. */
static const char *fused_name(const char *last)
{
    static const char *const names[][2] = {{"q_proj", "qkv_proj"},
                                           {"k_proj", "qkv_proj"},
                                           {"v_proj", "qkv_proj"},
                                           {"gate_proj", "gate_up_proj"},
                                           {"up_proj", "gate_up_proj"}};
    for (size_t i = 0; i < PITH_COUNT(names); i++)
        if (strcmp(last, names[i][0]) == 0) return names[i][1];
    return NULL;
}

/* "+:^model\.layers\.0\.mlp\.(?:up_proj|gate_up_proj)$" */
static json_t *entry_key(char sign, const char *module, struct pith_str *s)
{
    const char *dot = strrchr(module, '.'), *last = dot ? dot + 1 : module;
    const char *fused = fused_name(last);
    pith_str_clear(s);
    pith_str_printf(s, "%c:^", sign);
    for (const char *p = module; p < last; p++) {
        if (*p == '.') pith_str_putc(s, '\\');
        pith_str_putc(s, *p);
    }
    if (fused) pith_str_printf(s, "(?:%s|%s)$", last, fused);
    else pith_str_printf(s, "%s$", last);
    return s->failed ? NULL : json_string(s->data);
}

/* Adds what differs from the base; true when the object stays valid. */
static bool add_override(json_t *dynamic, const struct pith_linear_grid *l, struct fields base,
                         struct pith_str *s)
{
    const struct pith_grid *g = &l->grid;
    if (g->format && same(fields_of(g), base)) return true;
    /* No reader quantizes the head unless the config says so. */
    if (!g->format && pith_module_is_head(l->module)) return true;
    json_t *key = entry_key(g->format ? '+' : '-', l->module, s);
    json_t *value = NULL;
    if (g->format) {
        const struct fields f = fields_of(g);
        value = json_pack("{s:i, s:I, s:b}", "bits", (int)f.bits, "group_size", (json_int_t)f.group,
                          "sym", f.sym);
    } else {
        value = json_object();
    }
    const bool ok = key && value && json_object_set(dynamic, json_string_value(key), value) == 0;
    json_decref(key);
    json_decref(value);
    return ok;
}

static json_t *make_dynamic(const struct pith_linear_grid *linears, size_t count,
                            struct fields base)
{
    json_t *dynamic = json_object();
    struct pith_str s = {0};
    bool ok = dynamic != NULL;
    for (size_t i = 0; i < count && ok; i++) ok = add_override(dynamic, &linears[i], base, &s);
    pith_str_free(&s);
    if (ok) return dynamic;
    json_decref(dynamic);
    return NULL;
}

enum pith_status pith_gptq_config_make(const struct pith_linear_grid *linears, size_t count,
                                       const struct pith_container_opts *opts, json_t **out,
                                       struct pith_error *err)
{
    struct fields base = {0};
    if (opts->acts.format)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "gptq cannot express quantized activations; use compressed-tensors");
    PITH_TRY(base_of(linears, count, &base, err));
    if (!base.bits) return pith_fail(err, PITH_ARG, "gptq: no linear is quantized");
    bool head = false;
    for (size_t i = 0; i < count; i++)
        head |= linears[i].grid.format && pith_module_is_head(linears[i].module);
    json_t *dynamic = make_dynamic(linears, count, base);
    json_t *o = NULL;
    if (dynamic)
        o = json_pack("{s:s, s:i, s:I, s:b, s:b, s:b, s:s, s:s, s:b, s:b, s:{s:[s]}}",
                      "quant_method", "gptq", "bits", (int)base.bits, "group_size",
                      (json_int_t)base.group, "desc_act", opts->act_order_groups, "sym", base.sym,
                      "lm_head", head, "checkpoint_format", opts->gptq_v2 ? "gptq_v2" : "gptq",
                      "pack_dtype", "int32", "static_groups", false, "true_sequential", true,
                      "meta", "quantizer", "pith:" PITH_VERSION);
    if (o && json_object_size(dynamic) && json_object_set(o, "dynamic", dynamic) != 0) {
        json_decref(o);
        o = NULL;
    }
    json_decref(dynamic);
    if (!o) return pith_fail_nomem(err, "the config of gptq");
    *out = o;
    return PITH_OK;
}

enum pith_status pith_gptq_extra_file(const json_t *config, const char **name, json_t **out,
                                      struct pith_error *err)
{
    *name = "quantize_config.json"; /* where AutoGPTQ and its descendants look first */
    *out = json_copy((json_t *)(uintptr_t)config);
    return *out ? PITH_OK : pith_fail_nomem(err, *name);
}
