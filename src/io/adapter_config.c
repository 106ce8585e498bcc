/* What adapter_config.json says. Nothing that may change numbers is passed over. */
#include "io/adapter.h"

#include "base/mem.h"
#include "base/names.h"
#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define CONFIG_LIMIT ((size_t)8 << 20)
enum { MOST_RANK = 1 << 20, MOST_PATTERNS = 4096 };

/* Keys that do not change what is merged, or are looked at elsewhere. */
static const char *const known[] = {
    "alpha_pattern",
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_alpha",
    "lora_bias",
    "lora_dropout",
    "lora_ga_config",
    "megatron_config",
    "megatron_core",
    "modules_to_save",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "revision",
    "runtime_config",
    "target_modules",
    "task_type",
    "use_dora",
    "use_rslora",
};
/* Values of "init_lora_weights" that leave the model's own weights as they are. */
static const char *const plain_starts[] = {"gaussian", "eva", "orthogonal"};

static bool among(const char *name, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], name) == 0) return true;
    return false;
}

/* Null, false, zero, or empty: a key that is not set. */
static bool unset(const json_t *v)
{
    if (json_is_null(v) || json_is_false(v)) return true;
    if (json_is_number(v)) return json_number_value(v) == 0;
    if (json_is_string(v)) return json_string_length(v) == 0;
    if (json_is_array(v)) return json_array_size(v) == 0;
    return json_is_object(v) && json_object_size(v) == 0;
}

static enum pith_status check_keys(const json_t *json, const char *path, struct pith_error *err)
{
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)(uintptr_t)json, key, v) {
        if (among(key, known, PITH_COUNT(known)) || unset(v)) continue;
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: \"%.60s\" is set, and what it does to the weights is not known here;"
                         " merge the adapter with PEFT (merge_and_unload) first",
                         path, key);
    }
    return PITH_OK;
}

static enum pith_status check_start(const json_t *json, const char *path, struct pith_error *err)
{
    const json_t *v = json_object_get(json, "init_lora_weights");
    if (!json_is_string(v)) return PITH_OK;
    if (among(json_string_value(v), plain_starts, PITH_COUNT(plain_starts))) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: \"init_lora_weights\" is \"%.40s\": such an adapter belongs to weights"
                     " that it changed when training began; save it as plain LoRA with PEFT"
                     " (path_initial_model_for_weight_conversion), or merge it there",
                     path, json_string_value(v));
}

/* PEFT matches a pattern that begins with ^ as it is, and others at a module's last names. */
static enum pith_status add_pattern(struct pith_adapter_number *n, const char *key, double value,
                                    const char *path, struct pith_error *err)
{
    struct pith_str s = {0};
    if (key[0] == '^') pith_str_puts(&s, key);
    else pith_str_printf(&s, "(?:.*\\.)?(?:%s)$", key);
    struct pith_adapter_pattern *p = &n->item[n->count];
    p->value = value;
    p->text = pith_str_take(&s);
    if (!p->text) return pith_fail_nomem(err, path);
    n->count++;
    return pith_pattern_regex(p->text, path, &p->regex, err);
}

static enum pith_status read_patterns(const json_t *json, const char *name, const char *path,
                                      struct pith_adapter_number *n, struct pith_error *err)
{
    const json_t *map = json_object_get(json, name);
    if (!map || json_is_null(map)) return PITH_OK;
    if (!json_is_object(map) || json_object_size(map) > MOST_PATTERNS)
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is not an object of at most %d patterns",
                         path, name, (int)MOST_PATTERNS);
    n->item = pith_zalloc(json_object_size(map) + 1, sizeof *n->item);
    if (!n->item) return pith_fail_nomem(err, path);
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)(uintptr_t)map, key, v) {
        if (!json_is_number(v) || !(json_number_value(v) > 0) ||
            !(json_number_value(v) <= MOST_RANK))
            return pith_fail(err, PITH_FORMAT, "%s: \"%s\" of \"%.60s\" is not a number above 0",
                             path, name, key);
        PITH_TRY(add_pattern(n, key, json_number_value(v), path, err));
    }
    return PITH_OK;
}

static enum pith_status read_all(struct pith_adapter_config *c, const char *path,
                                 struct pith_error *err)
{
    const json_t *j = c->json;
    int64_t r = 0;
    const char *type = "";
    PITH_TRY(pith_json_get_str(j, "peft_type", &type, path, err));
    if (strcmp(type, "LORA") != 0)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: \"peft_type\" is \"%.40s\"; LORA is read",
                         path, type);
    PITH_TRY(check_keys(j, path, err));
    PITH_TRY(check_start(j, path, err));
    PITH_TRY(pith_json_get_int(j, "r", 1, MOST_RANK, &r, path, err));
    if (!r) return pith_fail(err, PITH_FORMAT, "%s: \"r\" is missing", path);
    c->rank.general = (double)r;
    c->alpha.general = 8; /* PEFT's default */
    PITH_TRY(pith_json_get_real(j, "lora_alpha", &c->alpha.general, path, err));
    PITH_TRY(pith_json_get_bool(j, "use_rslora", &c->stabilized, path, err));
    PITH_TRY(pith_json_get_bool(j, "fan_in_fan_out", &c->exchanged, path, err));
    PITH_TRY(pith_json_get_bool(j, "use_dora", &c->magnitudes, path, err));
    c->layers_chosen = !unset(json_object_get(j, "layers_to_transform")) ||
                       !unset(json_object_get(j, "exclude_modules"));
    PITH_TRY(read_patterns(j, "rank_pattern", path, &c->rank, err));
    return read_patterns(j, "alpha_pattern", path, &c->alpha, err);
}

enum pith_status pith_adapter_config_read(const char *dir, struct pith_adapter_config *out,
                                          struct pith_error *err)
{
    *out = (struct pith_adapter_config){0};
    char *path = pith_path_join(dir, "adapter_config.json");
    if (!path) return pith_fail_nomem(err, dir);
    enum pith_status s = PITH_OK;
    if (!pith_path_exists(path))
        s = pith_fail(err, PITH_IO, "%s: no adapter_config.json there: not a folder of PEFT's",
                      dir);
    if (s == PITH_OK) s = pith_json_load(path, CONFIG_LIMIT, &out->json, err);
    if (s == PITH_OK && !json_is_object(out->json))
        s = pith_fail(err, PITH_FORMAT, "%s: not a JSON object", path);
    if (s == PITH_OK) s = read_all(out, path, err);
    pith_free(path);
    if (s != PITH_OK) pith_adapter_config_free(out);
    return s;
}

static void free_number(struct pith_adapter_number *n)
{
    for (size_t i = 0; i < n->count; i++) {
        pith_pattern_free(&n->item[i].regex);
        pith_free(n->item[i].text);
    }
    pith_free(n->item);
}

void pith_adapter_config_free(struct pith_adapter_config *c)
{
    free_number(&c->rank);
    free_number(&c->alpha);
    json_decref(c->json);
    *c = (struct pith_adapter_config){0};
}

static enum pith_status number_of(const struct pith_adapter_number *n, const char *module,
                                  double *value, struct pith_error *err)
{
    *value = n->general;
    for (size_t i = 0; i < n->count; i++) {
        enum pith_match_rank rank;
        PITH_TRY(pith_pattern_match(&n->item[i].regex, module, &rank, err));
        if (rank == PITH_MATCH_NONE) continue;
        *value = n->item[i].value;
        break;
    }
    return PITH_OK;
}

enum pith_status pith_adapter_scale(const struct pith_adapter_config *c, const char *module,
                                    uint64_t r, double *scale, struct pith_error *err)
{
    double rank, alpha;
    PITH_TRY(number_of(&c->rank, module, &rank, err));
    PITH_TRY(number_of(&c->alpha, module, &alpha, err));
    if (rank != (double)r)
        return pith_fail(err, PITH_FORMAT,
                         "\"%.100s\" has rank %" PRIu64 ", and adapter_config.json says %g", module,
                         r, rank);
    *scale = c->stabilized ? alpha / sqrt(rank) : alpha / rank;
    return PITH_OK;
}
