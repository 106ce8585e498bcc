/* A SentencePiece vocabulary as the tokenizer.json that Hugging Face's converter makes of it
 * (transformers convert_slow_tokenizer.py, LlamaConverter and generate_merges): each way to put a
 * piece together of two others is a merge, and merges rank by the score of what they make. */
#include "tok/files/gguf_lists.h"

#include "tok/files/spm_model.h"
#include "tok/pairings.h"

#define MARK "\xe2\x96\x81"

/* The best score first, then longer parts; else as the pieces come. */
static int compare(const void *a, const void *b)
{
    const struct pith_pairing *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    if (x->left_chars != y->left_chars) return x->left_chars < y->left_chars ? 1 : -1;
    if (x->right_chars != y->right_chars) return x->right_chars < y->right_chars ? 1 : -1;
    if (x->order != y->order) return x->order < y->order ? -1 : 1;
    if (x->left_id != y->left_id) return x->left_id < y->left_id ? -1 : 1;
    return (x->right_id > y->right_id) - (x->right_id < y->right_id);
}

static enum pith_status put_merges(const struct pith_gguf_lists *l, const json_t *vocab,
                                   json_t *list, struct pith_error *err)
{
    struct pith_pairings m = {0};
    const char *text;
    size_t offset = 0, length;
    bool good = true;
    for (size_t id = 0; good && pith_gguf_next_string(l->tokens, &offset, &text, &length); id++) {
        const struct pith_pairing piece = {.text = text,
                                           .length = (uint32_t)length,
                                           .order = (uint32_t)id,
                                           .score = pith_gguf_lists_score(l, id)};
        const int32_t type = pith_gguf_lists_type(l, id);
        if (length > PITH_SPM_PIECE || type == PITH_SPM_CONTROL || type == PITH_SPM_BYTE) continue;
        good = pith_pairings_add(&m, vocab, &piece);
    }
    good = good && pith_pairings_put(&m, compare, list);
    pith_pairings_free(&m);
    return good ? PITH_OK : pith_fail_nomem(err, "a tokenizer's merges");
}

struct parts {
    json_t *vocab, *added, *merges;
    const char *unknown; /* borrowed of the vocabulary, or NULL */
    bool bytes;
};

static enum pith_status put_tokens(const struct pith_gguf_lists *l, struct parts *p,
                                   struct pith_error *err)
{
    size_t bytes = 0;
    int64_t unknown;
    PITH_TRY(pith_gguf_lists_put(l, 0, p->vocab, p->added, err));
    PITH_TRY(pith_gguf_lists_unknown(l, &unknown, err));
    p->unknown = pith_gguf_name_of(p->vocab, unknown);
    for (size_t id = 0; id < l->tokens->count; id++)
        bytes += pith_gguf_lists_type(l, id) == PITH_SPM_BYTE;
    p->bytes = bytes >= 256;
    return PITH_OK;
}

static json_t *replace(const char *from, const char *to)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", from,
                     "content", to);
}

json_t *pith_gguf_marks(bool prefix)
{
    json_t *list = json_array();
    if (prefix) pith_json_add(&list, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", MARK));
    pith_json_add(&list, replace(" ", MARK));
    return json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", list);
}

json_t *pith_gguf_unmarks(bool prefix)
{
    json_t *list = json_array();
    pith_json_add(&list, replace(MARK, " "));
    pith_json_add(&list, json_pack("{s:s}", "type", "ByteFallback"));
    pith_json_add(&list, json_pack("{s:s}", "type", "Fuse"));
    if (prefix)
        pith_json_add(&list, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ",
                                       "start", 1, "stop", 0));
    return json_pack("{s:s, s:o}", "type", "Sequence", "decoders", list);
}

static json_t *whole(const struct parts *p, bool prefix, const struct pith_gguf_around *a)
{
    json_t *post = pith_gguf_post_processor(p->vocab, a);
    json_t *model = json_pack("{s:s, s:n, s:s?, s:n, s:n, s:b, s:b, s:b, s:O, s:O}", "type", "BPE",
                              "dropout", "unk_token", p->unknown, "continuing_subword_prefix",
                              "end_of_word_suffix", "fuse_unk", 1, "byte_fallback", (int)p->bytes,
                              "ignore_merges", 0, "vocab", p->vocab, "merges", p->merges);
    return json_pack("{s:s, s:n, s:n, s:O, s:o, s:n, s:o?, s:o, s:o}", "version", "1.0",
                     "truncation", "padding", "added_tokens", p->added, "normalizer",
                     pith_gguf_marks(prefix), "pre_tokenizer", "post_processor", post, "decoder",
                     pith_gguf_unmarks(prefix), "model", model);
}

enum pith_status pith_gguf_spm_json(const struct pith_gguf *g, json_t **out, struct pith_error *err)
{
    struct pith_gguf_lists l;
    struct pith_gguf_around a = {1, 2, true, false};
    struct parts p = {json_object(), json_array(), json_array(), NULL, false};
    bool prefix = true;
    enum pith_status s = p.vocab && p.added && p.merges ? PITH_OK
                                                        : pith_fail_nomem(err, "tokenizer");
    if (s == PITH_OK) s = pith_gguf_lists_get(g, &l, err);
    if (s == PITH_OK) s = pith_gguf_get_bool(g, "tokenizer.ggml.add_space_prefix", &prefix, err);
    if (s == PITH_OK) s = pith_gguf_around_get(g, l.tokens->count, &a, err);
    if (s == PITH_OK) s = put_tokens(&l, &p, err);
    if (s == PITH_OK) s = put_merges(&l, p.vocab, p.merges, err);
    if (s == PITH_OK && !(*out = whole(&p, prefix, &a))) s = pith_fail_nomem(err, "tokenizer");
    json_decref(p.vocab);
    json_decref(p.added);
    json_decref(p.merges);
    return s;
}
