/* The Unigram model of a tokenizer.json: a list of tokens with their scores. */
#include "base/hash.h"
#include "base/mem.h"
#include "tok/kind.h"
#include "tok/model.h"

#include <math.h>
#include <string.h>

static const char what[] = "model";

/* How far below the worst score an unknown character lies, in the references. */
#define UNKNOWN_PENALTY 10.0

struct unigram {
    struct pith_vocab vocab; /* an id is the place in the list */
    struct pith_unigram rule;
    int32_t byte[256];
    bool byte_fallback;
};

static void free_model(void *model)
{
    struct unigram *m = model;
    if (!m) return;
    pith_vocab_free(&m->vocab);
    pith_unigram_free(&m->rule);
    pith_free(m);
}

/* ["text", score] number `id`. */
static enum pith_status read_token(struct unigram *m, const json_t *token, size_t id,
                                   struct pith_error *err)
{
    const json_t *text = json_array_get(token, 0), *score = json_array_get(token, 1);
    if (!json_is_string(text) || !json_is_number(score) || json_array_size(token) != 2)
        return pith_fail(err, PITH_FORMAT, "%s: entry %zu of the vocabulary is not [text, score]",
                         what, id);
    m->rule.score[id] = json_number_value(score);
    return pith_vocab_add(&m->vocab, json_string_value(text), json_string_length(text), (int64_t)id,
                          err);
}

static enum pith_status read_vocab(struct unigram *m, const json_t *list, struct pith_error *err)
{
    if (!json_is_array(list) || json_array_size(list) == 0)
        return pith_fail(err, PITH_FORMAT, "%s: no \"vocab\" list", what);
    const size_t count = json_array_size(list);
    m->rule.score = pith_alloc(count, sizeof *m->rule.score);
    if (!m->rule.score || !pith_vocab_reserve(&m->vocab, count)) return pith_fail_nomem(err, what);
    double worst = INFINITY;
    for (size_t id = 0; id < count; id++) {
        PITH_TRY(read_token(m, json_array_get(list, id), id, err));
        if (m->rule.score[id] < worst) worst = m->rule.score[id];
    }
    m->rule.unk_score = worst - UNKNOWN_PENALTY;
    return PITH_OK;
}

static enum pith_status read_unknown(struct unigram *m, const json_t *json, struct pith_error *err)
{
    const json_t *unk = json_object_get(json, "unk_id");
    m->rule.unk = -1;
    if (unk && !json_is_null(unk)) {
        if (!json_is_integer(unk) || json_integer_value(unk) < 0 ||
            (uint64_t)json_integer_value(unk) >= m->vocab.count)
            return pith_fail(err, PITH_FORMAT, "%s: \"unk_id\" is not in the vocabulary", what);
        m->rule.unk = (int32_t)json_integer_value(unk);
    }
    pith_tok_model_bytes(&m->vocab, m->byte);
    return pith_json_get_bool(json, "byte_fallback", &m->byte_fallback, what, err);
}

static enum pith_status build(struct unigram *m, struct pith_error *err)
{
    struct pith_trie_key *key = pith_alloc(m->vocab.count, sizeof *key);
    if (!key) return pith_fail_nomem(err, what);
    size_t count = 0;
    for (size_t id = 0; id < m->vocab.count; id++) {
        size_t len;
        const char *text = pith_vocab_text(&m->vocab, (int64_t)id, &len);
        if (len) key[count++] = (struct pith_trie_key){text, (uint32_t)len, (int32_t)id};
    }
    const enum pith_status s = pith_unigram_build(&m->rule, key, count, err);
    pith_free(key);
    return s;
}

static enum pith_status read_model(void **model, const json_t *json, struct pith_error *err)
{
    struct unigram *m = *model = pith_zalloc(1, sizeof *m);
    if (!m) return pith_fail_nomem(err, what);
    PITH_TRY(read_vocab(m, json_object_get(json, "vocab"), err));
    PITH_TRY(read_unknown(m, json, err));
    return build(m, err);
}

/* ---- encoding ---- */

struct encoding {
    const struct unigram *m;
    const char *text;
    size_t at, len; /* the unknown characters that wait to become one token; len == 0: none */
    struct pith_ids *out;
};

/* Unknown text is looked up once more as a whole, as in the reference; then it falls back to its
 * bytes, when all of them are tokens, or is the unknown token. */
static bool put_unknown(struct encoding *e)
{
    const struct unigram *m = e->m;
    const char *text = e->text + e->at;
    const size_t len = e->len;
    if (len == 0) return true;
    e->len = 0;
    const int32_t id = pith_vocab_find(&m->vocab, text, len);
    if (id >= 0) return pith_ids_push(e->out, id);
    bool bytes = m->byte_fallback;
    for (size_t i = 0; bytes && i < len; i++) bytes = m->byte[(uint8_t)text[i]] >= 0;
    if (!bytes) return pith_ids_push(e->out, m->rule.unk);
    for (size_t i = 0; i < len; i++)
        if (!pith_ids_push(e->out, m->byte[(uint8_t)text[i]])) return false;
    return true;
}

static enum pith_status put(void *ctx, int32_t id, size_t at, size_t len, struct pith_error *err)
{
    struct encoding *e = ctx;
    bool ok = true;
    if (id == e->m->rule.unk) {
        if (e->len == 0) e->at = at;
        e->len += len;
    } else {
        ok = put_unknown(e) && pith_ids_push(e->out, id);
    }
    return ok ? PITH_OK : pith_fail_nomem(err, "token ids");
}

static enum pith_status encode(const void *model, struct pith_tok_model_run *run, const char *text,
                               size_t len, struct pith_ids *out, struct pith_error *err)
{
    const struct unigram *m = model;
    struct encoding e = {.m = m, .text = text, .out = out};
    PITH_TRY(pith_unigram_cut(&m->rule, &run->path, text, len, put, &e, err));
    return put_unknown(&e) ? PITH_OK : pith_fail_nomem(err, "token ids");
}

static const struct pith_vocab *vocab(const void *model)
{
    const struct unigram *m = model;
    return &m->vocab;
}

static uint64_t rules(const void *model)
{
    const struct unigram *m = model;
    return pith_hash64(m->rule.score, m->vocab.count * sizeof *m->rule.score);
}

const struct pith_tok_model_kind pith_tok_model_unigram = {
    .read = read_model,
    .free = free_model,
    .vocab = vocab,
    .encode = encode,
    .rules = rules,
};
