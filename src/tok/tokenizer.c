#include "tok/tokenizer.h"

#include "base/file.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/mem.h"
#include "io/gguf/model.h"
#include "tok/files/added_files.h"
#include "tok/files/gguf.h"
#include "tok/files/tok_json.h"
#include "tok/jinja/jinja.h"
#include "tok/kind.h"
#include "tok/special.h"
#include "tok/unicode/utf8.h"

#include <string.h>

/* The largest tokenizer files known have 33 MB. */
#define MAX_FILE ((size_t)512 << 20)
/* Positions in a text have 32 bits, and normalization may make it three times as long. */
#define MAX_TEXT ((size_t)256 << 20)

/* By the file's name in a checkpoint's folder; the first file that exists is read. */
static const struct {
    const char *file;
    const struct pith_tok_kind *kind;
} kinds[] = {{"tokenizer.json", &pith_tok_json},
             {"tekken.json", &pith_tok_tekken},
             {"tokenizer.model", &pith_tok_spm},
             {"tiktoken.model", &pith_tok_tiktoken},
             {"vocab.json", &pith_tok_vocab}};

bool pith_ids_push(struct pith_ids *ids, int32_t id)
{
    int32_t *p = pith_grow(ids->id, ids->count, &ids->cap, 64, sizeof *p);
    if (!p) return false;
    ids->id = p;
    ids->id[ids->count++] = id;
    return true;
}

void pith_ids_free(struct pith_ids *ids)
{
    pith_free(ids->id);
    *ids = (struct pith_ids){0};
}

bool pith_ids_has(const struct pith_ids *ids, int32_t id)
{
    for (size_t i = 0; i < ids->count; i++)
        if (ids->id[i] == id) return true;
    return false;
}

static struct pith_tokenizer *new_tokenizer(const struct pith_tok_kind *kind)
{
    struct pith_tokenizer *t = pith_zalloc(1, sizeof *t);
    if (!t) return NULL;
    t->kind = kind;
    t->bos = t->eos = -1;
    return t;
}

static enum pith_status from_memory(const struct pith_tok_kind *kind, const char *data, size_t size,
                                    struct pith_tokenizer **out, struct pith_error *err)
{
    struct pith_tokenizer *t = new_tokenizer(kind);
    if (!t) return pith_fail_nomem(err, "tokenizer");
    const enum pith_status s = kind->read(t, data, size, err);
    if (s == PITH_OK) *out = t;
    else pith_tokenizer_close(t);
    return s;
}

enum pith_status pith_tokenizer_from_json(const char *text, size_t size,
                                          struct pith_tokenizer **out, struct pith_error *err)
{
    return from_memory(&pith_tok_json, text, size, out, err);
}

enum pith_status pith_tokenizer_from_spm(const uint8_t *data, size_t size,
                                         struct pith_tokenizer **out, struct pith_error *err)
{
    return from_memory(&pith_tok_spm, (const char *)data, size, out, err);
}

static enum pith_status read_as_json(struct pith_tokenizer *t, const char *dir,
                                     struct pith_error *err)
{
    const struct pith_tok_kind *kind = t->kind;
    json_t *json = NULL;
    t->kind = &pith_tok_json;
    enum pith_status s = kind->json(dir, &json, err);
    if (s == PITH_OK) s = pith_tok_json_fill(t, json, err);
    json_decref(json);
    PITH_TRY(s);
    if (kind->bos) t->bos = pith_tokenizer_find(t, kind->bos);
    if (kind->eos) t->eos = pith_tokenizer_find(t, kind->eos);
    return PITH_OK;
}

static enum pith_status read_json(struct pith_tokenizer *t, const char *dir, const char *path,
                                  struct pith_error *err)
{
    json_t *json = NULL;
    char *data;
    size_t size;
    PITH_TRY(pith_file_read(path, MAX_FILE, &data, &size, err));
    enum pith_status s = pith_json_parse(data, size, "tokenizer.json", &json, err);
    pith_free(data);
    if (s != PITH_OK) return pith_fail_in(err, s, path);
    s = pith_added_json(json, dir, err);
    if (s == PITH_OK) {
        s = pith_tok_json_fill(t, json, err);
        if (s != PITH_OK) s = pith_fail_in(err, s, path);
    }
    json_decref(json);
    return s;
}

static enum pith_status fill(struct pith_tokenizer *t, const char *dir, const char *path,
                             struct pith_error *err)
{
    if (t->kind == &pith_tok_json) return read_json(t, dir, path, err);
    if (t->kind->read_dir || t->kind->json) {
        const enum pith_status s = t->kind->json ? read_as_json(t, dir, err)
                                                 : t->kind->read_dir(t, dir, err);
        return s == PITH_OK ? s : pith_fail_in(err, s, dir);
    }
    char *data;
    size_t size;
    PITH_TRY(pith_file_read(path, MAX_FILE, &data, &size, err));
    const enum pith_status s = t->kind->read(t, data, size, err);
    pith_free(data);
    return s == PITH_OK ? s : pith_fail_in(err, s, path);
}

enum pith_status pith_tokenizer_from_gguf(const struct pith_gguf *g, struct pith_tokenizer **out,
                                          struct pith_error *err)
{
    struct pith_tokenizer *t = new_tokenizer(NULL);
    const enum pith_status s = t ? pith_tok_gguf_read(t, g, err)
                                 : pith_fail_nomem(err, "tokenizer");
    if (s == PITH_OK) *out = t;
    else pith_tokenizer_close(t);
    return s;
}

static enum pith_status open_gguf(const char *path, struct pith_tokenizer **out,
                                  struct pith_error *err)
{
    struct pith_gguf g;
    PITH_TRY(pith_gguf_open(path, &g, err));
    const enum pith_status s = pith_tokenizer_from_gguf(&g, out, err);
    pith_gguf_close(&g);
    return s;
}

/* The first kind whose file the folder has, and its path, which is the caller's; both NULL when it
 * has none. */
static enum pith_status kind_of(const char *dir, const struct pith_tok_kind **kind, char **path,
                                struct pith_error *err)
{
    *kind = NULL;
    for (size_t i = 0; i < PITH_COUNT(kinds); i++) {
        *path = pith_path_join(dir, kinds[i].file);
        if (!*path) return pith_fail_nomem(err, "path");
        if (pith_path_exists(*path)) {
            *kind = kinds[i].kind;
            return PITH_OK;
        }
        pith_free(*path);
    }
    *path = NULL;
    return PITH_OK;
}

enum pith_status pith_tokenizer_present(const char *dir, bool *present, struct pith_error *err)
{
    char *file;
    PITH_TRY(pith_gguf_at(dir, &file, err));
    *present = file != NULL;
    pith_free(file);
    if (*present) return PITH_OK;
    const struct pith_tok_kind *kind;
    PITH_TRY(kind_of(dir, &kind, &file, err));
    *present = kind != NULL;
    pith_free(file);
    return PITH_OK;
}

enum pith_status pith_tokenizer_json(const struct pith_checkpoint *c, json_t **out,
                                     struct pith_error *err)
{
    return pith_tok_gguf_json(c->gguf, out, err);
}

enum pith_status pith_tokenizer_open(const char *dir, struct pith_tokenizer **out,
                                     struct pith_error *err)
{
    char *file;
    PITH_TRY(pith_gguf_at(dir, &file, err));
    if (file) {
        const enum pith_status s = open_gguf(file, out, err);
        pith_free(file);
        return s;
    }
    const struct pith_tok_kind *kind;
    char *path;
    PITH_TRY(kind_of(dir, &kind, &path, err));
    if (!kind)
        return pith_fail(err, PITH_IO,
                         "%s: has no tokenizer (tokenizer.json, tekken.json, tokenizer.model, "
                         "tiktoken.model, or vocab.json and merges.txt)",
                         dir);
    struct pith_tokenizer *t = new_tokenizer(kind);
    enum pith_status s = t ? fill(t, dir, path, err) : pith_fail_nomem(err, "tokenizer");
    pith_free(path);
    if (s == PITH_OK) s = pith_special_read(t, kind, dir, err);
    if (s == PITH_OK) *out = t;
    else pith_tokenizer_close(t);
    return s;
}

enum pith_status pith_tokenizer_folder_json(const char *dir, json_t **out, struct pith_error *err)
{
    const struct pith_tok_kind *kind;
    char *path;
    *out = NULL;
    PITH_TRY(kind_of(dir, &kind, &path, err));
    enum pith_status s = PITH_OK;
    if (kind == &pith_tok_json) {
        s = pith_json_load(path, MAX_FILE, out, err);
        if (s == PITH_OK) s = pith_added_json(*out, dir, err);
    } else if (kind && kind->json) {
        s = kind->json(dir, out, err);
    }
    pith_free(path);
    if (s == PITH_OK) return PITH_OK;
    json_decref(*out);
    *out = NULL;
    return pith_fail_in(err, s, dir);
}

void pith_tokenizer_close(struct pith_tokenizer *t)
{
    if (!t) return;
    if (t->kind && t->kind->free) t->kind->free(t->model);
    pith_decoder_free(&t->decoder);
    pith_ids_free(&t->before);
    pith_ids_free(&t->after);
    pith_free(t);
}

size_t pith_tokenizer_vocab(const struct pith_tokenizer *t)
{
    return t->kind->vocab(t->model);
}

int32_t pith_tokenizer_bos(const struct pith_tokenizer *t)
{
    return t->bos;
}

int32_t pith_tokenizer_eos(const struct pith_tokenizer *t)
{
    return t->eos;
}

bool pith_tokenizer_adds_bos(const struct pith_tokenizer *t)
{
    return pith_ids_has(&t->before, t->bos);
}

bool pith_tokenizer_adds_eos(const struct pith_tokenizer *t)
{
    return pith_ids_has(&t->after, t->eos);
}

int32_t pith_tokenizer_find(const struct pith_tokenizer *t, const char *token)
{
    return t->kind->find(t->model, token, strlen(token));
}

void pith_tokenizer_listen(struct pith_tokenizer *t, const struct pith_progress *listener)
{
    t->listener = listener;
}

static enum pith_status append_ids(struct pith_ids *out, const struct pith_ids *ids,
                                   struct pith_error *err)
{
    for (size_t i = 0; i < ids->count; i++)
        if (!pith_ids_push(out, ids->id[i])) return pith_fail_nomem(err, "token ids");
    return PITH_OK;
}

/* Encodes well-formed text, with what the post-processor puts around it. */
static enum pith_status encode_valid(const struct pith_tokenizer *t, const char *text, size_t size,
                                     bool special, struct pith_ids *out, struct pith_error *err)
{
    if (special) PITH_TRY(append_ids(out, &t->before, err));
    const struct pith_tok_text in = {.text = text, .size = size, .listener = t->listener};
    if (size) PITH_TRY(t->kind->encode(t->model, &in, out, err));
    return special ? append_ids(out, &t->after, err) : PITH_OK;
}

enum pith_status pith_tokenizer_encode(const struct pith_tokenizer *t, const char *text,
                                       size_t size, bool special, struct pith_ids *out,
                                       struct pith_error *err)
{
    if (size > MAX_TEXT)
        return pith_fail(err, PITH_LIMIT, "a text of %zu bytes is too long to encode at once",
                         size);
    const size_t before = out->count;
    enum pith_status s;
    if (pith_utf8_valid(text, size)) {
        s = encode_valid(t, text, size, special, out, err);
    } else {
        struct pith_str clean = {0};
        pith_utf8_clean(text, size, &clean);
        s = clean.failed ? pith_fail_nomem(err, "text")
                         : encode_valid(t, clean.data, clean.len, special, out, err);
        pith_str_free(&clean);
    }
    if (s != PITH_OK) out->count = before;
    return s;
}

enum pith_status pith_tokenizer_encode_prompt(const struct pith_tokenizer *t,
                                              const struct pith_rendered *prompt,
                                              struct pith_ids *out, struct pith_error *err)
{
    const struct pith_tok_text in = {prompt->text, prompt->size, prompt->marks, true, t->listener};
    const size_t before = out->count;
    if (in.size > MAX_TEXT || !pith_utf8_valid(in.text, in.size))
        return pith_fail(err, PITH_LIMIT, "a prompt of %zu bytes cannot be encoded", in.size);
    const enum pith_status s = in.size ? t->kind->encode(t->model, &in, out, err) : PITH_OK;
    if (s != PITH_OK) out->count = before;
    return s;
}

static enum pith_status push_id(const struct pith_tokenizer *t, struct pith_decoding *g, int32_t id,
                                bool skip_special, struct pith_str *out, struct pith_error *err)
{
    size_t len = 0;
    const char *text = t->kind->token(t->model, id, skip_special, &len);
    return text ? pith_decoding_push(g, text, len, out, err) : PITH_OK;
}

enum pith_status pith_tokenizer_decode(const struct pith_tokenizer *t, const int32_t *ids,
                                       size_t count, bool skip_special, struct pith_str *out,
                                       struct pith_error *err)
{
    struct pith_decoding *g;
    PITH_TRY(pith_decoding_new(&t->decoder, false, &g, err));
    enum pith_status s = PITH_OK;
    for (size_t i = 0; s == PITH_OK && i < count; i++)
        s = push_id(t, g, ids[i], skip_special, out, err);
    if (s == PITH_OK) s = pith_decoding_end(g, out, err);
    pith_decoding_free(g);
    return s == PITH_OK && out->failed ? pith_fail_nomem(err, "decoded text") : s;
}

enum pith_status pith_tokenizer_bytes(const struct pith_tokenizer *t, int32_t id,
                                      struct pith_str *out, struct pith_error *err)
{
    size_t len = 0;
    const char *text = t->kind->token(t->model, id, true, &len);
    return text ? pith_decoder_bytes(&t->decoder, text, len, out, err) : PITH_OK;
}

enum pith_status pith_stream_push(const struct pith_tokenizer *t, struct pith_stream *s, int32_t id,
                                  struct pith_str *out, struct pith_error *err)
{
    if (!s->decoding) PITH_TRY(pith_decoding_new(&t->decoder, s->started, &s->decoding, err));
    return push_id(t, s->decoding, id, !s->special, out, err);
}

enum pith_status pith_stream_end(struct pith_stream *s, struct pith_str *out,
                                 struct pith_error *err)
{
    const enum pith_status status = s->decoding ? pith_decoding_end(s->decoding, out, err)
                                                : PITH_OK;
    pith_decoding_free(s->decoding);
    s->decoding = NULL;
    return status;
}
