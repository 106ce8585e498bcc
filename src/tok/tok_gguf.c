/* A tokenizer from the keys of a GGUF file: byte-level BPE ("gpt2") by way of the tokenizer.json
 * that says the same, SentencePiece ("llama") piece by piece. */
#include "tok/gguf.h"

#include "base/mem.h"
#include "tok/merge.h"
#include "tok/spm_model.h"
#include "tok/tok_json.h"
#include "tok/utf8.h"

#include <string.h>

/* The lists of a vocabulary, of equal length. */
struct lists {
    const struct pith_gguf *g;
    const struct pith_gguf_key *tokens, *types, *scores, *merges; /* all but tokens may be NULL */
};

static enum pith_status get_list(const struct pith_gguf *g, const char *name,
                                 enum pith_gguf_kind element, const struct pith_gguf_key **out,
                                 struct pith_error *err)
{
    *out = pith_gguf_find(g, name);
    if (!*out || ((*out)->kind == PITH_GGUF_ARRAY && (*out)->element == element)) return PITH_OK;
    return pith_fail(err, PITH_FORMAT, "%s: key \"%s\" is no list of the right type", g->path,
                     name);
}

static enum pith_status get_lists(const struct pith_gguf *g, struct lists *l,
                                  struct pith_error *err)
{
    *l = (struct lists){.g = g};
    PITH_TRY(get_list(g, "tokenizer.ggml.tokens", PITH_GGUF_STRING, &l->tokens, err));
    PITH_TRY(get_list(g, "tokenizer.ggml.token_type", PITH_GGUF_I32, &l->types, err));
    PITH_TRY(get_list(g, "tokenizer.ggml.scores", PITH_GGUF_F32, &l->scores, err));
    PITH_TRY(get_list(g, "tokenizer.ggml.merges", PITH_GGUF_STRING, &l->merges, err));
    if (!l->tokens || l->tokens->count == 0)
        return pith_fail(err, PITH_FORMAT, "%s: the file has no tokenizer", g->path);
    if ((l->types && l->types->count < l->tokens->count) ||
        (l->scores && l->scores->count < l->tokens->count))
        return pith_fail(err, PITH_FORMAT, "%s: fewer types or scores than tokens", g->path);
    return PITH_OK;
}

static int32_t type_of(const struct lists *l, size_t id)
{
    int32_t type = PITH_SPM_NORMAL;
    if (l->types) memcpy(&type, l->types->data + id * sizeof type, sizeof type);
    return type;
}

static float score_of(const struct lists *l, size_t id)
{
    float score = 0;
    if (l->scores) memcpy(&score, l->scores->data + id * sizeof score, sizeof score);
    return score;
}

/* --- byte-level BPE --------------------------------------------------------------------------- */

static enum pith_status put_tokens(const struct lists *l, json_t *vocab, json_t *added,
                                   struct pith_error *err)
{
    const char *text;
    size_t offset = 0, length, kept = 0;
    for (size_t id = 0; pith_gguf_next_string(l->tokens, &offset, &text, &length); id++) {
        const int32_t type = type_of(l, id);
        const bool special = type == PITH_SPM_CONTROL || type == PITH_SPM_UNKNOWN;
        if (type == PITH_SPM_UNUSED) continue;
        if (memchr(text, 0, length) ||
            json_object_setn_new(vocab, text, length, json_integer((json_int_t)id)) != 0)
            return pith_fail(err, PITH_FORMAT, "%s: token %zu is not a text", l->g->path, id);
        kept++;
        if (!special && type != PITH_SPM_USER) continue;
        json_t *token =
            json_pack("{s:I, s:s%, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content", text,
                      length, "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0,
                      "special", (int)special);
        if (json_array_append_new(added, token) != 0) return pith_fail_nomem(err, "tokenizer");
    }
    return json_object_size(vocab) == kept
               ? PITH_OK
               : pith_fail(err, PITH_FORMAT, "%s: two tokens are the same", l->g->path);
}

static enum pith_status put_merges(const struct lists *l, json_t *merges, struct pith_error *err)
{
    const char *text;
    size_t offset = 0, length;
    if (!l->merges)
        return pith_fail(err, PITH_FORMAT, "%s: the tokenizer has no merges", l->g->path);
    while (pith_gguf_next_string(l->merges, &offset, &text, &length))
        if (json_array_append_new(merges, json_stringn(text, length)) != 0)
            return pith_fail(err, PITH_FORMAT, "%s: a merge is not UTF-8", l->g->path);
    return PITH_OK;
}

static json_t *cut(const char *pattern)
{
    if (strcmp(pattern, PITH_GGUF_DIGITS) == 0)
        return json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1);
    return json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", pattern,
                     "behavior", "Isolated", "invert", 0);
}

static json_t *pre_tokenizer(const struct pith_gguf_pre *pre)
{
    json_t *list = json_array();
    int bad = !list;
    for (size_t i = 0; !bad && i < PITH_GGUF_CUTS && pre->cut[i]; i++)
        bad = json_array_append_new(list, cut(pre->cut[i]));
    if (!bad)
        bad = json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel",
                                                    "add_prefix_space", 0, "trim_offsets", 1,
                                                    "use_regex", (int)pre->own));
    json_t *out = bad ? NULL : json_pack("{s:s, s:O}", "type", "Sequence", "pretokenizers", list);
    json_decref(list);
    return out;
}

/* Ids in front of and behind a text, -1 where there is none. */
struct around {
    int64_t bos, eos; /* that there are */
    bool add_bos, add_eos;
};

static enum pith_status read_around(const struct pith_gguf *g, uint64_t vocab, struct around *a,
                                    struct pith_error *err)
{
    uint64_t bos = UINT64_MAX, eos = UINT64_MAX;
    PITH_TRY(pith_gguf_get_uint(g, "tokenizer.ggml.bos_token_id", UINT32_MAX, &bos, err));
    PITH_TRY(pith_gguf_get_uint(g, "tokenizer.ggml.eos_token_id", UINT32_MAX, &eos, err));
    PITH_TRY(pith_gguf_get_bool(g, "tokenizer.ggml.add_bos_token", &a->add_bos, err));
    PITH_TRY(pith_gguf_get_bool(g, "tokenizer.ggml.add_eos_token", &a->add_eos, err));
    if (bos < vocab) a->bos = (int64_t)bos;
    if (eos < vocab) a->eos = (int64_t)eos;
    return PITH_OK;
}

static json_t *piece(const char *id)
{
    return json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", id, "type_id", 0);
}

/* The token of an id, NULL when it is not in the vocabulary. */
static const char *name_of(const json_t *vocab, int64_t id)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)vocab, key, value)
        if (json_integer_value(value) == id) return key;
    return NULL;
}

static json_t *special_token(const char *name, int64_t id)
{
    return json_pack("{s:s, s:[I], s:[s]}", "id", name, "ids", (json_int_t)id, "tokens", name);
}

static json_t *post_processor(const json_t *vocab, const struct around *a)
{
    const char *bos = a->add_bos && a->bos >= 0 ? name_of(vocab, a->bos) : NULL;
    const char *eos = a->add_eos && a->eos >= 0 ? name_of(vocab, a->eos) : NULL;
    json_t *single = json_array(), *tokens = json_object();
    int bad = !single || !tokens;
    if (!bos && !eos) bad = 1;
    if (!bad && bos)
        bad = json_array_append_new(single, piece(bos)) ||
              json_object_set_new(tokens, bos, special_token(bos, a->bos));
    if (!bad)
        bad = json_array_append_new(
            single, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
    if (!bad && eos)
        bad = json_array_append_new(single, piece(eos)) ||
              json_object_set_new(tokens, eos, special_token(eos, a->eos));
    json_t *out = bad ? NULL
                      : json_pack("{s:s, s:O, s:[], s:O}", "type", "TemplateProcessing", "single",
                                  single, "pair", "special_tokens", tokens);
    json_decref(single);
    json_decref(tokens);
    return out;
}

static enum pith_status read_pre(const struct pith_gguf *g, const struct pith_gguf_pre **out,
                                 struct pith_error *err)
{
    char *name = NULL;
    PITH_TRY(pith_gguf_get_text(g, "tokenizer.ggml.pre", &name, err));
    *out = pith_gguf_pre_find(name ? name : "default"); /* as llama.cpp has it */
    const enum pith_status s = *out ? PITH_OK
                                    : pith_fail(err, PITH_UNSUPPORTED,
                                                "%s: tokenizer.ggml.pre \"%.60s\" is not supported",
                                                g->path, name ? name : "");
    pith_free(name);
    return s;
}

static enum pith_status assemble(const struct lists *l, const struct pith_gguf_pre *pre,
                                 const struct around *a, json_t *json, struct pith_error *err)
{
    json_t *model = json_object_get(json, "model"), *vocab = json_object_get(model, "vocab");
    PITH_TRY(put_tokens(l, vocab, json_object_get(json, "added_tokens"), err));
    PITH_TRY(put_merges(l, json_object_get(model, "merges"), err));
    const bool surround = (a->add_bos && a->bos >= 0) || (a->add_eos && a->eos >= 0);
    if (json_object_set_new(json, "pre_tokenizer", pre_tokenizer(pre)) != 0 ||
        (pre->nfc &&
         json_object_set_new(json, "normalizer", json_pack("{s:s}", "type", "NFC")) != 0) ||
        (surround && json_object_set_new(json, "post_processor", post_processor(vocab, a)) != 0))
        return pith_fail(err, PITH_FORMAT, "%s: the tokens around a text are not in the vocabulary",
                         l->g->path);
    return PITH_OK;
}

enum pith_status pith_tok_gguf_json(const struct pith_gguf *g, json_t **out, struct pith_error *err)
{
    struct lists l;
    const struct pith_gguf_pre *pre;
    struct around a = {-1, -1, false, false};
    PITH_TRY(get_lists(g, &l, err));
    PITH_TRY(read_pre(g, &pre, err));
    a.add_bos = pre->add_bos;
    PITH_TRY(read_around(g, l.tokens->count, &a, err));
    json_t *json = json_pack("{s:s, s:n, s:n, s:[], s:n, s:n, s:n, s:{s:s, s:b, s:b, s:b},"
                             " s:{s:s, s:n, s:b, s:b, s:b, s:{}, s:[]}}",
                             "version", "1.0", "truncation", "padding", "added_tokens",
                             "normalizer", "pre_tokenizer", "post_processor", "decoder", "type",
                             "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1,
                             "model", "type", "BPE", "unk_token", "fuse_unk", 0, "byte_fallback", 0,
                             "ignore_merges", (int)pre->ignore_merges, "vocab", "merges");
    if (!json) return pith_fail_nomem(err, "tokenizer");
    const enum pith_status s = assemble(&l, pre, &a, json, err);
    if (s == PITH_OK) *out = json;
    else json_decref(json);
    return s;
}

static enum pith_status read_bpe(struct pith_tokenizer *t, const struct pith_gguf *g,
                                 struct pith_error *err)
{
    struct around a = {-1, -1, false, false};
    json_t *json;
    PITH_TRY(pith_tok_gguf_json(g, &json, err));
    t->kind = &pith_tok_json;
    const enum pith_status s = pith_tok_json_fill(t, json, err);
    json_decref(json);
    PITH_TRY(s);
    PITH_TRY(read_around(g, pith_tokenizer_vocab(t), &a, err));
    t->bos = (int32_t)a.bos;
    t->eos = (int32_t)a.eos;
    return PITH_OK;
}

/* --- SentencePiece ---------------------------------------------------------------------------- */

/* Files that llama.cpp's converter wrote may call what fills up the vocabulary unknown: there is
 * one unknown piece, the one with the id that the file names, else the first of that type. */
static enum pith_status add_pieces(const struct lists *l, struct pith_spm_model *m,
                                   struct pith_error *err)
{
    const char *text;
    size_t offset = 0, length, bytes = 0;
    uint64_t unk = UINT64_MAX;
    PITH_TRY(pith_gguf_get_uint(l->g, "tokenizer.ggml.unknown_token_id", UINT32_MAX, &unk, err));
    for (size_t id = 0; unk >= l->tokens->count && id < l->tokens->count; id++)
        if (type_of(l, id) == PITH_SPM_UNKNOWN) unk = id;
    for (size_t id = 0; pith_gguf_next_string(l->tokens, &offset, &text, &length); id++) {
        int32_t type = type_of(l, id);
        if (id == unk) type = PITH_SPM_UNKNOWN;
        else if (type == PITH_SPM_UNKNOWN) type = PITH_SPM_CONTROL;
        PITH_TRY(pith_spm_add(m, text, length, type, score_of(l, id), err));
        bytes += type == PITH_SPM_BYTE;
    }
    m->byte_fallback = bytes >= 256;
    return PITH_OK;
}

static enum pith_status push(struct pith_ids *ids, int64_t id, struct pith_error *err)
{
    return pith_ids_push(ids, (int32_t)id) ? PITH_OK : pith_fail_nomem(err, "tokenizer");
}

static enum pith_status read_spm(struct pith_tokenizer *t, const struct pith_gguf *g,
                                 struct pith_error *err)
{
    struct lists l;
    struct around a = {1, 2, true, false};
    PITH_TRY(get_lists(g, &l, err));
    struct pith_spm_model *m = pith_zalloc(1, sizeof *m);
    if (!m) return pith_fail_nomem(err, "tokenizer");
    t->kind = &pith_tok_spm;
    t->model = m;
    m->unk = m->bos = m->eos = -1;
    m->dummy_prefix = m->escape_spaces = true;
    PITH_TRY(pith_gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &m->dummy_prefix, err));
    PITH_TRY(
        pith_gguf_get_bool(g, "tokenizer.ggml.remove_extra_whitespaces", &m->collapse_spaces, err));
    PITH_TRY(add_pieces(&l, m, err));
    PITH_TRY(read_around(g, l.tokens->count, &a, err));
    PITH_TRY(pith_spm_finish(m, a.bos, a.eos, err));
    t->bos = m->bos;
    t->eos = m->eos;
    if (a.add_bos && t->bos >= 0) PITH_TRY(push(&t->before, t->bos, err));
    if (a.add_eos && t->eos >= 0) PITH_TRY(push(&t->after, t->eos, err));
    return pith_tok_spm_decoder(t, m, err);
}

enum pith_status pith_tok_gguf_read(struct pith_tokenizer *t, const struct pith_gguf *g,
                                    struct pith_error *err)
{
    char *model = NULL;
    PITH_TRY(pith_gguf_get_text(g, "tokenizer.ggml.model", &model, err));
    enum pith_status s;
    if (model && strcmp(model, "gpt2") == 0) s = read_bpe(t, g, err);
    else if (model && strcmp(model, "llama") == 0) s = read_spm(t, g, err);
    else
        s = pith_fail(err, PITH_UNSUPPORTED, "%s: tokenizer \"%.60s\" is not supported", g->path,
                      model ? model : "");
    pith_free(model);
    return s;
}
