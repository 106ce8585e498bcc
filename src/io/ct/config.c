#include "io/ct/config.h"

#include "base/mem.h"
#include "base/str.h"
#include "io/ct/form.h"
#include "io/json_members.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_GROUPS 4096

static enum pith_status unsupported(const char *where, const char *key, const char *value,
                                    struct pith_error *err)
{
    return pith_fail(err, PITH_UNSUPPORTED, "%s: %s \"%.60s\" is not read by this version", where,
                     key, value);
}

/* --- one group -------------------------------------------------------------------------------- */

static enum pith_status read_form(const char *format, const char *where, struct pith_ct_scheme *s,
                                  struct pith_error *err)
{
    char text[PITH_GRID_TEXT];
    s->form = pith_ct_form_find(format);
    if (!s->form) return unsupported(where, "format", format, err);
    pith_grid_format(&s->weights, text);
    if (!s->form->holds(&s->weights))
        return pith_fail(err, PITH_UNSUPPORTED, "%s: %s weights of type %s in format \"%s\"", where,
                         text, s->weights.format->kind == PITH_KIND_INT ? "int" : "float", format);
    if (s->g_idx && s->form != pith_ct_form_find("pack-quantized"))
        return pith_fail(err, PITH_UNSUPPORTED, "%s: actorder \"group\" with format \"%s\"", where,
                         format);
    return PITH_OK;
}

static enum pith_status read_group(const json_t *o, const char *format, const char *where,
                                   struct pith_ct_scheme *s, struct pith_error *err)
{
    static const char *const known[] = {"targets", "weights", "input_activations",
                                        "output_activations", "format"};
    if (!json_is_object(o)) return pith_fail(err, PITH_FORMAT, "%s: not an object", where);
    PITH_TRY(pith_ct_check_keys(o, known, PITH_COUNT(known), where, err));
    const json_t *outputs = json_object_get(o, "output_activations");
    if (outputs && !json_is_null(outputs))
        return pith_fail(err, PITH_UNSUPPORTED, "%s: output_activations are not read", where);
    PITH_TRY(
        pith_ct_args_weights(json_object_get(o, "weights"), where, &s->weights, &s->g_idx, err));
    PITH_TRY(pith_ct_args_inputs(json_object_get(o, "input_activations"), where, &s->inputs, err));
    PITH_TRY(pith_json_get_str(o, "format", &format, where, err));
    PITH_TRY(read_form(format, where, s, err));
    return pith_patterns_new(json_object_get(o, "targets"), where, &s->targets, err);
}

/* --- the object ------------------------------------------------------------------------------- */

/* Things that change what the weights mean, which an empty object or null does not. */
static enum pith_status expect_empty(const json_t *o, const char *key, const char *where,
                                     struct pith_error *err)
{
    const json_t *v = json_object_get(o, key);
    if (!v || json_is_null(v) || (json_is_object(v) && json_object_size(v) == 0)) return PITH_OK;
    if (json_is_object(v) && strcmp(key, "sparsity_config") == 0) {
        const char *format = pith_json_plain(json_object_get(v, "format"));
        if (format && strcmp(format, "dense") == 0) return PITH_OK;
    }
    return pith_fail(err, PITH_UNSUPPORTED, "%s: a %s is not read by this version", where, key);
}

/* From version 0.18 on, codes lie densely across words. Unreadable texts mean nothing. */
static void read_version(const json_t *o, struct pith_ct_config *config)
{
    const char *version = pith_json_plain(json_object_get(o, "version"));
    unsigned major, minor;
    if (!version || sscanf(version, "%3u.%3u", &major, &minor) != 2) return;
    config->dense_known = true;
    config->dense = major > 0 || minor >= 18;
}

/* Attention, which holds no weights: what it says of keys and values stands in kv_cache_scheme. */
static bool is_attention(const json_t *group)
{
    const json_t *targets = json_object_get(group, "targets"),
                 *weights = json_object_get(group, "weights");
    const size_t n = json_array_size(targets);
    bool all = n && (!weights || json_is_null(weights));
    for (size_t i = 0; i < n && all; i++) {
        const char *text = pith_json_plain(json_array_get(targets, i));
        all = text && pith_ends_in(text, "Attention");
    }
    return all;
}

static enum pith_status read_groups(const json_t *o, const char *format,
                                    struct pith_ct_config *config, struct pith_error *err)
{
    const json_t *groups = json_object_get(o, "config_groups");
    const size_t n = json_object_size(groups);
    if (!json_is_object(groups) || n == 0 || n > MAX_GROUPS)
        return pith_fail(err, PITH_FORMAT, "%s: config_groups is no object of 1 to %d groups",
                         config->where, MAX_GROUPS);
    config->scheme = pith_zalloc(n, sizeof *config->scheme);
    if (!config->scheme) return pith_fail_nomem(err, config->where);
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)groups, key, value) {
        char where[160];
        if (is_attention(value)) continue;
        (void)snprintf(where, sizeof where, "config_groups \"%.60s\"", key);
        const enum pith_status s =
            read_group(value, format, where, &config->scheme[config->count], err);
        if (s != PITH_OK) return pith_fail_in(err, s, config->where);
        config->count++;
    }
    return PITH_OK;
}

static enum pith_status read_object(const json_t *o, struct pith_ct_config *config,
                                    struct pith_error *err)
{
    const char *format = "pack-quantized";
    PITH_TRY(pith_json_get_str(o, "format", &format, config->where, err));
    PITH_TRY(expect_empty(o, "sparsity_config", config->where, err));
    PITH_TRY(pith_ct_rotations_read(json_object_get(o, "transform_config"), config->where,
                                    &config->rotations, err));
    read_version(o, config);
    PITH_TRY(pith_ct_args_inputs(json_object_get(o, "kv_cache_scheme"), "kv_cache_scheme",
                                 &config->kv, err));
    PITH_TRY(read_groups(o, format, config, err));
    const enum pith_status s =
        pith_patterns_new(json_object_get(o, "ignore"), "ignore", &config->ignore, err);
    return s == PITH_OK ? s : pith_fail_in(err, s, config->where);
}

enum pith_status pith_ct_config_read(const struct pith_checkpoint *c, struct pith_ct_config *out,
                                     struct pith_error *err)
{
    *out = (struct pith_ct_config){0};
    struct pith_str where = {0};
    pith_str_printf(&where, "%s: quantization_config", c->dir);
    out->where = pith_str_take(&where);
    if (!out->where) return pith_fail_nomem(err, c->dir);
    const enum pith_status s = read_object(c->quantization, out, err);
    if (s != PITH_OK) pith_ct_config_free(out);
    return s;
}

void pith_ct_config_free(struct pith_ct_config *config)
{
    for (size_t i = 0; i < config->count; i++) pith_patterns_free(&config->scheme[i].targets);
    pith_free(config->scheme);
    pith_patterns_free(&config->ignore);
    pith_ct_rotations_free(&config->rotations);
    pith_free(config->where);
    *config = (struct pith_ct_config){0};
}

static bool same_scheme(const struct pith_ct_scheme *a, const struct pith_ct_scheme *b)
{
    return a->form == b->form && a->g_idx == b->g_idx &&
           pith_grid_equal(&a->weights, &b->weights) && pith_grid_equal(&a->inputs, &b->inputs);
}

enum pith_status pith_ct_config_scheme(const struct pith_ct_config *config, const char *module,
                                       bool stored, const struct pith_ct_scheme **out,
                                       bool *by_class, struct pith_error *err)
{
    enum pith_match_rank best = PITH_MATCH_NONE, rank;
    *out = NULL;
    *by_class = false;
    PITH_TRY(pith_patterns_match(&config->ignore, module, &rank, err));
    if (rank != PITH_MATCH_NONE && !stored) return PITH_OK;
    for (size_t i = 0; i < config->count; i++) {
        const struct pith_ct_scheme *s = &config->scheme[i];
        PITH_TRY(pith_patterns_match(&s->targets, module, &rank, err));
        if (rank == PITH_MATCH_NONE || rank < best) continue;
        if (rank == best && !same_scheme(s, *out))
            return pith_fail(err, PITH_FORMAT, "%s: two config groups claim \"%.100s\"",
                             config->where, module);
        if (rank > best) *out = s;
        best = rank;
    }
    *by_class = best == PITH_MATCH_CLASS;
    if (!*out && stored && config->count == 1) *out = &config->scheme[0];
    return PITH_OK;
}
