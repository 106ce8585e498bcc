/* ModelOpt's config: hf_quant_config.json, and the same in config.json's quantization_config,
 * which looks like that of compressed-tensors and is not. */
#include "io/container/modelopt.h"

#include "base/mem.h"
#include "io/json_members.h"

#include <stdio.h>
#include <string.h>

/* --- reading ---------------------------------------------------------------------------------- */

/* The first of the two objects that has the key. */
static const json_t *either(const json_t *a, const json_t *b, const char *key)
{
    const json_t *v = json_object_get(a, key);
    return v && !json_is_null(v) ? v : json_object_get(b, key);
}

static enum pith_status read_algo(const char *name, const char *where,
                                  const struct pith_modelopt_algo **out, struct pith_error *err)
{
    *out = pith_modelopt_find(name);
    if (*out) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED, "%s: quant_algo \"%.60s\" is not read by this version",
                     where, name);
}

/* FP8, by name or as an object; NVFP4, by name. */
static enum pith_status read_kv(const json_t *v, const char *where, struct pith_grid *out,
                                struct pith_error *err)
{
    *out = (struct pith_grid){0};
    if (!v || json_is_null(v)) return PITH_OK;
    const char *name = pith_json_plain(v), *type = pith_json_plain(json_object_get(v, "type"));
    const bool object = type && strcmp(type, "float") == 0 &&
                        json_integer_value(json_object_get(v, "num_bits")) == 8;
    if (object || (name && strcmp(name, "FP8") == 0))
        return pith_grid_parse("fp8_e4m3:tensor:static", out, err);
    if (name && strcmp(name, "NVFP4") == 0) return pith_grid_parse("nvfp4:static", out, err);
    return pith_fail(err, PITH_UNSUPPORTED, "%s: keys and values in \"%.40s\" are not read", where,
                     name ? name : "another form");
}

/* The group of integers: next to quant_algo, or among the weights of the first config group. */
static enum pith_status read_group(const json_t *o, const json_t *first, const char *where,
                                   uint32_t *out, struct pith_error *err)
{
    int64_t group = 128;
    PITH_TRY(pith_json_get_int(json_object_get(first, "weights"), "group_size", 0, 1 << 20, &group,
                               where, err));
    PITH_TRY(pith_json_get_int(o, "group_size", 0, 1 << 20, &group, where, err));
    *out = group ? (uint32_t)group : 128;
    return PITH_OK;
}

static enum pith_status refuse_zeros(const json_t *o, const char *where, struct pith_error *err)
{
    bool zeros = false;
    PITH_TRY(pith_json_get_bool(o, "has_zero_point", &zeros, where, err));
    if (!zeros) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED, "%s: has_zero_point", where);
}

enum pith_status pith_modelopt_config_read(const struct pith_checkpoint *c,
                                           struct pith_modelopt_config *out, struct pith_error *err)
{
    const json_t *o = c->quantization, *inner = json_object_get(o, "quantization");
    *out = (struct pith_modelopt_config){0};
    if (!json_is_object(inner)) inner = NULL;
    const char *algo = pith_json_plain(either(inner, o, "quant_algo"));
    if (!algo)
        return pith_fail(err, PITH_FORMAT, "%s: quantization_config has no quant_algo", c->dir);
    PITH_TRY(refuse_zeros(inner ? inner : o, c->dir, err));
    out->excluded = either(inner, o, "exclude_modules");
    if (!out->excluded || json_is_null(out->excluded)) out->excluded = json_object_get(o, "ignore");
    if (out->excluded && !json_is_null(out->excluded) && !json_is_array(out->excluded))
        return pith_fail(err, PITH_FORMAT, "%s: exclude_modules is not a list", c->dir);
    const json_t *kv = either(inner, o, "kv_cache_quant_algo");
    if (!kv || json_is_null(kv)) kv = json_object_get(o, "kv_cache_scheme");
    PITH_TRY(read_kv(kv, c->dir, &out->kv, err));
    if (strcmp(algo, "MIXED_PRECISION") == 0) {
        out->layers = either(inner, o, "quantized_layers");
        if (json_object_size(out->layers)) return PITH_OK;
        return pith_fail(err, PITH_FORMAT, "%s: MIXED_PRECISION without quantized_layers", c->dir);
    }
    const json_t *groups = json_object_get(o, "config_groups");
    const json_t *first = json_object_get(groups, "group_0");
    PITH_TRY(read_group(inner ? inner : o, first, c->dir, &out->group, err));
    return read_algo(algo, c->dir, &out->algo, err);
}

/* Python's fnmatch without its sets. A star that fails is lengthened, the last one only: linear
 * but for the product of the lengths. */
static bool matches(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = ++pattern;
            from = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star;
            name = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

static enum pith_status is_excluded(const json_t *list, const char *module, bool *yes,
                                    struct pith_error *err)
{
    *yes = false;
    for (size_t i = 0; i < json_array_size(list) && !*yes; i++) {
        const char *pattern = pith_json_plain(json_array_get(list, i));
        if (!pattern || strpbrk(pattern, "[]"))
            return pith_fail(err, PITH_UNSUPPORTED, "exclude_modules has %s \"%.60s\"",
                             pattern ? "a set" : "no string:", pattern ? pattern : "");
        *yes = matches(pattern, module);
    }
    return PITH_OK;
}

enum pith_status pith_modelopt_config_module(const struct pith_modelopt_config *config,
                                             const char *module,
                                             const struct pith_modelopt_algo **algo,
                                             uint32_t *group, struct pith_error *err)
{
    bool excluded;
    *algo = NULL;
    *group = config->group;
    PITH_TRY(is_excluded(config->excluded, module, &excluded, err));
    if (excluded) return PITH_OK;
    *algo = config->algo;
    if (!config->layers) return PITH_OK;
    const json_t *layer = json_object_get(config->layers, module);
    if (!layer) return PITH_OK;
    const char *name = pith_json_plain(json_object_get(layer, "quant_algo"));
    if (!name) return pith_fail(err, PITH_FORMAT, "\"%.100s\" has no quant_algo", module);
    PITH_TRY(refuse_zeros(layer, module, err));
    PITH_TRY(read_group(layer, NULL, module, group, err));
    return read_algo(name, module, algo, err);
}

/* --- writing ---------------------------------------------------------------------------------- */

/* The version whose layout this is. The producer's name shows readers which layout, not who wrote
 * it: vLLM and TensorRT-LLM look for "modelopt". */
#define PRODUCER "modelopt"
#define VERSION "0.40.0"

static bool put(json_t *o, const char *key, json_t *v)
{
    return json_object_set_new(o, key, v) == 0;
}

/* {"dynamic", "num_bits", "type"} and what else the grid needs. */
static json_t *args_of(const struct pith_grid *g)
{
    const bool is_int = g->format->kind == PITH_KIND_INT;
    json_t *o = json_pack("{s:b, s:i, s:s}", "dynamic", 0, "num_bits", (int)g->format->bits, "type",
                          is_int ? "int" : "float");
    bool ok = o != NULL;
    if (g->granularity == PITH_PER_GROUP)
        ok = ok && put(o, "group_size", json_integer((json_int_t)g->group));
    if (g->granularity == PITH_PER_CHANNEL) ok = ok && put(o, "strategy", json_string("channel"));
    if (ok) return o;
    json_decref(o);
    return NULL;
}

/* Takes targets. */
static bool add_group(json_t *groups, const struct pith_grid *grid, const struct pith_grid *inputs,
                      json_t *targets)
{
    char name[32];
    (void)snprintf(name, sizeof name, "group_%zu", json_object_size(groups));
    json_t *weights = args_of(grid), *acts = inputs->format ? args_of(inputs) : NULL, *group = NULL;
    if (weights && targets) group = json_pack("{s:O, s:O}", "targets", targets, "weights", weights);
    bool ok = group != NULL && (acts || !inputs->format);
    if (ok && acts) ok = json_object_set(group, "input_activations", acts) == 0;
    ok = ok && json_object_set(groups, name, group) == 0;
    json_decref(group);
    json_decref(acts);
    json_decref(weights);
    json_decref(targets);
    return ok;
}

/* {"quant_algo", "group_size", ...}, as in quantized_layers. */
static json_t *layer_of(const struct pith_modelopt_algo *a, const struct pith_grid *g)
{
    json_t *o = json_pack("{s:s}", "quant_algo", a->name);
    bool ok = o != NULL;
    if (g->granularity == PITH_PER_GROUP)
        ok = ok && put(o, "group_size", json_integer((json_int_t)g->group));
    if (a->awq)
        ok = ok && put(o, "has_zero_point", json_false()) &&
             put(o, "pre_quant_scale", json_false());
    if (ok) return o;
    json_decref(o);
    return NULL;
}

/* Modules with the grid of linear i. */
static json_t *targets_of(const struct pith_linear_grid *linears, size_t count, size_t i)
{
    json_t *list = json_array();
    bool ok = list != NULL;
    for (size_t k = i; k < count && ok; k++)
        if (pith_grid_equal(&linears[k].grid, &linears[i].grid))
            ok = json_array_append_new(list, json_string(linears[k].module)) == 0;
    if (ok) return list;
    json_decref(list);
    return NULL;
}

/* A group a grid, and what each module has. */
static bool add_mixed(json_t *o, const struct pith_linear_grid *linears, size_t count,
                      const struct pith_grid *inputs)
{
    json_t *groups = json_object(), *layers = json_object();
    size_t grids = 0, *first = pith_distinct_grids(linears, count, &grids);
    bool ok = groups && layers && first;
    for (size_t i = 0; i < grids && ok; i++)
        ok = add_group(groups, &linears[first[i]].grid, inputs,
                       targets_of(linears, count, first[i]));
    for (size_t i = 0; i < count && ok; i++) {
        const struct pith_grid *g = &linears[i].grid;
        if (g->format)
            ok = put(layers, linears[i].module, layer_of(pith_modelopt_for(g, inputs), g));
    }
    pith_free(first);
    ok = ok && json_object_set(o, "config_groups", groups) == 0 &&
         json_object_set(o, "quantized_layers", layers) == 0;
    json_decref(layers);
    json_decref(groups);
    return ok;
}

static bool add_one(json_t *o, const struct pith_grid *g, const struct pith_grid *inputs)
{
    json_t *groups = json_object(), *layer = layer_of(pith_modelopt_for(g, inputs), g);
    const bool ok = groups && layer && add_group(groups, g, inputs, json_pack("[s]", "Linear")) &&
                    json_object_set(o, "config_groups", groups) == 0 &&
                    json_object_update(o, layer) == 0;
    json_decref(layer);
    json_decref(groups);
    return ok;
}

static json_t *make(const struct pith_linear_grid *linears, size_t count,
                    const struct pith_linear_grid *first, bool mixed,
                    const struct pith_container_opts *opts)
{
    json_t *o = json_pack("{s:s, s:s, s:{s:s, s:s}}", "quant_method", "modelopt", "quant_algo",
                          "MIXED_PRECISION", "producer", "name", PRODUCER, "version", VERSION);
    bool ok = o && put(o, "ignore", pith_ignored_modules(linears, count));
    if (opts->kv.format && opts->kv.format->kind == PITH_KIND_BLOCK)
        ok = ok && put(o, "kv_cache_scheme", json_string("NVFP4"));
    else if (opts->kv.format)
        ok = ok && put(o, "kv_cache_scheme",
                       json_pack("{s:b, s:i, s:s}", "dynamic", 0, "num_bits", 8, "type", "float"));
    if (ok && mixed) ok = add_mixed(o, linears, count, &opts->acts);
    else if (ok) ok = add_one(o, &first->grid, &opts->acts);
    if (ok) return o;
    json_decref(o);
    return NULL;
}

static enum pith_status check_kv(const struct pith_grid *kv, struct pith_error *err)
{
    struct pith_grid fp8, fp4;
    char text[PITH_GRID_TEXT];
    PITH_TRY(pith_grid_parse("fp8_e4m3:tensor:static", &fp8, err));
    PITH_TRY(pith_grid_parse("nvfp4:static", &fp4, err));
    if (!kv->format || pith_grid_equal(kv, &fp8) || pith_grid_equal(kv, &fp4)) return PITH_OK;
    pith_grid_format(kv, text);
    return pith_fail(
        err, PITH_UNSUPPORTED,
        "modelopt keeps keys and values on fp8_e4m3:tensor:static or nvfp4:static here, "
        "not %s",
        text);
}

enum pith_status pith_modelopt_config_make(const struct pith_linear_grid *linears, size_t count,
                                           const struct pith_container_opts *opts, json_t **out,
                                           struct pith_error *err)
{
    const struct pith_linear_grid *first = NULL;
    bool mixed = false;
    PITH_TRY(check_kv(&opts->kv, err));
    for (size_t i = 0; i < count; i++) {
        char text[PITH_GRID_TEXT];
        const struct pith_linear_grid *l = &linears[i];
        if (!l->grid.format) continue;
        pith_grid_format(&l->grid, text);
        if (!pith_modelopt_for(&l->grid, &opts->acts))
            return pith_fail(err, PITH_UNSUPPORTED, "modelopt has no algorithm for %s", text);
        if (!first) first = l;
        else mixed |= !pith_grid_equal(&first->grid, &l->grid);
    }
    if (!first) return pith_fail(err, PITH_ARG, "modelopt: no linear is quantized");
    *out = make(linears, count, first, mixed, opts);
    return *out ? PITH_OK : pith_fail_nomem(err, "the config of modelopt");
}

/* --- hf_quant_config.json --------------------------------------------------------------------- */

enum pith_status pith_modelopt_extra_file(const json_t *config, const char **name, json_t **out,
                                          struct pith_error *err)
{
    static const char *const same[] = {"quant_algo", "group_size", "has_zero_point",
                                       "pre_quant_scale", "quantized_layers"};
    const json_t *producer = json_object_get(config, "producer"),
                 *ignore = json_object_get(config, "ignore"),
                 *kv = json_object_get(config, "kv_cache_scheme");
    *name = "hf_quant_config.json";
    json_t *inner = json_object();
    bool ok = inner != NULL;
    for (size_t i = 0; i < PITH_COUNT(same) && ok; i++) {
        json_t *v = json_object_get(config, same[i]);
        if (v) ok = json_object_set(inner, same[i], v) == 0;
    }
    ok = ok && put(inner, "kv_cache_quant_algo",
                   kv ? json_string(json_is_string(kv) ? "NVFP4" : "FP8") : json_null());
    ok = ok && put(inner, "exclude_modules", json_copy((json_t *)(uintptr_t)ignore));
    *out = ok ? json_pack("{s:O, s:O}", "producer", producer, "quantization", inner) : NULL;
    json_decref(inner);
    return *out ? PITH_OK : pith_fail_nomem(err, *name);
}
