#include "io/quant_names.h"

#include "base/file.h"
#include "base/mem.h"

#include <string.h>

#define FILE_LIMIT ((size_t)8 << 20)
#define KEY "quantization_config"

/* --- where it stands -------------------------------------------------------------------------- */

/* In config.json under other names, with the method that it then is unless it has its own. mlx-lm
 * looks at "quantization" first, next to which a converted model may still state its origin. */
static const struct {
    const char *inner, *key, *method;
    const char *shows; /* NULL, or: it is not this place's unless it is an object with that key;
                          where readers of the method look */
} places[] = {
    {NULL, "quantization", "mlx", "bits"},
    {NULL, KEY, NULL, NULL},
    {NULL, "compression_config", "compressed-tensors", NULL},
    {"text_config", "quantization", "mlx", "bits"},
    {"text_config", KEY, NULL, NULL},
    {"text_config", "compression_config", "compressed-tensors", NULL},
    {"llm_config", KEY, NULL, NULL},
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
        if (places[i].shows && !json_object_get(o, places[i].shows)) continue;
        if (!json_is_object(o))
            return pith_fail(err, PITH_FORMAT, "%s/config.json: \"%s\" is not an object", dir,
                             places[i].key);
        if (json_object_size(o) == 0) continue; /* it says nothing */
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
    bool whole;             /* and is nothing else */
};

/* Names that are one. */
static const struct {
    const char *other, *name;
} aliases[] = {
    {"intel/auto-round", "auto-round"},
    {"auto_round", "auto-round"},
    {"autoround", "auto-round"},
};

/* A name that was published, with a sign that must hold or none, and the container's own. A name of
 * NULL: there is none, the sign alone decides. The first row that fits is taken. AutoRound's
 * packing is GPTQ's unless it says otherwise; two of its forms store zero points as they are. */
static const struct {
    const char *published;
    struct sign sign;
    const char *method;
    const char *form; /* "checkpoint_format", where the object has none; NULL: the method's usual */
} names[] = {
    {"auto-round", {"packing_format", "awq", false}, "awq", NULL},
    {"auto-round", {"packing_format", "gptqmodel", false}, "gptq", "gptq_v2"},
    {"auto-round", {"packing_format", "gptq", false}, "gptq", NULL},
    {"auto-round", {"packing_format", "llm_compressor", false}, "compressed-tensors", NULL},
    {"auto-round", {"packing_format", "auto_round", true}, "gptq", "gptq_v2"},
    {"auto-round", {"packing_format", NULL, false}, "auto-round", NULL},
    {"auto-round", {"config_groups", NULL, false}, "compressed-tensors", NULL},
    {"auto-round", {"backend", "awq", false}, "awq", NULL},
    {"auto-round", {NULL, NULL, false}, "gptq", NULL},
    {"gptqmodel", {NULL, NULL, false}, "gptq", NULL},
    {"auto_gptq", {NULL, NULL, false}, "gptq", NULL},
    {"gptq_marlin", {NULL, NULL, false}, "gptq", NULL},
    {"awq_marlin", {NULL, NULL, false}, "awq", NULL},
    {"auto_awq", {NULL, NULL, false}, "awq", NULL},
    {"compressed_tensors", {NULL, NULL, false}, "compressed-tensors", NULL},
    {"sparseml", {NULL, NULL, false}, "compressed-tensors", NULL},
    {"bitsandbytes_4bit", {NULL, NULL, false}, "bitsandbytes", NULL},
    {"bitsandbytes_8bit", {NULL, NULL, false}, "bitsandbytes", NULL},
    {"modelopt_fp4", {NULL, NULL, false}, "modelopt", NULL},
    {"modelopt_mixed", {NULL, NULL, false}, "modelopt", NULL},
    {"modelopt_fp8", {NULL, NULL, false}, "modelopt", NULL},
    {"finegrained_fp8", {NULL, NULL, false}, "fp8", NULL},
    {"deepseek_fp8", {NULL, NULL, false}, "fp8", NULL},
    {"fbgemm_fp8", {NULL, NULL, false}, "fp8", NULL},
    {NULL, {"quant_algo", NULL, false}, "modelopt", NULL},
    {NULL, {"quantization", NULL, false}, "modelopt", NULL},
    {NULL, {"config_groups", NULL, false}, "compressed-tensors", NULL},
    {NULL, {"load_in_4bit", NULL, false}, "bitsandbytes", NULL},
    {NULL, {"load_in_8bit", NULL, false}, "bitsandbytes", NULL},
    {NULL, {"w_bit", NULL, false}, "awq", NULL},
    {NULL, {"desc_act", NULL, false}, "gptq", NULL},
    {NULL, {"group_size", NULL, false}, "mlx", NULL},
    {NULL, {"weight_block_size", NULL, false}, "fp8", NULL},
    {NULL, {"fmt", "e4m3", false}, "fp8", NULL},
};

static bool shows(const json_t *o, const struct sign *sign)
{
    const json_t *v = sign->key ? json_object_get(o, sign->key) : NULL;
    const char *text = json_string_value(v);
    if (!sign->key) return true;
    if (!sign->text) return v && !json_is_null(v);
    if (!text) return false;
    return sign->whole ? strcmp(text, sign->text) == 0 : strstr(text, sign->text) != NULL;
}

/* Keys that some writers call otherwise; a missing one takes the other's value. */
static const struct {
    const char *method, *from, *to;
} keys[] = {
    {"awq", "w_bit", "bits"},         {"awq", "q_group_size", "group_size"},
    {"gptq", "wbits", "bits"},        {"gptq", "groupsize", "group_size"},
};

static enum pith_status settle(json_t *o, struct pith_error *err)
{
    const json_t *own = json_object_get(o, "quant_method");
    const char *name = json_string_value(own), *method = name, *form = NULL;
    bool good = true;
    if (own && !json_is_null(own) && !name) return PITH_OK; /* to be refused where it is read */
    for (size_t i = 0; name && i < PITH_COUNT(aliases); i++)
        if (strcmp(name, aliases[i].other) == 0) name = aliases[i].name;
    for (size_t i = 0; i < PITH_COUNT(names); i++) {
        const bool named = names[i].published ? name && strcmp(name, names[i].published) == 0
                                              : !name;
        if (!named || !shows(o, &names[i].sign)) continue;
        method = names[i].method;
        form = names[i].form;
        break;
    }
    if (form && !json_object_get(o, "checkpoint_format"))
        good = json_object_set_new(o, "checkpoint_format", json_string(form)) == 0;
    if (good && method && method != json_string_value(own))
        good = json_object_set_new(o, "quant_method", json_string(method)) == 0;
    for (size_t i = 0; i < PITH_COUNT(keys) && good && method; i++) {
        json_t *v = json_object_get(o, keys[i].from);
        if (strcmp(keys[i].method, method) == 0 && v && !json_object_get(o, keys[i].to))
            good = json_object_set(o, keys[i].to, v) == 0;
    }
    return good ? PITH_OK : pith_fail_nomem(err, "a config");
}

bool pith_quantization_set(json_t *config, json_t *object)
{
    const char *method = json_string_value(json_object_get(object, "quant_method"));
    bool good = !object || json_object_set(config, KEY, object) == 0;
    for (size_t i = 0; i < PITH_COUNT(places) && good; i++) {
        json_t *in = places[i].inner ? json_object_get(config, places[i].inner) : config;
        const bool own = in == config && strcmp(places[i].key, KEY) == 0;
        const bool too = in == config && places[i].shows && method &&
                         strcmp(places[i].method, method) == 0;
        if (too) good = json_object_set(in, places[i].key, object) == 0;
        else if (!object || !own) (void)json_object_del(in, places[i].key);
    }
    return good;
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
