#include "io/quant_names.h"

#include "base/file.h"
#include "base/mem.h"

#include <string.h>

#define FILE_LIMIT ((size_t)8 << 20)
#define KEY "quantization_config"

/* --- where it stands -------------------------------------------------------------------------- */

/* In config.json under other names, with the method that it then is unless it has its own. */
static const struct {
    const char *inner, *key, *method;
} places[] = {
    {NULL, KEY, NULL},
    {NULL, "compression_config", "compressed-tensors"},
    {"text_config", KEY, NULL},
    {"text_config", "compression_config", "compressed-tensors"},
    {"llm_config", KEY, NULL},
};

/* Files that say it where config.json does not. */
static const struct {
    const char *name, *method;
} files[] = {
    {"hf_quant_config.json", "modelopt"},
    {"quantize_config.json", "gptq"},
    {"quant_config.json", "awq"},
    {"quantization_config.json", NULL},
};

static enum pith_status take(json_t *config, json_t *o, const char *method,
                             struct pith_error *err)
{
    const json_t *own = json_object_get(o, "quant_method");
    bool good = true;
    if (method && (!own || json_is_null(own)))
        good = json_object_set_new(o, "quant_method", json_string(method)) == 0;
    if (good && json_object_get(config, KEY) != o) good = json_object_set(config, KEY, o) == 0;
    return good ? PITH_OK : pith_fail_nomem(err, "a config");
}

static enum pith_status find_in_config(const char *dir, json_t *config, json_t **out,
                                       struct pith_error *err)
{
    for (size_t i = 0; i < PITH_COUNT(places) && !*out; i++) {
        const json_t *from =
            places[i].inner ? json_object_get(config, places[i].inner) : config;
        json_t *o = json_object_get(from, places[i].key);
        if (!o || json_is_null(o)) continue;
        if (!json_is_object(o))
            return pith_fail(err, PITH_FORMAT, "%s/config.json: \"%s\" is not an object", dir,
                             places[i].key);
        if (json_object_size(o) == 0 && i > 0) continue;
        PITH_TRY(take(config, o, places[i].method, err));
        *out = json_object_get(config, KEY);
    }
    return PITH_OK;
}

static enum pith_status find_in_files(const char *dir, json_t *config, json_t **out,
                                      struct pith_error *err)
{
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < PITH_COUNT(files) && !*out && s == PITH_OK; i++) {
        char *path = pith_path_join(dir, files[i].name);
        json_t *o = NULL;
        if (!path) return pith_fail_nomem(err, dir);
        if (pith_path_exists(path)) s = pith_json_load(path, FILE_LIMIT, &o, err);
        if (o && !json_is_object(o)) s = pith_fail(err, PITH_FORMAT, "%s: not a JSON object", path);
        if (o && s == PITH_OK) s = take(config, o, files[i].method, err);
        if (o && s == PITH_OK) *out = json_object_get(config, KEY);
        json_decref(o);
        pith_free(path);
    }
    return s;
}

/* --- what it is called ------------------------------------------------------------------------ */

/* Whether an object is of that kind, by a text in a member or by a member being there. */
struct sign {
    const char *key, *text; /* text NULL: the key is there; else the member's text has it in it */
};

/* A name that was published, with a sign that must hold or none, and the container's own. A name
 * of NULL: there is none, the sign alone tells. The first row that fits is taken. */
static const struct {
    const char *published;
    struct sign sign;
    const char *method;
} names[] = {
    {"auto-round", {"packing_format", "awq"}, "awq"},
    {"auto-round", {"packing_format", "gptq"}, "gptq"},
    {"auto-round", {"packing_format", "llm_compressor"}, "compressed-tensors"},
    {"auto-round", {"backend", "awq"}, "awq"},
    {"auto-round", {"backend", "gptq"}, "gptq"},
    {"auto-round", {"config_groups", NULL}, "compressed-tensors"},
    {"intel/auto-round", {"packing_format", "awq"}, "awq"},
    {"intel/auto-round", {"backend", "awq"}, "awq"},
    {"intel/auto-round", {NULL, NULL}, "gptq"},
    {"auto_round", {"packing_format", "awq"}, "awq"},
    {"auto_round", {NULL, NULL}, "gptq"},
    {"gptqmodel", {NULL, NULL}, "gptq"},
    {"auto_gptq", {NULL, NULL}, "gptq"},
    {"gptq_marlin", {NULL, NULL}, "gptq"},
    {"awq_marlin", {NULL, NULL}, "awq"},
    {"auto_awq", {NULL, NULL}, "awq"},
    {"compressed_tensors", {NULL, NULL}, "compressed-tensors"},
    {"sparseml", {NULL, NULL}, "compressed-tensors"},
    {"bitsandbytes_4bit", {NULL, NULL}, "bitsandbytes"},
    {"bitsandbytes_8bit", {NULL, NULL}, "bitsandbytes"},
    {"modelopt_fp4", {NULL, NULL}, "modelopt"},
    {"modelopt_mixed", {NULL, NULL}, "modelopt"},
    {"modelopt_fp8", {NULL, NULL}, "modelopt"},
    {"finegrained_fp8", {NULL, NULL}, "fp8"},
    {"deepseek_fp8", {NULL, NULL}, "fp8"},
    {"fbgemm_fp8", {NULL, NULL}, "fp8"},
    {NULL, {"quant_algo", NULL}, "modelopt"},
    {NULL, {"quantization", NULL}, "modelopt"},
    {NULL, {"config_groups", NULL}, "compressed-tensors"},
    {NULL, {"load_in_4bit", NULL}, "bitsandbytes"},
    {NULL, {"load_in_8bit", NULL}, "bitsandbytes"},
    {NULL, {"w_bit", NULL}, "awq"},
    {NULL, {"desc_act", NULL}, "gptq"},
    {NULL, {"weight_block_size", NULL}, "fp8"},
    {NULL, {"fmt", "e4m3"}, "fp8"},
};

static bool shows(const json_t *o, const struct sign *sign)
{
    const json_t *v = sign->key ? json_object_get(o, sign->key) : NULL;
    const char *text = json_string_value(v);
    if (!sign->key) return true;
    if (!sign->text) return v && !json_is_null(v);
    return text && strstr(text, sign->text);
}

/* Keys that some writers call otherwise; a missing one takes the other's value. */
static const struct {
    const char *method, *from, *to;
} keys[] = {
    {"awq", "w_bit", "bits"},         {"awq", "q_group_size", "group_size"},
    {"gptq", "w_bit", "bits"},        {"gptq", "q_group_size", "group_size"},
    {"gptq", "wbits", "bits"},        {"gptq", "groupsize", "group_size"},
};

static enum pith_status settle(json_t *o, struct pith_error *err)
{
    const json_t *own = json_object_get(o, "quant_method");
    const char *name = json_string_value(own), *method = name;
    bool good = true;
    if (own && !json_is_null(own) && !name) return PITH_OK; /* to be refused where it is read */
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        const bool named = names[i].published ? name && strcmp(name, names[i].published) == 0
                                              : !name;
        if (!named || !shows(o, &names[i].sign)) continue;
        method = names[i].method;
        break;
    }
    if (method != name) good = json_object_set_new(o, "quant_method", json_string(method)) == 0;
    for (size_t i = 0; i < PITH_COUNT(keys) && good && method; i++) {
        json_t *v = json_object_get(o, keys[i].from);
        if (strcmp(keys[i].method, method) == 0 && v && !json_object_get(o, keys[i].to))
            good = json_object_set(o, keys[i].to, v) == 0;
    }
    return good ? PITH_OK : pith_fail_nomem(err, "a config");
}

enum pith_status pith_quantization_find(const char *dir, json_t *config, const json_t **out,
                                        struct pith_error *err)
{
    json_t *o = NULL;
    *out = NULL;
    PITH_TRY(find_in_config(dir, config, &o, err));
    if (!o) PITH_TRY(find_in_files(dir, config, &o, err));
    if (o) PITH_TRY(settle(o, err));
    *out = o;
    return PITH_OK;
}
