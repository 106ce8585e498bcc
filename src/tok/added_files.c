#include "tok/added_files.h"

#include "base/json.h"
#include "base/mem.h"
#include "tok/component.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ids that no file names, at most. */
enum { MOST_UNNAMED = 1 << 16 };

struct token {
    json_int_t id;
    const char *text; /* borrowed of a file */
    size_t length;
    bool special;
};
struct tokens {
    struct token *item;
    size_t count, cap;
    json_t *added, *config, *map; /* the files, or NULL */
};

static bool push(struct tokens *t, json_int_t id, const char *text, size_t length)
{
    if (t->count == t->cap) {
        const size_t cap = t->cap ? 2 * t->cap : 64;
        struct token *item = pith_realloc(t->item, cap, sizeof *item);
        if (!item) return false;
        t->item = item;
        t->cap = cap;
    }
    t->item[t->count++] = (struct token){id, text, length, false};
    return true;
}

static bool is_text(const json_t *v, const struct token *t)
{
    const json_t *text = pith_component_token(v);
    return text && json_string_length(text) == t->length &&
           memcmp(json_string_value(text), t->text, t->length) == 0;
}

/* Whether a file's lists of special tokens have it. */
static bool names(const json_t *file, const struct token *t)
{
    static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
    const char *key;
    const json_t *v, *one;
    size_t k;
    json_object_foreach ((json_t *)(uintptr_t)file, key, v) {
        const size_t n = strlen(key), tail = sizeof "_token" - 1;
        if (n > tail && strcmp(key + n - tail, "_token") == 0 && is_text(v, t)) return true;
    }
    for (size_t i = 0; i < PITH_COUNT(lists); i++) {
        const json_t *list = json_object_get(file, lists[i]);
        json_array_foreach (list, k, one)
            if (is_text(one, t)) return true;
        json_object_foreach ((json_t *)(uintptr_t)list, key, one)
            if (is_text(one, t)) return true;
    }
    return false;
}

/* added_tokens.json: {"<|im_end|>": 32000}. */
static enum pith_status take_added(struct tokens *t, struct pith_error *err)
{
    const char *text;
    const json_t *id;
    json_object_foreach (t->added, text, id) {
        if (!json_is_integer(id))
            return pith_fail(err, PITH_FORMAT, "added_tokens.json: \"%.80s\" has no id", text);
        if (!push(t, json_integer_value(id), text, strlen(text)))
            return pith_fail_nomem(err, "tokenizer");
    }
    return PITH_OK;
}

/* "added_tokens_decoder": {"32000": {"content": "<|im_end|>", "special": true}}. */
static enum pith_status take_decoder(struct tokens *t, struct pith_error *err)
{
    const char *key;
    const json_t *v;
    json_object_foreach (json_object_get(t->config, "added_tokens_decoder"), key, v) {
        const json_t *text = pith_component_token(v);
        char *end;
        const long long id = strtoll(key, &end, 10);
        if (!text || *key == '\0' || *end != '\0')
            return pith_fail(err, PITH_FORMAT, "added_tokens_decoder: \"%.40s\" names no token",
                             key);
        if (!push(t, id, json_string_value(text), json_string_length(text)))
            return pith_fail_nomem(err, "tokenizer");
        PITH_TRY(pith_json_get_bool(v, "special", &t->item[t->count - 1].special,
                                    "added_tokens_decoder", err));
    }
    return PITH_OK;
}

static int compare(const void *a, const void *b)
{
    const struct token *x = a, *y = b;
    if (x->id != y->id) return x->id < y->id ? -1 : 1;
    return (int)y->special - (int)x->special; /* what says most first */
}

static enum pith_status fill_up(struct pith_spm_model *m, json_int_t id, struct pith_error *err)
{
    if (id < 0 || (uint64_t)id > m->vocab.count + MOST_UNNAMED)
        return pith_fail(err, PITH_LIMIT, "an added token has the id %lld of %zu", (long long)id,
                         m->vocab.count);
    while (m->vocab.count < (size_t)id) {
        char name[32];
        const int n = snprintf(name, sizeof name, "[PAD%zu]", m->vocab.count);
        PITH_TRY(pith_spm_add(m, name, (size_t)n, PITH_SPM_UNUSED, 0, err));
    }
    return PITH_OK;
}

/* A token that the model has already is special if a file says so; else it is the next id. */
static enum pith_status add(struct pith_spm_model *m, const struct token *t, struct pith_error *err)
{
    const int32_t known = pith_vocab_find(&m->vocab, t->text, t->length);
    const int type = t->special ? PITH_SPM_CONTROL : PITH_SPM_ADDED;
    if (t->length == 0) return PITH_OK;
    if (known >= 0) return pith_spm_retype(m, known, type, err);
    PITH_TRY(fill_up(m, t->id, err));
    if ((uint64_t)t->id < m->vocab.count) return PITH_OK; /* another piece has that id */
    return pith_spm_add(m, t->text, t->length, type, 0, err);
}

static enum pith_status take_all(struct pith_spm_model *m, struct tokens *t, const char *dir,
                                 struct pith_error *err)
{
    PITH_TRY(pith_component_file(dir, "added_tokens.json", &t->added, err));
    PITH_TRY(pith_component_file(dir, "tokenizer_config.json", &t->config, err));
    PITH_TRY(pith_component_file(dir, "special_tokens_map.json", &t->map, err));
    PITH_TRY(take_added(t, err));
    PITH_TRY(take_decoder(t, err));
    m->prefix_once = json_is_false(json_object_get(t->config, "legacy"));
    if (json_is_false(json_object_get(t->config, "add_prefix_space"))) m->dummy_prefix = false;
    for (size_t i = 0; i < t->count; i++)
        t->item[i].special |= names(t->config, &t->item[i]) || names(t->map, &t->item[i]);
    if (t->count) qsort(t->item, t->count, sizeof *t->item, compare);
    for (size_t i = 0; i < t->count; i++) PITH_TRY(add(m, &t->item[i], err));
    return PITH_OK;
}

enum pith_status pith_added_files(struct pith_spm_model *m, const char *dir, struct pith_error *err)
{
    struct tokens t = {0};
    const enum pith_status s = take_all(m, &t, dir, err);
    json_decref(t.added);
    json_decref(t.config);
    json_decref(t.map);
    pith_free(t.item);
    return s;
}
