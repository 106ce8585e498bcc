#include "tok/special.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tok/component.h"

#include <string.h>

/* "bos_token": "<s>" or {"content": "<s>", ...}; -1 when it is missing or not in the vocabulary. */
static int32_t token_of(const struct pith_tokenizer *t, const json_t *config, const char *key)
{
    const json_t *v = pith_component_token(json_object_get(config, key));
    return v ? t->kind->find(t->model, json_string_value(v), json_string_length(v)) : -1;
}

/* "eos_token_id": 2 or [2, 3]: the first, if it is in the vocabulary. */
static int32_t special_id(const struct pith_tokenizer *t, const json_t *config, const char *key)
{
    const json_t *v = json_object_get(config, key);
    if (json_is_array(v)) v = json_array_get(v, 0);
    if (!json_is_integer(v)) return -1;
    const json_int_t id = json_integer_value(v);
    return id >= 0 && (uint64_t)id < t->kind->vocab(t->model) ? (int32_t)id : -1;
}

/* Sets bos and eos to the tokens that a tokenizer_config.json (or NULL) names. */
static void take_names(struct pith_tokenizer *t, const json_t *config)
{
    const int32_t bos = token_of(t, config, "bos_token"), eos = token_of(t, config, "eos_token");
    if (bos >= 0) t->bos = bos;
    if (eos >= 0) t->eos = eos;
}

/* Puts them around a text as its "add_bos_token" (missing: `bos`) and "add_eos_token" say. */
static enum pith_status surround(struct pith_tokenizer *t, const json_t *config, bool bos,
                                 struct pith_error *err)
{
    bool eos = false;
    PITH_TRY(pith_json_get_bool(config, "add_bos_token", &bos, "tokenizer_config.json", err));
    PITH_TRY(pith_json_get_bool(config, "add_eos_token", &eos, "tokenizer_config.json", err));
    t->before.count = t->after.count = 0;
    if (bos && t->bos >= 0 && !pith_ids_push(&t->before, t->bos))
        return pith_fail_nomem(err, "ids");
    if (eos && t->eos >= 0 && !pith_ids_push(&t->after, t->eos)) return pith_fail_nomem(err, "ids");
    return PITH_OK;
}

/* What special_tokens_map.json says holds where no "added_tokens_decoder" made it superfluous. */
static enum pith_status take_map(struct pith_tokenizer *t, const json_t *config, const char *dir,
                                 struct pith_error *err)
{
    json_t *map = NULL;
    if (json_object_get(config, "added_tokens_decoder")) return PITH_OK;
    PITH_TRY(pith_component_file(dir, "special_tokens_map.json", &map, err));
    take_names(t, map);
    json_decref(map);
    return PITH_OK;
}

static enum pith_status from_tokenizer_config(struct pith_tokenizer *t,
                                              const struct pith_tok_kind *kind, const char *dir,
                                              struct pith_error *err)
{
    json_t *config = NULL;
    PITH_TRY(pith_component_file(dir, "tokenizer_config.json", &config, err));
    take_names(t, config);
    enum pith_status s = take_map(t, config, dir, err);
    if (s == PITH_OK && kind->surrounds) s = surround(t, config, kind->add_bos, err);
    json_decref(config);
    return s;
}

enum pith_status pith_special_read(struct pith_tokenizer *t, const struct pith_tok_kind *kind,
                                   const char *dir, struct pith_error *err)
{
    static const char *const files[] = {"generation_config.json", "config.json"};
    PITH_TRY(from_tokenizer_config(t, kind, dir, err));
    for (size_t i = 0; i < PITH_COUNT(files) && (t->bos < 0 || t->eos < 0); i++) {
        json_t *config = NULL;
        PITH_TRY(pith_component_file(dir, files[i], &config, err));
        if (t->bos < 0) t->bos = special_id(t, config, "bos_token_id");
        if (t->eos < 0) t->eos = special_id(t, config, "eos_token_id");
        json_decref(config);
    }
    return PITH_OK;
}

static bool push_end(const struct pith_tokenizer *t, const json_t *v, struct pith_ids *out)
{
    const json_int_t id = json_is_integer(v) ? json_integer_value(v) : -1;
    return id < 0 || (uint64_t)id >= t->kind->vocab(t->model) || pith_ids_push(out, (int32_t)id);
}

enum pith_status pith_special_ends(const struct pith_tokenizer *t, const char *dir,
                                   struct pith_ids *out, struct pith_error *err)
{
    static const char *const files[] = {"generation_config.json", "config.json"};
    bool ok = true;
    for (size_t i = 0; i < PITH_COUNT(files); i++) {
        json_t *config = NULL, *one;
        size_t k;
        PITH_TRY(pith_component_file(dir, files[i], &config, err));
        const json_t *v = json_object_get(config, "eos_token_id");
        if (!json_is_array(v)) ok = ok && push_end(t, v, out);
        else
            json_array_foreach (v, k, one) ok = ok && push_end(t, one, out);
        json_decref(config);
    }
    return ok ? PITH_OK : pith_fail_nomem(err, "ids");
}
