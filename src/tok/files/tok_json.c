/* tokenizer.json: the chain added tokens, normalizer, added tokens, pretokenizer, model of Hugging
 * Face tokenizers. */
#include "base/json.h"
#include "base/mem.h"
#include "tok/added.h"
#include "tok/files/tok_json.h"
#include "tok/kind.h"
#include "tok/model.h"
#include "tok/normalizer.h"
#include "tok/post.h"
#include "tok/pretokenizer.h"

#include <string.h>

struct model {
    struct pith_tok_model model;
    const struct pith_vocab *vocab; /* the model's */
    struct pith_added added;
    struct pith_normalizer normalizer;
    struct pith_pretokenizer pretokenizer;
};

static void free_model(void *model)
{
    struct model *m = model;
    if (!m) return;
    pith_tok_model_free(&m->model);
    pith_added_free(&m->added);
    pith_normalizer_free(&m->normalizer);
    pith_pretokenizer_free(&m->pretokenizer);
    pith_free(m);
}

static const char *token(const void *model, int32_t id, bool skip_special, size_t *len)
{
    const struct model *m = model;
    const struct pith_added_token *a = pith_added_by_id(&m->added, id);
    if (!a) return pith_vocab_text(m->vocab, id, len);
    if (skip_special && a->special) return NULL;
    *len = a->shown ? a->shown_len : a->len;
    return a->shown ? a->shown : a->text;
}

/* Ids around a text must be tokens, so that the model can rely on it. */
static enum pith_status check_ids(const struct model *m, const struct pith_ids *ids,
                                  struct pith_error *err)
{
    size_t len;
    for (size_t i = 0; i < ids->count; i++)
        if (!token(m, ids->id[i], false, &len))
            return pith_fail(err, PITH_FORMAT, "post_processor: no token has the id %d",
                             (int)ids->id[i]);
    return PITH_OK;
}

static enum pith_status read_parts(struct pith_tokenizer *t, struct model *m, const json_t *json,
                                   struct pith_error *err)
{
    if (!json_is_object(json)) return pith_fail(err, PITH_FORMAT, "not a JSON object");
    PITH_TRY(pith_normalizer_read(&m->normalizer, json_object_get(json, "normalizer"), err));
    PITH_TRY(pith_pretokenizer_read(&m->pretokenizer, json_object_get(json, "pre_tokenizer"), err));
    PITH_TRY(pith_tok_model_read(&m->model, json_object_get(json, "model"), err));
    m->vocab = m->model.kind->vocab(m->model.own);
    PITH_TRY(pith_added_read(&m->added, json_object_get(json, "added_tokens"), m->vocab,
                             &m->normalizer, m->model.kind->numbered, err));
    PITH_TRY(pith_decoder_read(&t->decoder, json_object_get(json, "decoder"), err));
    PITH_TRY(pith_post_read(json_object_get(json, "post_processor"), &t->before, &t->after, err));
    PITH_TRY(check_ids(m, &t->before, err));
    return check_ids(m, &t->after, err);
}

enum pith_status pith_tok_json_fill(struct pith_tokenizer *t, const json_t *json,
                                    struct pith_error *err)
{
    struct model *m = pith_zalloc(1, sizeof *m);
    if (!m) return pith_fail_nomem(err, "tokenizer");
    t->model = m;
    PITH_TRY(read_parts(t, m, json, err));
    if (t->before.count) t->bos = t->before.id[0];
    if (t->after.count) t->eos = t->after.id[t->after.count - 1];
    return PITH_OK;
}

static enum pith_status read_model(struct pith_tokenizer *t, const char *data, size_t size,
                                   struct pith_error *err)
{
    json_t *json;
    PITH_TRY(pith_json_parse(data, size, "tokenizer.json", &json, err));
    const enum pith_status s = pith_tok_json_fill(t, json, err);
    json_decref(json);
    return s;
}

/* ---- encoding ---- */

struct encoding {
    const struct model *m;
    struct pith_ids *out;
    struct pith_normal_run normal;
    struct pith_pretok_run *pretok;
    struct pith_tok_model_run model;
    const char *text; /* what the split functions cut */
    const uint8_t *marks;
    bool first; /* text starts where the whole input starts */
};

static enum pith_status encode_piece(void *ctx, struct pith_piece piece, struct pith_error *err)
{
    struct encoding *e = ctx;
    const struct pith_tok_model *m = &e->m->model;
    return m->kind->encode(m->own, &e->model, piece.text, piece.len, e->out, err);
}

static enum pith_status push_token(struct encoding *e, int32_t id, struct pith_error *err)
{
    return pith_ids_push(e->out, id) ? PITH_OK : pith_fail_nomem(err, "token ids");
}

/* A part of the normalized text. */
static enum pith_status normal_part(void *ctx, size_t from, size_t to,
                                    const struct pith_added_token *token, struct pith_error *err)
{
    struct encoding *e = ctx;
    if (token) return push_token(e, token->id, err);
    const struct pith_piece piece = {pith_str_text(&e->normal.text[0]) + from, to - from,
                                     e->first && e->normal.start && from == 0};
    return pith_pretokenizer_apply(e->pretok, piece, encode_piece, e, err);
}

/* Normalizes text[from..to) and cuts it; `plain`: no markup is in it. */
static enum pith_status cut_normal(struct encoding *e, size_t from, size_t to, bool plain,
                                   struct pith_error *err)
{
    PITH_TRY(pith_normalizer_apply(&e->m->normalizer, e->text + from, to - from, &e->normal, err));
    const size_t len = e->normal.text[0].len;
    uint8_t *marks = plain ? pith_alloc(len + 1, 1) : NULL;
    if (plain && !marks) return pith_fail_nomem(err, "a prompt");
    if (plain) memset(marks, 1, len);
    e->first = from == 0;
    const struct pith_added_text text = {pith_str_text(&e->normal.text[0]), len, true, marks};
    const enum pith_status s = pith_added_split(&e->m->added, &text, normal_part, e, err);
    pith_free(marks);
    return s;
}

static enum pith_status count_markup(void *ctx, size_t from, size_t to,
                                     const struct pith_added_token *token, struct pith_error *err)
{
    (void)from, (void)to, (void)err;
    *(size_t *)ctx += token && pith_added_markup(token);
    return PITH_OK;
}

/* The end of the bytes from `at` on that are marked alike. */
static size_t run_end(const struct encoding *e, size_t at, size_t to)
{
    const uint8_t mark = e->marks[at];
    while (at < to && e->marks[at] == mark) at++;
    return at;
}

/* Whether markup that is matched in normalized text may have come from marked bytes of a part. */
static enum pith_status typed_markup(struct encoding *e, size_t from, size_t to, size_t *found,
                                     struct pith_error *err)
{
    const struct pith_added *added = &e->m->added;
    for (size_t at = from, end; at < to; at = end) {
        end = run_end(e, at, to);
        if (!e->marks[at]) continue;
        PITH_TRY(pith_normalizer_apply(&e->m->normalizer, e->text + at, end - at, &e->normal, err));
        const struct pith_added_text text = {pith_str_text(&e->normal.text[0]),
                                             e->normal.text[0].len, true, NULL};
        PITH_TRY(pith_added_split(added, &text, count_markup, found, err));
    }
    for (size_t i = 0; i < added->count; i++) {
        const struct pith_added_token *t = &added->token[i];
        for (size_t at = from; t->normalized && pith_added_markup(t) && at + t->len <= to; at++)
            *found += memcmp(e->text + at, t->text, t->len) == 0 &&
                      memchr(e->marks + at, 1, t->len) != NULL;
    }
    return PITH_OK;
}

/* A part of the raw text. */
static enum pith_status raw_part(void *ctx, size_t from, size_t to,
                                 const struct pith_added_token *token, struct pith_error *err)
{
    struct encoding *e = ctx;
    size_t typed = 0, end;
    if (token) return push_token(e, token->id, err);
    if (e->marks && e->m->added.normal.count && memchr(e->marks + from, 1, to - from))
        PITH_TRY(typed_markup(e, from, to, &typed, err));
    if (!typed) return cut_normal(e, from, to, false, err);
    for (size_t at = from; at < to; at = end) {
        end = run_end(e, at, to);
        PITH_TRY(cut_normal(e, at, end, e->marks[at], err));
    }
    return PITH_OK;
}

static enum pith_status encode(const void *model, const struct pith_tok_text *in,
                               struct pith_ids *out, struct pith_error *err)
{
    const struct pith_progress *listener = in->listener;
    struct encoding e = {.m = model,
                         .out = out,
                         .normal.regex.beat.progress = listener,
                         .model.word.beat.progress = listener,
                         .model.path.beat.progress = listener,
                         .text = in->text,
                         .marks = in->marks};
    const struct pith_added_text text = {in->text, in->size, false, in->marks};
    PITH_TRY(pith_pretok_run_new(&e.m->pretokenizer, listener, &e.pretok, err));
    const enum pith_status s = pith_added_split(&e.m->added, &text, raw_part, &e, err);
    pith_pretok_run_free(e.pretok);
    pith_normal_run_free(&e.normal);
    pith_tok_model_run_free(&e.model);
    return s;
}

static int32_t find(const void *model, const char *text, size_t len)
{
    const struct model *m = model;
    const struct pith_added_token *a = pith_added_find(&m->added, text, len);
    return a ? a->id : pith_vocab_find(m->vocab, text, len);
}

static size_t vocab(const void *model)
{
    const struct model *m = model;
    return m->added.ids > m->vocab->ids ? m->added.ids : m->vocab->ids;
}

static uint64_t rules(const void *model)
{
    const struct model *m = model;
    return m->model.kind->rules ? m->model.kind->rules(m->model.own) : 0;
}

const struct pith_tok_kind pith_tok_json = {
    .read = read_model,
    .free = free_model,
    .encode = encode,
    .token = token,
    .find = find,
    .vocab = vocab,
    .rules = rules,
};
