#include "tok/files/added_files.h"

#include "base/grow.h"
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
    const json_t *entry; /* borrowed of a file: what says more of it, or NULL */
    const char *text;    /* borrowed of a file */
    size_t length;
    bool special;
};
struct tokens {
    struct token *item;
    size_t count, cap;
    json_t *added, *config, *map; /* the files, or NULL */
    json_t *named;                /* {text: true} of the special tokens that these name */
};

static bool push(struct tokens *t, json_int_t id, const char *text, size_t length)
{
    struct token *item = pith_grow(t->item, t->count, &t->cap, 64, sizeof *item);
    if (!item) return false;
    t->item = item;
    t->item[t->count++] = (struct token){id, NULL, text, length, false};
    return true;
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
        t->item[t->count - 1].entry = v;
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

/* The rows of the embedding as config.json has them; 0 where it does not say. */
static enum pith_status count_rows(const char *dir, size_t *rows, struct pith_error *err)
{
    json_t *config = NULL;
    PITH_TRY(pith_component_file(dir, "config.json", &config, err));
    const json_t *n = json_object_get(config, "vocab_size");
    if (!n) n = json_object_get(json_object_get(config, "text_config"), "vocab_size");
    *rows = json_is_integer(n) && json_integer_value(n) > 0 ? (size_t)json_integer_value(n) : 0;
    json_decref(config);
    return PITH_OK;
}

/* Called for a token that a list names: a text, or an object with its flags. */
typedef enum pith_status named_fn(void *ctx, const json_t *token, struct pith_error *err);

static bool ends_in_token(const char *key)
{
    const size_t n = strlen(key), tail = sizeof "_token" - 1;
    return n > tail && strcmp(key + n - tail, "_token") == 0;
}

/* The special tokens that a file names, in the order in which transformers gives those that are new
 * their ids: bos to mask, other members "*_token", lists by name, lists. */
static enum pith_status each_named(const json_t *file, named_fn *fn, void *ctx,
                                   struct pith_error *err)
{
    static const char *const usual[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    static const char *const lists[] = {"additional_special_tokens", "extra_special_tokens"};
    const char *key;
    json_t *v;
    size_t k;
    for (size_t i = 0; i < PITH_COUNT(usual); i++)
        PITH_TRY(fn(ctx, json_object_get(file, usual[i]), err));
    json_object_foreach ((json_t *)(uintptr_t)file, key, v)
        if (ends_in_token(key)) PITH_TRY(fn(ctx, v, err));
    for (size_t i = 0; i < PITH_COUNT(lists); i++)
        json_object_foreach (json_object_get(file, lists[i]), key, v) PITH_TRY(fn(ctx, v, err));
    for (size_t i = 0; i < PITH_COUNT(lists); i++)
        json_array_foreach (json_object_get(file, lists[i]), k, v) PITH_TRY(fn(ctx, v, err));
    return PITH_OK;
}

/* Both files: special_tokens_map.json counts where no "added_tokens_decoder" stands for it. */
static enum pith_status each_special(const struct tokens *t, named_fn *fn, void *ctx,
                                     struct pith_error *err)
{
    if (!json_object_get(t->config, "added_tokens_decoder"))
        PITH_TRY(each_named(t->map, fn, ctx, err));
    return each_named(t->config, fn, ctx, err);
}

static enum pith_status read_files(struct tokens *t, const char *dir, struct pith_error *err)
{
    PITH_TRY(pith_component_file(dir, "added_tokens.json", &t->added, err));
    PITH_TRY(pith_component_file(dir, "tokenizer_config.json", &t->config, err));
    return pith_component_file(dir, "special_tokens_map.json", &t->map, err);
}

static enum pith_status note(void *ctx, const json_t *token, struct pith_error *err)
{
    const json_t *text = pith_component_token(token);
    if (!text || json_object_setn_new(ctx, json_string_value(text), json_string_length(text),
                                      json_true()) == 0)
        return PITH_OK;
    return pith_fail_nomem(err, "tokenizer");
}

/* By id, and special where any list names it. */
static enum pith_status sort(struct tokens *t, struct pith_error *err)
{
    t->named = json_object();
    if (!t->named) return pith_fail_nomem(err, "tokenizer");
    PITH_TRY(each_named(t->map, note, t->named, err));
    PITH_TRY(each_named(t->config, note, t->named, err));
    for (size_t i = 0; i < t->count; i++)
        if (json_object_getn(t->named, t->item[i].text, t->item[i].length))
            t->item[i].special = true;
    if (t->count) qsort(t->item, t->count, sizeof *t->item, compare);
    return PITH_OK;
}

static void free_files(struct tokens *t)
{
    json_decref(t->named);
    json_decref(t->added);
    json_decref(t->config);
    json_decref(t->map);
    pith_free(t->item);
}

/* --- with tokenizer.model --------------------------------------------------------------------- */

struct pieces {
    struct pith_spm_model *m;
    size_t rows;
};

static enum pith_status add_piece(void *ctx, const json_t *token, struct pith_error *err)
{
    const struct pieces *p = ctx;
    const json_t *text = pith_component_token(token);
    const size_t length = json_string_length(text);
    if (length == 0 || p->m->vocab.count >= p->rows ||
        pith_vocab_find(&p->m->vocab, json_string_value(text), length) >= 0)
        return PITH_OK;
    return pith_spm_add(p->m, json_string_value(text), length, PITH_SPM_CONTROL, 0, err);
}

static enum pith_status take_all(struct pith_spm_model *m, struct tokens *t, const char *dir,
                                 struct pith_error *err)
{
    struct pieces pieces = {m, 0};
    PITH_TRY(read_files(t, dir, err));
    PITH_TRY(take_added(t, err));
    PITH_TRY(take_decoder(t, err));
    m->prefix_once = json_is_false(json_object_get(t->config, "legacy"));
    if (json_is_false(json_object_get(t->config, "add_prefix_space"))) m->dummy_prefix = false;
    PITH_TRY(sort(t, err));
    for (size_t i = 0; i < t->count; i++) PITH_TRY(add(m, &t->item[i], err));
    PITH_TRY(count_rows(dir, &pieces.rows, err));
    return each_special(t, add_piece, &pieces, err);
}

enum pith_status pith_added_files(struct pith_spm_model *m, const char *dir, struct pith_error *err)
{
    struct tokens t = {0};
    const enum pith_status s = take_all(m, &t, dir, err);
    free_files(&t);
    return s;
}

/* --- with tokenizer.json ---------------------------------------------------------------------- */

/* "added_tokens" of a tokenizer.json that grows. */
struct growing {
    json_t *list;
    const json_t *vocab; /* {text: id}, or NULL */
    json_t *seen;        /* texts of the list, and of the vocabulary when it is no object */
    size_t next, rows;   /* the id of the next token; those that the model has rows for */
};

static bool is_known(const struct growing *g, const char *text, size_t length)
{
    return json_object_getn(g->seen, text, length) || json_object_getn(g->vocab, text, length);
}

static bool see(struct growing *g, const json_t *text)
{
    return !json_is_string(text) ||
           json_object_setn_new(g->seen, json_string_value(text), json_string_length(text),
                                json_true()) == 0;
}

static enum pith_status look(struct growing *g, const json_t *model, struct pith_error *err)
{
    const json_t *vocab = json_object_get(model, "vocab"), *v;
    bool good = true;
    size_t i;
    g->seen = json_object();
    g->vocab = json_is_object(vocab) ? vocab : NULL;
    g->next = json_is_object(vocab) ? json_object_size(vocab) : json_array_size(vocab);
    json_array_foreach (vocab, i, v) good = good && see(g, json_array_get(v, 0));
    json_array_foreach (g->list, i, v) {
        const json_t *text = json_object_get(v, "content");
        const size_t length = json_string_length(text);
        g->next += length && !is_known(g, json_string_value(text), length);
        good = good && see(g, text);
    }
    return good && g->seen ? PITH_OK : pith_fail_nomem(err, "tokenizer");
}

static enum pith_status grow(struct growing *g, const json_t *token, bool special,
                             struct pith_error *err)
{
    json_t *text = (json_t *)(uintptr_t)pith_component_token(token);
    const json_t *plain = json_object_get(token, "normalized");
    const size_t length = json_string_length(text);
    if (length == 0 || g->next >= g->rows || is_known(g, json_string_value(text), length))
        return PITH_OK;
    json_t *entry = json_pack(
        "{s:I, s:O, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)g->next, "content", text,
        "single_word", (int)json_is_true(json_object_get(token, "single_word")), "lstrip",
        (int)json_is_true(json_object_get(token, "lstrip")), "rstrip",
        (int)json_is_true(json_object_get(token, "rstrip")), "normalized",
        (int)(plain ? json_is_true(plain) : !special), "special", (int)special);
    if (json_array_append_new(g->list, entry) != 0 || !see(g, text))
        return pith_fail_nomem(err, "tokenizer");
    g->next++;
    return PITH_OK;
}

static enum pith_status grow_special(void *ctx, const json_t *token, struct pith_error *err)
{
    return grow(ctx, token, true, err);
}

/* A token of added_tokens.json is nothing but a text. */
static enum pith_status grow_plain(struct growing *g, const struct token *t, struct pith_error *err)
{
    if (t->entry) return grow(g, t->entry, t->special, err);
    json_t *text = json_stringn(t->text, t->length);
    const enum pith_status s = text ? grow(g, text, false, err)
                                    : pith_fail_nomem(err, "tokenizer");
    json_decref(text);
    return s;
}

static enum pith_status grow_all(struct growing *g, struct tokens *t, const char *dir,
                                 struct pith_error *err)
{
    PITH_TRY(read_files(t, dir, err));
    PITH_TRY(json_object_get(t->config, "added_tokens_decoder") ? take_decoder(t, err)
                                                                : take_added(t, err));
    PITH_TRY(sort(t, err));
    for (size_t i = 0; i < t->count; i++) PITH_TRY(grow_plain(g, &t->item[i], err));
    return each_special(t, grow_special, g, err);
}

enum pith_status pith_added_json(json_t *json, const char *dir, struct pith_error *err)
{
    json_t *list = json_object_get(json, "added_tokens");
    struct growing g = {0};
    struct tokens t = {0};
    PITH_TRY(count_rows(dir, &g.rows, err));
    if (!json_is_object(json) || (list && !json_is_null(list) && !json_is_array(list)))
        return PITH_OK; /* who reads it says so */
    if (!json_is_array(list) &&
        json_object_set_new(json, "added_tokens", list = json_array()) != 0)
        return pith_fail_nomem(err, "tokenizer");
    g.list = list;
    enum pith_status s = look(&g, json_object_get(json, "model"), err);
    if (s == PITH_OK && g.next < g.rows) s = grow_all(&g, &t, dir, err);
    json_decref(g.seen);
    free_files(&t);
    return s;
}
