/* A tokenizer from the keys of a GGUF file: BPE ("gpt2", "gemma4") by way of the tokenizer.json
 * that says the same, SentencePiece ("llama") piece by piece. */
#include "tok/files/gguf_lists.h"

#include "base/mem.h"
#include "tok/files/spm_model.h"
#include "tok/files/tok_json.h"
#include "tok/merge.h"
#include "tok/unicode/utf8.h"

#include <string.h>

/* --- BPE -------------------------------------------------------------------------------------- */

static enum pith_status put_merges(const struct pith_gguf_lists *l, json_t *merges,
                                   struct pith_error *err)
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
    if (!bad && !pre->marked)
        bad = json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel",
                                                    "add_prefix_space", 0, "trim_offsets", 1,
                                                    "use_regex", (int)pre->own));
    json_t *out = bad ? NULL : json_pack("{s:s, s:O}", "type", "Sequence", "pretokenizers", list);
    json_decref(list);
    return out;
}

/* What is put into a template: a text, or a token; type 1: of the second text of a pair. */
static json_t *piece(const char *kind, const char *id, int type)
{
    return json_pack("{s:{s:s, s:i}}", kind, "id", id, "type_id", type);
}

/* A text between its tokens. False: memory is out. */
static bool add_text(json_t *list, const char *bos, const char *eos, int type)
{
    return (!bos || json_array_append_new(list, piece("SpecialToken", bos, type)) == 0) &&
           json_array_append_new(list, piece("Sequence", type ? "B" : "A", type)) == 0 &&
           (!eos || json_array_append_new(list, piece("SpecialToken", eos, type)) == 0);
}

static json_t *special_token(const char *name, int64_t id)
{
    return json_pack("{s:s, s:[I], s:[s]}", "id", name, "ids", (json_int_t)id, "tokens", name);
}

json_t *pith_gguf_post_processor(const json_t *vocab, const struct pith_gguf_around *a)
{
    const char *bos = a->add_bos && a->bos >= 0 ? pith_gguf_name_of(vocab, a->bos) : NULL;
    const char *eos = a->add_eos && a->eos >= 0 ? pith_gguf_name_of(vocab, a->eos) : NULL;
    if (!bos && !eos) return NULL;
    json_t *single = json_array(), *pair = json_array(), *tokens = json_object();
    bool good = add_text(single, bos, eos, 0) && add_text(pair, bos, eos, 0) &&
                add_text(pair, bos, eos, 1);
    if (bos) good &= json_object_set_new(tokens, bos, special_token(bos, a->bos)) == 0;
    if (eos) good &= json_object_set_new(tokens, eos, special_token(eos, a->eos)) == 0;
    json_t *out = good ? json_pack("{s:s, s:O, s:O, s:O}", "type", "TemplateProcessing", "single",
                                   single, "pair", pair, "special_tokens", tokens)
                       : NULL;
    json_decref(single);
    json_decref(pair);
    json_decref(tokens);
    return out;
}

/* The model "gemma4" is a way to cut by itself. */
static enum pith_status read_pre(const struct pith_gguf *g, const struct pith_gguf_pre **out,
                                 struct pith_error *err)
{
    static const char marked[] = "gemma4";
    char *name = NULL;
    PITH_TRY(pith_gguf_get_text(g, "tokenizer.ggml.model", &name, err));
    *out = name && strcmp(name, marked) == 0 ? pith_gguf_pre_find(marked) : NULL;
    pith_free(name);
    if (*out) return PITH_OK;
    name = NULL;
    PITH_TRY(pith_gguf_get_text(g, "tokenizer.ggml.pre", &name, err));
    *out = pith_gguf_pre_find(name ? name : "default"); /* as llama.cpp has it */
    const enum pith_status s = *out ? PITH_OK
                                    : pith_fail(err, PITH_UNSUPPORTED,
                                                "%s: tokenizer.ggml.pre \"%.60s\" is not supported",
                                                g->path, name ? name : "");
    pith_free(name);
    return s;
}

/* Of which list of tokens, cut how, with what around a text. */
struct source {
    const struct pith_gguf_lists *l;
    const struct pith_gguf_pre *pre;
    const struct pith_gguf_around *a;
};

/* What is marked has its spaces, and the bytes that it does not know, as SentencePiece has. */
static enum pith_status mark(const struct pith_gguf_lists *l, json_t *json, struct pith_error *err)
{
    json_t *model = json_object_get(json, "model");
    int64_t unknown;
    PITH_TRY(pith_gguf_lists_unknown(l, &unknown, err));
    const char *name = pith_gguf_name_of(json_object_get(model, "vocab"), unknown);
    json_t *more = json_pack("{s:s?, s:b, s:b}", "unk_token", name, "fuse_unk", 1, "byte_fallback",
                             1);
    const bool good = json_object_update(model, more) == 0 &&
                      json_object_set_new(json, "normalizer", pith_gguf_marks(false)) == 0 &&
                      json_object_set_new(json, "decoder", pith_gguf_unmarks(false)) == 0;
    json_decref(more);
    return good ? PITH_OK : pith_fail_nomem(err, "tokenizer");
}

static enum pith_status assemble(const struct source *of, json_t *json, struct pith_error *err)
{
    const struct pith_gguf_lists *l = of->l;
    const struct pith_gguf_pre *pre = of->pre;
    const struct pith_gguf_around *a = of->a;
    json_t *model = json_object_get(json, "model"), *vocab = json_object_get(model, "vocab");
    PITH_TRY(pith_gguf_lists_put(l, PITH_SPM_UNUSED, vocab, json_object_get(json, "added_tokens"),
                                 err));
    PITH_TRY(put_merges(l, json_object_get(model, "merges"), err));
    if (pre->marked) PITH_TRY(mark(l, json, err));
    const bool surround = (a->add_bos && a->bos >= 0) || (a->add_eos && a->eos >= 0);
    if (json_object_set_new(json, "pre_tokenizer", pre_tokenizer(pre)) != 0 ||
        (pre->nfc &&
         json_object_set_new(json, "normalizer", json_pack("{s:s}", "type", "NFC")) != 0) ||
        (surround &&
         json_object_set_new(json, "post_processor", pith_gguf_post_processor(vocab, a)) != 0))
        return pith_fail(err, PITH_FORMAT, "%s: the tokens around a text are not in the vocabulary",
                         l->g->path);
    return PITH_OK;
}

static enum pith_status bpe_json(const struct pith_gguf *g, json_t **out, struct pith_error *err)
{
    struct pith_gguf_lists l;
    const struct pith_gguf_pre *pre;
    struct pith_gguf_around a = {-1, -1, false, false};
    PITH_TRY(pith_gguf_lists_get(g, &l, err));
    PITH_TRY(read_pre(g, &pre, err));
    a.add_bos = pre->add_bos;
    PITH_TRY(pith_gguf_around_get(g, l.tokens->count, &a, err));
    json_t *json = json_pack("{s:s, s:n, s:n, s:[], s:n, s:n, s:n, s:{s:s, s:b, s:b, s:b},"
                             " s:{s:s, s:n, s:b, s:b, s:b, s:{}, s:[]}}",
                             "version", "1.0", "truncation", "padding", "added_tokens",
                             "normalizer", "pre_tokenizer", "post_processor", "decoder", "type",
                             "ByteLevel", "add_prefix_space", 1, "trim_offsets", 1, "use_regex", 1,
                             "model", "type", "BPE", "unk_token", "fuse_unk", 0, "byte_fallback", 0,
                             "ignore_merges", (int)pre->ignore_merges, "vocab", "merges");
    if (!json) return pith_fail_nomem(err, "tokenizer");
    const enum pith_status s = assemble(&(struct source){&l, pre, &a}, json, err);
    if (s == PITH_OK) *out = json;
    else json_decref(json);
    return s;
}

enum pith_status pith_tok_gguf_json(const struct pith_gguf *g, json_t **out, struct pith_error *err)
{
    char *model = NULL;
    PITH_TRY(pith_gguf_get_text(g, "tokenizer.ggml.model", &model, err));
    const bool spm = model && strcmp(model, "llama") == 0;
    const enum pith_status s = spm ? pith_gguf_spm_json(g, out, err) : bpe_json(g, out, err);
    pith_free(model);
    return s;
}

static enum pith_status read_bpe(struct pith_tokenizer *t, const struct pith_gguf *g,
                                 struct pith_error *err)
{
    struct pith_gguf_around a = {-1, -1, false, false};
    json_t *json;
    PITH_TRY(bpe_json(g, &json, err));
    t->kind = &pith_tok_json;
    const enum pith_status s = pith_tok_json_fill(t, json, err);
    json_decref(json);
    PITH_TRY(s);
    PITH_TRY(pith_gguf_around_get(g, pith_tokenizer_vocab(t), &a, err));
    t->bos = (int32_t)a.bos;
    t->eos = (int32_t)a.eos;
    return PITH_OK;
}

/* --- SentencePiece ---------------------------------------------------------------------------- */

static enum pith_status add_pieces(const struct pith_gguf_lists *l, struct pith_spm_model *m,
                                   struct pith_error *err)
{
    const char *text;
    size_t offset = 0, length, bytes = 0;
    int64_t unk;
    PITH_TRY(pith_gguf_lists_unknown(l, &unk, err));
    for (size_t id = 0; pith_gguf_next_string(l->tokens, &offset, &text, &length); id++) {
        int32_t type = pith_gguf_lists_type(l, id);
        if ((int64_t)id == unk) type = PITH_SPM_UNKNOWN;
        else if (type == PITH_SPM_UNKNOWN) type = PITH_SPM_CONTROL;
        /* llama.cpp finds these before all else; its converter spells their spaces as such. */
        if (type == PITH_SPM_USER) type = PITH_SPM_ADDED;
        PITH_TRY(pith_spm_add(m, text, length, type, pith_gguf_lists_score(l, id), err));
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
    struct pith_gguf_lists l;
    struct pith_gguf_around a = {1, 2, true, false};
    PITH_TRY(pith_gguf_lists_get(g, &l, err));
    struct pith_spm_model *m = pith_zalloc(1, sizeof *m);
    if (!m) return pith_fail_nomem(err, "tokenizer");
    t->kind = &pith_tok_spm;
    t->model = m;
    m->unk = m->bos = m->eos = -1;
    m->dummy_prefix = m->escape_spaces = m->controls = true;
    PITH_TRY(pith_gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &m->dummy_prefix, err));
    PITH_TRY(
        pith_gguf_get_bool(g, "tokenizer.ggml.remove_extra_whitespaces", &m->collapse_spaces, err));
    PITH_TRY(add_pieces(&l, m, err));
    PITH_TRY(pith_gguf_around_get(g, l.tokens->count, &a, err));
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
    if (model && (strcmp(model, "gpt2") == 0 || strcmp(model, "gemma4") == 0))
        s = read_bpe(t, g, err);
    else if (model && strcmp(model, "llama") == 0) s = read_spm(t, g, err);
    else
        s = pith_fail(err, PITH_UNSUPPORTED, "%s: tokenizer \"%.60s\" is not supported", g->path,
                      model ? model : "");
    pith_free(model);
    return s;
}
