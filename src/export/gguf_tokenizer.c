/* A tokenizer as the keys of a GGUF file. */
#include "export/gguf.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "tok/chat/templates.h"
#include "tok/files/added_files.h"
#include "tok/files/gguf.h"
#include "tok/files/spm_model.h"
#include "tok/files/tiktoken.h"
#include "tok/special.h"
#include "tok/tokenizer.h"

#include <stdio.h>
#include <string.h>

#define FILE_LIMIT ((size_t)512 << 20)

struct token {
    const char *text; /* borrowed; NULL: none has this id */
    size_t length;
    int32_t type; /* enum pith_spm_type */
    float score;
};

struct tokens {
    const char *source;
    struct token *token; /* [count] */
    uint32_t count;
    struct pith_tokenizer *own; /* as pith reads it */
    json_t *json;               /* as a tokenizer.json, or NULL */
    struct pith_spm_model spm;  /* tokenizer.model, when has_spm */
    bool has_spm;
    bool space_prefix; /* a space comes in front of a text */
    const char *model, *pre;
};

static enum pith_status read_file(const char *dir, const char *name, char **out, size_t *size,
                                  struct pith_error *err)
{
    char *path = pith_path_join(dir, name);
    *out = NULL;
    if (!path) return pith_fail_nomem(err, name);
    const enum pith_status s =
        pith_path_exists(path) ? pith_file_read(path, FILE_LIMIT, out, size, err) : PITH_OK;
    pith_free(path);
    return s;
}

static enum pith_status set_token(struct tokens *t, int64_t id, const char *text, size_t length,
                                  int32_t type, float score, struct pith_error *err)
{
    if (id < 0 || id >= t->count)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: token %lld has no row among the %u of the embedding", t->source,
                         (long long)id, (unsigned)t->count);
    t->token[id] = (struct token){text, length, type, score};
    return PITH_OK;
}

/* --- from tokenizer.json ---------------------------------------------------------------------- */

static enum pith_status take_vocab(struct tokens *t, float score, struct pith_error *err)
{
    const char *key;
    size_t size;
    json_t *id, *vocab = json_object_get(json_object_get(t->json, "model"), "vocab");
    json_object_keylen_foreach (vocab, key, size, id)
        PITH_TRY(set_token(t, json_integer_value(id), key, size, PITH_SPM_NORMAL, score, err));
    return PITH_OK;
}

static enum pith_status take_added(struct tokens *t, float score, struct pith_error *err)
{
    const json_t *list = json_object_get(t->json, "added_tokens"), *a;
    size_t i;
    json_array_foreach (list, i, a) {
        const json_t *text = json_object_get(a, "content");
        const bool special = json_is_true(json_object_get(a, "special"));
        if (json_string_length(text) == 0) continue; /* as it is read: no token */
        const int32_t id = t->own->kind->find(t->own->model, json_string_value(text),
                                              json_string_length(text));
        PITH_TRY(set_token(t, id, json_string_value(text),
                           json_string_length(text), special ? PITH_SPM_CONTROL : PITH_SPM_USER,
                           score, err));
    }
    return PITH_OK;
}

static bool is_text(const json_t *part, const char *key, const char *text)
{
    const char *is = json_string_value(json_object_get(part, key));
    return is && strcmp(is, text) == 0;
}

static bool is_type(const json_t *part, const char *type)
{
    return is_text(part, "type", type);
}

/* "left right" or ["left", "right"]: the parts. */
static bool merge_parts(const json_t *m, const char *part[2], size_t length[2])
{
    if (json_is_string(m)) {
        part[0] = json_string_value(m);
        const char *space = strchr(part[0], ' ');
        if (!space) return false;
        part[1] = space + 1;
        length[0] = (size_t)(space - part[0]);
        length[1] = strlen(part[1]);
        return true;
    }
    for (size_t i = 0; i < 2; i++) {
        part[i] = json_string_value(json_array_get(m, i));
        if (!part[i]) return false;
        length[i] = strlen(part[i]);
    }
    return true;
}

/* Spaces inside a part are written as the byte-level letter for a space. */
static void put_part(struct pith_str *s, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (text[i] == ' ') pith_str_puts(s, "\xc4\xa0");
        else pith_str_putc(s, text[i]);
    }
}

static enum pith_status put_merges(const struct tokens *t, struct pith_gguf_keys *keys,
                                   struct pith_error *err)
{
    const json_t *list = json_object_get(json_object_get(t->json, "model"), "merges"), *m;
    size_t i, length[2];
    const char *part[2];
    pith_gguf_begin_array(keys, "tokenizer.ggml.merges", PITH_GGUF_STRING, json_array_size(list));
    json_array_foreach (list, i, m) {
        struct pith_str s = {0};
        if (!merge_parts(m, part, length))
            return pith_fail(err, PITH_FORMAT, "%s: tokenizer.json: a broken merge", t->source);
        put_part(&s, part[0], length[0]);
        pith_str_putc(&s, ' ');
        put_part(&s, part[1], length[1]);
        if (s.failed) keys->bytes.failed = true;
        pith_gguf_put_string(&keys->bytes, pith_str_text(&s), s.len);
        pith_str_free(&s);
    }
    return PITH_OK;
}

static int32_t id_of(const struct tokens *t, const char *text, size_t length)
{
    const json_t *id = json_object_getn(json_object_get(json_object_get(t->json, "model"), "vocab"),
                                        text, length);
    return json_is_integer(id) ? (int32_t)json_integer_value(id) : -1;
}

/* SentencePiece joins neighbours to the piece of the best score, and a list of merges made from
 * such a model has them in that order: the rank of the first merge that makes a piece stands for
 * its score. */
static enum pith_status score_by_merges(struct tokens *t, struct pith_error *err)
{
    const json_t *list = json_object_get(json_object_get(t->json, "model"), "merges"), *m;
    size_t i, length[2];
    const char *part[2];
    for (i = 0; i < t->count; i++) {
        struct token *k = &t->token[i];
        unsigned byte;
        char end;
        if (k->text && k->length == 6 && sscanf(k->text, "<0x%2X%c", &byte, &end) == 2)
            k->type = PITH_SPM_BYTE;
    }
    json_array_foreach (list, i, m) {
        struct pith_str s = {0};
        if (!merge_parts(m, part, length))
            return pith_fail(err, PITH_FORMAT, "%s: tokenizer.json: a broken merge", t->source);
        pith_str_append(&s, part[0], length[0]);
        pith_str_append(&s, part[1], length[1]);
        const int32_t id = id_of(t, pith_str_text(&s), s.len);
        pith_str_free(&s);
        if (id >= 0 && t->token[id].type == PITH_SPM_NORMAL && t->token[id].score < -1e8f)
            t->token[id].score = -(float)i;
    }
    return PITH_OK;
}

static enum pith_status mark_unknown(struct tokens *t, struct pith_error *err)
{
    const char *unk =
        json_string_value(json_object_get(json_object_get(t->json, "model"), "unk_token"));
    const int32_t id = unk ? id_of(t, unk, strlen(unk)) : -1;
    if (id < 0)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: llama.cpp needs an unknown token in tokenizers of this kind",
                         t->source);
    t->token[id].type = PITH_SPM_UNKNOWN;
    return PITH_OK;
}

#define SPACE_MARK "\xe2\x96\x81"

/* Whether a step of a normalizer is one of those by which spaces become marks. */
static bool marks_spaces(struct tokens *t, const json_t *step)
{
    if (is_type(step, "Prepend") && is_text(step, "prepend", SPACE_MARK))
        return t->space_prefix = true;
    return is_type(step, "Replace") && is_text(step, "content", SPACE_MARK) &&
           is_text(json_object_get(step, "pattern"), "String", " ");
}

/* Whether the text is cut and marked as SentencePiece does it, all in one piece; whether a space
 * comes in front goes to t. */
static bool like_spm(struct tokens *t)
{
    const json_t *normalizer = json_object_get(t->json, "normalizer"), *step;
    const json_t *pre = json_object_get(t->json, "pre_tokenizer");
    size_t i;
    if (is_type(normalizer, "Sequence")) {
        json_array_foreach (json_object_get(normalizer, "normalizers"), i, step)
            if (!marks_spaces(t, step)) return false;
    } else if (normalizer && !json_is_null(normalizer) && !marks_spaces(t, normalizer)) {
        return false;
    }
    if (is_type(pre, "Metaspace")) {
        t->space_prefix = !is_text(pre, "prepend_scheme", "never") &&
                          !json_is_false(json_object_get(pre, "add_prefix_space"));
        return true;
    }
    /* Gemma's Split finds no spaces any more. */
    return !pre || json_is_null(pre) ||
           (is_type(pre, "Split") && is_text(json_object_get(pre, "pattern"), "String", " "));
}

/* The merges that the order of tokens means, where a list of tokens is all that there is. */
static enum pith_status add_merges(json_t *json, json_t *model, struct pith_error *err)
{
    json_t *merges;
    if (!is_type(model, "tiktoken")) return PITH_OK;
    PITH_TRY(pith_tiktoken_merges(json, &merges, err));
    return json_object_set_new(model, "merges", merges) == 0
               ? PITH_OK
               : pith_fail_nomem(err, "a tokenizer's merges");
}

static enum pith_status from_json(struct tokens *t, struct pith_error *err)
{
    json_t *model = json_object_get(t->json, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    const bool fallback = json_is_true(json_object_get(model, "byte_fallback"));
    if (type && strcmp(type, "BPE") != 0 && strcmp(type, "tiktoken") != 0)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: a tokenizer of type \"%.40s\" has no place in a GGUF file", t->source,
                         type);
    t->model = fallback ? "llama" : "gpt2";
    const struct pith_gguf_pre *pre = fallback ? NULL : pith_gguf_pre_of(t->json);
    if (fallback ? !like_spm(t) : !pre)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: llama.cpp has no name for the way this tokenizer cuts a text",
                         t->source);
    t->pre = pre ? pre->name : "default";
    PITH_TRY(take_vocab(t, -1e9f, err));
    PITH_TRY(take_added(t, -1000, err));
    if (!fallback) return add_merges(t->json, model, err);
    PITH_TRY(mark_unknown(t, err));
    return score_by_merges(t, err);
}

/* --- from tokenizer.model --------------------------------------------------------------------- */

static enum pith_status from_spm(struct tokens *t, struct pith_error *err)
{
    const struct pith_spm_model *m = &t->spm;
    if (m->is_unigram)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: a unigram tokenizer has no place in a GGUF file", t->source);
    t->model = "llama";
    t->pre = "default";
    t->space_prefix = m->dummy_prefix;
    if (t->json) PITH_TRY(take_added(t, -1000, err));
    for (size_t id = 0; id < m->vocab.count; id++) {
        size_t length;
        const char *text = pith_vocab_text(&m->vocab, (int64_t)id, &length);
        const int type = m->type[id] == PITH_SPM_ADDED ? PITH_SPM_USER : m->type[id];
        PITH_TRY(set_token(t, (int64_t)id, text, length, type, m->score[id], err));
    }
    return PITH_OK;
}

static enum pith_status read_spm(struct tokens *t, struct pith_error *err)
{
    char *data;
    size_t size = 0;
    const json_t *model = json_object_get(t->json, "model");
    const bool bytes = model && !json_is_true(json_object_get(model, "byte_fallback"));
    if (bytes) return PITH_OK; /* tokenizer.json says that it is another kind */
    PITH_TRY(read_file(t->source, "tokenizer.model", &data, &size, err));
    if (!data) return PITH_OK;
    struct pith_spm_ends ends;
    enum pith_status s = pith_spm_parse(&t->spm, (const uint8_t *)data, size, &ends, err);
    pith_free(data);
    t->has_spm = true;
    if (s == PITH_OK && !t->json) s = pith_added_files(&t->spm, t->source, err);
    return s == PITH_OK ? pith_spm_finish(&t->spm, ends.bos, ends.eos, err) : s;
}

/* --- keys ------------------------------------------------------------------------------------- */

static void put_tokens(const struct tokens *t, struct pith_gguf_keys *keys)
{
    pith_gguf_put_text(keys, "tokenizer.ggml.model", t->model);
    pith_gguf_put_text(keys, "tokenizer.ggml.pre", t->pre);
    pith_gguf_begin_array(keys, "tokenizer.ggml.tokens", PITH_GGUF_STRING, t->count);
    for (uint32_t i = 0; i < t->count; i++) {
        char pad[24];
        const int n = snprintf(pad, sizeof pad, "[PAD%u]", (unsigned)i);
        const struct token *k = &t->token[i];
        if (k->text) pith_gguf_put_string(&keys->bytes, k->text, k->length);
        else pith_gguf_put_string(&keys->bytes, pad, (size_t)n);
    }
    pith_gguf_begin_array(keys, "tokenizer.ggml.token_type", PITH_GGUF_I32, t->count);
    for (uint32_t i = 0; i < t->count; i++) {
        const int32_t type = t->token[i].text ? t->token[i].type : PITH_SPM_UNUSED;
        pith_str_append(&keys->bytes, (const char *)&type, sizeof type);
    }
    if (strcmp(t->model, "llama") != 0) return;
    pith_gguf_begin_array(keys, "tokenizer.ggml.scores", PITH_GGUF_F32, t->count);
    for (uint32_t i = 0; i < t->count; i++)
        pith_str_append(&keys->bytes, (const char *)&t->token[i].score, sizeof(float));
}

/* What stands around a text, as pith's own tokenizer has it. */
static void put_special(const struct tokens *tokens, struct pith_gguf_keys *keys)
{
    const struct pith_tokenizer *t = tokens->own;
    const int32_t bos = pith_tokenizer_bos(t), eos = pith_tokenizer_eos(t);
    if (bos >= 0) pith_gguf_put_uint(keys, "tokenizer.ggml.bos_token_id", (uint32_t)bos);
    if (eos >= 0) pith_gguf_put_uint(keys, "tokenizer.ggml.eos_token_id", (uint32_t)eos);
    pith_gguf_put_bool(keys, "tokenizer.ggml.add_bos_token", pith_tokenizer_adds_bos(t));
    pith_gguf_put_bool(keys, "tokenizer.ggml.add_eos_token", pith_tokenizer_adds_eos(t));
    if (strcmp(tokens->model, "llama") == 0)
        pith_gguf_put_bool(keys, "tokenizer.ggml.add_space_prefix", tokens->space_prefix);
}

/* The ends of an answer that are neither EOS nor known by their names: llama.cpp has two keys for
 * such. */
static enum pith_status put_ends(const struct tokens *t, struct pith_gguf_keys *keys,
                                 struct pith_error *err)
{
    static const char *const names[] = {"tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id"};
    struct pith_ids all = {0}, known = {0};
    size_t put = 0;
    enum pith_status s = pith_tokenizer_ends(t->own, t->source, &all, err);
    if (s == PITH_OK) s = pith_special_named_ends(t->own, &known, err);
    for (size_t i = 0; i < all.count && s == PITH_OK; i++) {
        if (all.id[i] == pith_tokenizer_eos(t->own) || pith_ids_has(&known, all.id[i])) continue;
        if (put == PITH_COUNT(names))
            s = pith_fail(err, PITH_UNSUPPORTED,
                          "%s: a GGUF file has no place for another end of generation, %d",
                          t->source, (int)all.id[i]);
        else pith_gguf_put_uint(keys, names[put++], (uint32_t)all.id[i]);
    }
    pith_ids_free(&all);
    pith_ids_free(&known);
    return s;
}

/* Templates by name, as llama.cpp's converter has them. */
static enum pith_status put_templates(const char *source, struct pith_gguf_keys *keys,
                                      struct pith_error *err)
{
    static const char start[] = "tokenizer.chat_template";
    struct pith_templates t;
    const char *name;
    json_t *text, *seen = json_object();
    enum pith_status s = pith_templates_read(source, &t, err);
    json_object_foreach (t.text, name, text) {
        char key[sizeof start + 1 + PITH_TEMPLATE_NAME], spelt[PITH_TEMPLATE_NAME];
        const bool usual = strcmp(name, "default") == 0;
        pith_template_key(name, spelt);
        snprintf(key, sizeof key, "%s%s%s", start, usual ? "" : ".", usual ? "" : spelt);
        if (s == PITH_OK && json_object_get(seen, key))
            s = pith_fail(err, PITH_UNSUPPORTED,
                          "%s: a GGUF file has no place for a second chat template \"%s\"", source,
                          spelt);
        if (s == PITH_OK && json_object_set_new(seen, key, json_true()) != 0)
            s = pith_fail_nomem(err, "a chat template");
        if (s == PITH_OK) pith_gguf_put_text(keys, key, json_string_value(text));
    }
    json_decref(seen);
    pith_templates_free(&t);
    return s;
}

static enum pith_status put_all(struct tokens *t, struct pith_gguf_keys *keys,
                                struct pith_error *err)
{
    bool present = false;
    PITH_TRY(pith_tokenizer_present(t->source, &present, err));
    if (!present)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: a GGUF file needs the model's tokenizer.json, or another file of its"
                         " tokenizer",
                         t->source);
    PITH_TRY(pith_tokenizer_open(t->source, &t->own, err));
    PITH_TRY(pith_tokenizer_folder_json(t->source, &t->json, err));
    PITH_TRY(read_spm(t, err));
    PITH_TRY(t->has_spm ? from_spm(t, err) : from_json(t, err));
    put_tokens(t, keys);
    if (strcmp(t->model, "gpt2") == 0) PITH_TRY(put_merges(t, keys, err));
    put_special(t, keys);
    PITH_TRY(put_ends(t, keys, err));
    return put_templates(t->source, keys, err);
}

/* The keys of the file that the model came from. */
static void copy_keys(const struct pith_gguf *g, struct pith_gguf_keys *keys)
{
    for (size_t i = 0; i < g->key_count; i++)
        if (strncmp(g->keys[i].name, "tokenizer.", 10) == 0) pith_gguf_copy_key(keys, &g->keys[i]);
}

enum pith_status pith_gguf_put_tokenizer(const char *source, const struct pith_gguf *g,
                                         uint32_t vocab, struct pith_gguf_keys *keys,
                                         struct pith_error *err)
{
    if (g) {
        copy_keys(g, keys);
        return PITH_OK;
    }
    struct tokens t = {
        .source = source, .count = vocab, .token = pith_zalloc(vocab, sizeof *t.token)};
    t.spm.unk = t.spm.bos = t.spm.eos = -1;
    const enum pith_status s = t.token ? put_all(&t, keys, err) : pith_fail_nomem(err, "tokenizer");
    json_decref(t.json);
    pith_tokenizer_close(t.own);
    if (t.has_spm) pith_spm_model_free(&t.spm);
    pith_free(t.token);
    return s;
}
