/* The BPE model of a tokenizer.json: vocabulary, merge list, and what happens to characters that
 * the vocabulary lacks; and that of tiktoken, where a token's id is the rank of what joins to it.
 */
#include "base/mem.h"
#include "tok/kind.h"
#include "tok/model.h"
#include "tok/unicode/utf8.h"

#include <string.h>

static const char what[] = "model";

/* Longest affix of characters; real ones have 2 to 4 bytes. */
#define MAX_AFFIX 256
/* Longest token where pairs are looked up by their text: this bounds the work of a merge. */
#define MAX_RANKED 1024

struct bpe {
    struct pith_vocab vocab;
    struct pith_merges merges;
    int32_t byte[256]; /* ids of <0x00>..<0xFF>; -1 where missing or without byte_fallback */
    int32_t unk;       /* -1: unknown characters vanish */
    bool fuse_unk, ignore_merges;
    bool ranked;           /* no merge list: any two parts of a token join, the smaller id first */
    char *prefix, *suffix; /* of characters inside a word, of its last one; NULL: none */
};

static void free_model(void *model)
{
    struct bpe *b = model;
    if (!b) return;
    pith_vocab_free(&b->vocab);
    pith_merges_free(&b->merges);
    pith_free(b->prefix);
    pith_free(b->suffix);
    pith_free(b);
}

static enum pith_status read_vocab(struct bpe *b, const json_t *vocab, struct pith_error *err)
{
    if (!json_is_object(vocab)) return pith_fail(err, PITH_FORMAT, "%s: no \"vocab\" object", what);
    if (!pith_vocab_reserve(&b->vocab, json_object_size(vocab))) return pith_fail_nomem(err, what);
    void *it = json_object_iter((json_t *)(uintptr_t)vocab);
    for (; it; it = json_object_iter_next((json_t *)(uintptr_t)vocab, it)) {
        const char *text = json_object_iter_key(it);
        const json_t *id = json_object_iter_value(it);
        if (!json_is_integer(id))
            return pith_fail(err, PITH_FORMAT, "%s: the id of \"%.80s\" is not a number", what,
                             text);
        PITH_TRY(pith_vocab_add(&b->vocab, text, json_object_iter_key_len(it),
                                json_integer_value(id), err));
    }
    return PITH_OK;
}

/* How much of a text a message shows. */
static int shown(size_t len)
{
    return len > 60 ? 60 : (int)len;
}

/* Adds merge number `rank` of two tokens, which must be in the vocabulary as must what they join
 * to. */
static enum pith_status add_merge(struct bpe *b, const char *left, size_t left_len,
                                  const char *right, size_t right_len, size_t rank,
                                  struct pith_error *err)
{
    const size_t skip = b->prefix ? strlen(b->prefix) : 0;
    const int32_t l = pith_vocab_find(&b->vocab, left, left_len);
    const int32_t r = pith_vocab_find(&b->vocab, right, right_len);
    int32_t id = -1;
    if (l >= 0 && r >= 0 && right_len >= skip) {
        struct pith_str joined = {0};
        pith_str_append(&joined, left, left_len);
        pith_str_append(&joined, right + skip, right_len - skip);
        if (!joined.failed) id = pith_vocab_find(&b->vocab, joined.data, joined.len);
        const bool failed = joined.failed;
        pith_str_free(&joined);
        if (failed) return pith_fail_nomem(err, what);
    }
    if (id < 0)
        return pith_fail(err, PITH_FORMAT,
                         "%s: merge %zu (\"%.*s\" \"%.*s\") is not in the vocabulary", what, rank,
                         shown(left_len), left, shown(right_len), right);
    if (!pith_merges_add(&b->merges, l, r, (struct pith_joint){(uint32_t)rank, id}))
        return pith_fail_nomem(err, what);
    return PITH_OK;
}

/* "left right" or ["left", "right"]. */
static enum pith_status read_merge(struct bpe *b, const json_t *m, size_t rank,
                                   struct pith_error *err)
{
    const json_t *l = json_array_get(m, 0), *r = json_array_get(m, 1);
    if (json_is_string(l) && json_is_string(r) && json_array_size(m) == 2)
        return add_merge(b, json_string_value(l), json_string_length(l), json_string_value(r),
                         json_string_length(r), rank, err);
    const char *text = json_string_value(m);
    const char *space = text ? strchr(text, ' ') : NULL;
    if (!space || strchr(space + 1, ' ') || strlen(text) != json_string_length(m))
        return pith_fail(err, PITH_FORMAT, "%s: merge %zu is not a pair", what, rank);
    return add_merge(b, text, (size_t)(space - text), space + 1, strlen(space + 1), rank, err);
}

static enum pith_status read_merges(struct bpe *b, const json_t *merges, struct pith_error *err)
{
    if (!json_is_array(merges)) return pith_fail(err, PITH_FORMAT, "%s: no \"merges\" list", what);
    if (!pith_merges_reserve(&b->merges, json_array_size(merges)))
        return pith_fail_nomem(err, what);
    for (size_t i = 0; i < json_array_size(merges); i++)
        PITH_TRY(read_merge(b, json_array_get(merges, i), i, err));
    return PITH_OK;
}

static enum pith_status read_affix(const json_t *json, const char *key, char **out,
                                   struct pith_error *err)
{
    const char *text = "";
    PITH_TRY(pith_json_get_str(json, key, &text, what, err));
    if (!text[0]) return PITH_OK;
    if (strlen(text) > MAX_AFFIX)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: \"%s\" is longer than %d bytes", what, key,
                         MAX_AFFIX);
    *out = pith_strdup(text);
    return *out ? PITH_OK : pith_fail_nomem(err, what);
}

static enum pith_status read_unknown(struct bpe *b, const json_t *json, struct pith_error *err)
{
    const char *unk = NULL;
    bool fallback = false;
    PITH_TRY(pith_json_get_str(json, "unk_token", &unk, what, err));
    PITH_TRY(pith_json_get_bool(json, "fuse_unk", &b->fuse_unk, what, err));
    PITH_TRY(pith_json_get_bool(json, "byte_fallback", &fallback, what, err));
    if (unk && *unk) { /* "" is none */
        b->unk = pith_vocab_find(&b->vocab, unk, strlen(unk));
        if (b->unk < 0)
            return pith_fail(err, PITH_FORMAT, "%s: unk_token \"%.80s\" is not in the vocabulary",
                             what, unk);
    }
    if (fallback) pith_tok_model_bytes(&b->vocab, b->byte);
    return PITH_OK;
}

static enum pith_status read_model(void **model, const json_t *json, struct pith_error *err)
{
    struct bpe *b = *model = pith_zalloc(1, sizeof *b);
    double dropout = 0;
    if (!b) return pith_fail_nomem(err, what);
    b->unk = -1;
    for (unsigned i = 0; i < 256; i++) b->byte[i] = -1;
    PITH_TRY(pith_json_get_real(json, "dropout", &dropout, what, err));
    if (dropout != 0) return pith_fail(err, PITH_UNSUPPORTED, "BPE dropout is not supported");
    PITH_TRY(pith_json_get_bool(json, "ignore_merges", &b->ignore_merges, what, err));
    PITH_TRY(read_affix(json, "continuing_subword_prefix", &b->prefix, err));
    PITH_TRY(read_affix(json, "end_of_word_suffix", &b->suffix, err));
    PITH_TRY(read_vocab(b, json_object_get(json, "vocab"), err));
    PITH_TRY(read_unknown(b, json, err));
    return read_merges(b, json_object_get(json, "merges"), err);
}

/* As BPE with a vocabulary and nothing else. */
static enum pith_status read_ranked(void **model, const json_t *json, struct pith_error *err)
{
    struct bpe *b = *model = pith_zalloc(1, sizeof *b);
    if (!b) return pith_fail_nomem(err, what);
    b->unk = -1;
    b->ranked = b->ignore_merges = true;
    for (unsigned i = 0; i < 256; i++) b->byte[i] = -1;
    PITH_TRY(read_vocab(b, json_object_get(json, "vocab"), err));
    if (b->vocab.longest > MAX_RANKED)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: a token of %zu bytes, more than %d", what,
                         b->vocab.longest, MAX_RANKED);
    return PITH_OK;
}

/* ---- encoding ---- */

/* The unknown characters that wait to become one token. */
struct unknown {
    size_t at, len; /* len == 0: none */
};

/* The id of a character with its affixes; *bytes are what falls back when there is none. */
static int32_t find_character(const struct bpe *b, const char *c, size_t len, bool first, bool last,
                              struct pith_str *bytes)
{
    const char *prefix = first ? NULL : b->prefix, *suffix = last ? b->suffix : NULL;
    if (!prefix && !suffix) return pith_vocab_find(&b->vocab, c, len);
    pith_str_clear(bytes);
    if (prefix) pith_str_puts(bytes, prefix);
    pith_str_append(bytes, c, len);
    if (suffix) pith_str_puts(bytes, suffix);
    return bytes->failed ? -1 : pith_vocab_find(&b->vocab, bytes->data, bytes->len);
}

static bool flush_unknown(const struct bpe *b, struct pith_word *w, struct unknown *u)
{
    const bool ok = u->len == 0 || pith_word_add(w, b->unk, u->at, u->len);
    u->len = 0;
    return ok;
}

/* Adds the byte tokens of a character when all of them exist; *done: whether. The waiting unknown
 * token stays behind them, as in the reference. */
static bool add_bytes(const struct bpe *b, struct pith_word *w, const char *s, size_t len,
                      size_t at, bool *done)
{
    *done = true;
    for (size_t i = 0; i < len; i++) *done = *done && b->byte[(unsigned char)s[i]] >= 0;
    for (size_t i = 0; *done && i < len; i++)
        if (!pith_word_add(w, b->byte[(unsigned char)s[i]], at, 1)) return false;
    return true;
}

static bool add_unknown(const struct bpe *b, struct pith_word *w, size_t at, size_t len,
                        struct unknown *u)
{
    if (b->unk < 0) return true;
    if (u->len && b->fuse_unk) {
        u->len += len;
        return true;
    }
    if (!flush_unknown(b, w, u)) return false;
    *u = (struct unknown){at, len};
    return true;
}

/* Cuts the piece into its first symbols; false when memory is out. */
static bool first_symbols(const struct bpe *b, struct pith_word *w, const char *text, size_t len)
{
    struct unknown u = {0};
    struct pith_str affixed = {0};
    bool ok = true;
    for (size_t at = 0, n; ok && at < len; at += n) {
        n = pith_utf8_len(text[at]);
        const bool last = at + n == len;
        const int32_t id = find_character(b, text + at, n, at == 0, last, &affixed);
        if (id >= 0) {
            ok = flush_unknown(b, w, &u) && pith_word_add(w, id, at, n);
            continue;
        }
        const bool affix = (at > 0 && b->prefix) || (last && b->suffix);
        bool done;
        ok = !affixed.failed &&
             add_bytes(b, w, affix ? affixed.data : text + at, affix ? affixed.len : n, at, &done);
        if (ok && !done) ok = add_unknown(b, w, at, n, &u);
    }
    ok = ok && flush_unknown(b, w, &u);
    pith_str_free(&affixed);
    return ok;
}

struct piece {
    const struct bpe *b;
    const char *text;
};

static bool rate_ranked(const void *rule, const struct pith_symbol *left,
                        const struct pith_symbol *right, struct pith_joint *joint)
{
    const struct piece *p = rule;
    const int32_t id =
        pith_vocab_find(&p->b->vocab, p->text + left->at, (size_t)left->len + right->len);
    *joint = (struct pith_joint){(uint32_t)id, id};
    return id >= 0;
}

static enum pith_status merge(const struct bpe *b, struct pith_word *w, const char *text,
                              struct pith_error *err)
{
    const struct piece piece = {b, text};
    if (b->ranked) return pith_word_merge(w, rate_ranked, &piece, err);
    return pith_word_merge(w, pith_merges_rate, &b->merges, err);
}

static enum pith_status encode(const void *model, struct pith_tok_model_run *run, const char *text,
                               size_t len, struct pith_ids *out, struct pith_error *err)
{
    const struct bpe *b = model;
    struct pith_word *w = &run->word;
    if (len > INT32_MAX) return pith_fail(err, PITH_LIMIT, "a word of %zu bytes is too long", len);
    bool ok = true;
    const int32_t whole = b->ignore_merges ? pith_vocab_find(&b->vocab, text, len) : -1;
    if (whole >= 0) {
        ok = pith_ids_push(out, whole);
    } else {
        pith_word_clear(w);
        ok = first_symbols(b, w, text, len);
        if (ok) PITH_TRY(merge(b, w, text, err));
        for (size_t i = 0; ok && i < w->count; i++)
            if (w->symbol[i].len) ok = pith_ids_push(out, w->symbol[i].id);
    }
    return ok ? PITH_OK : pith_fail_nomem(err, "token ids");
}

static const struct pith_vocab *vocab(const void *model)
{
    const struct bpe *b = model;
    return &b->vocab;
}

static uint64_t rules(const void *model)
{
    const struct bpe *b = model;
    return 1 + pith_merges_mix(&b->merges);
}

const struct pith_tok_model_kind pith_tok_model_bpe = {
    .read = read_model,
    .free = free_model,
    .vocab = vocab,
    .encode = encode,
    .rules = rules,
};

const struct pith_tok_model_kind pith_tok_model_tiktoken = {
    .read = read_ranked,
    .free = free_model,
    .vocab = vocab,
    .encode = encode,
    .numbered = true,
};
