#include "serve/grammar/vocab.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct spelled {
    const char *text;
    uint32_t len;
    int32_t id;
};

static int by_text(const void *a, const void *b)
{
    const struct spelled *x = a, *y = b;
    const int c = memcmp(x->text, y->text, x->len < y->len ? x->len : y->len);
    if (c) return c;
    if (x->len != y->len) return x->len < y->len ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool is_end(const struct pith_vocab_bytes *v, size_t id)
{
    return v->ends[id / 64] >> (id % 64) & 1;
}

/* What can stand in a text, in the order of its bytes. */
static size_t spell(struct pith_vocab_bytes *v, struct spelled *word)
{
    size_t n = 0;
    for (size_t id = 0; id < v->vocab; id++) {
        const uint32_t len = v->at[id + 1] - v->at[id];
        if (len == 0 || len > PITH_TOKEN_BYTES || is_end(v, id)) continue;
        word[n++] = (struct spelled){v->text + v->at[id], len, (int32_t)id};
        if (len > v->longest) v->longest = len;
        if (len == 1) v->single[(uint8_t)v->text[v->at[id]]] = true;
    }
    qsort(word, n, sizeof *word, by_text);
    return n;
}

static uint32_t common(const struct spelled *a, const struct spelled *b)
{
    uint32_t n = 0;
    while (n < a->len && n < b->len && a->text[n] == b->text[n]) n++;
    return n;
}

/* Sorted texts are the tree in its order: each adds the nodes that the one before it lacks. */
static size_t count_nodes(const struct spelled *word, size_t n)
{
    size_t nodes = 0;
    for (size_t i = 0; i < n; i++) nodes += word[i].len - (i ? common(&word[i - 1], &word[i]) : 0);
    return nodes;
}

static void fill(struct pith_vocab_bytes *v, const struct spelled *word, size_t n)
{
    uint32_t path[PITH_TOKEN_BYTES + 1], depth = 0; /* nodes above, whose skip is open */
    for (size_t i = 0; i < n; i++) {
        const uint32_t keep = i ? common(&word[i - 1], &word[i]) : 0;
        for (; depth > keep; depth--) v->node[path[depth]].skip = v->nodes;
        while (depth < word[i].len) {
            const uint8_t byte = (uint8_t)word[i].text[depth];
            path[++depth] = v->nodes;
            v->node[v->nodes++] = (struct pith_vocab_node){
                .first = (uint32_t)i, .depth = (uint16_t)depth, .byte = byte};
        }
        v->ids[i] = word[i].id;
    }
    for (; depth > 0; depth--) v->node[path[depth]].skip = v->nodes;
    v->node[v->nodes] = (struct pith_vocab_node){.skip = v->nodes, .first = (uint32_t)n};
}

static enum pith_status build(struct pith_vocab_bytes *v, struct pith_error *err)
{
    struct spelled *word = pith_alloc(v->vocab, sizeof *word);
    if (!word) return pith_fail_nomem(err, "vocabulary");
    const size_t n = spell(v, word);
    v->node = pith_alloc(count_nodes(word, n) + 1, sizeof *v->node);
    v->ids = pith_alloc(n, sizeof *v->ids);
    const bool ok = v->node && v->ids;
    if (ok) fill(v, word, n);
    pith_free(word);
    return ok ? PITH_OK : pith_fail_nomem(err, "vocabulary");
}

static enum pith_status new_vocab(size_t vocab, const int32_t *ends, size_t end_count,
                                  struct pith_vocab_bytes **out, struct pith_error *err)
{
    if (vocab == 0 || vocab > INT32_MAX)
        return pith_fail(err, PITH_ARG, "a vocabulary of %zu tokens", vocab);
    struct pith_vocab_bytes *v = pith_zalloc(1, sizeof *v);
    if (!v) return pith_fail_nomem(err, "vocabulary");
    v->vocab = vocab;
    v->words = (vocab + 63) / 64;
    v->ends = pith_zalloc(v->words, sizeof *v->ends);
    v->at = pith_zalloc(vocab + 1, sizeof *v->at);
    if (!v->ends || !v->at) {
        pith_vocab_bytes_close(v);
        return pith_fail_nomem(err, "vocabulary");
    }
    for (size_t i = 0; i < end_count; i++)
        if (ends[i] >= 0 && (size_t)ends[i] < vocab)
            v->ends[ends[i] / 64] |= (uint64_t)1 << (ends[i] % 64);
    *out = v;
    return PITH_OK;
}

static enum pith_status finish(struct pith_vocab_bytes *v, struct pith_vocab_bytes **out,
                               enum pith_status s, struct pith_error *err)
{
    if (s == PITH_OK) s = build(v, err);
    if (s == PITH_OK) *out = v;
    else pith_vocab_bytes_close(v);
    return s;
}

static enum pith_status read_tokens(const struct pith_tokenizer *t, struct pith_vocab_bytes *v,
                                    struct pith_error *err)
{
    const size_t known = pith_tokenizer_vocab(t);
    struct pith_str all = {0};
    enum pith_status s = PITH_OK;
    for (size_t id = 0; id < v->vocab && s == PITH_OK; id++) {
        if (id < known) s = pith_tokenizer_bytes(t, (int32_t)id, &all, err);
        if (s == PITH_OK && all.len > UINT32_MAX)
            s = pith_fail(err, PITH_LIMIT, "a vocabulary of more than 4 GiB of text");
        v->at[id + 1] = (uint32_t)all.len;
    }
    v->text = pith_str_take(&all);
    if (s == PITH_OK && !v->text && v->at[v->vocab]) s = pith_fail_nomem(err, "vocabulary");
    return s;
}

enum pith_status pith_vocab_bytes_open(const struct pith_tokenizer *t, size_t vocab,
                                       const int32_t *ends, size_t end_count,
                                       struct pith_vocab_bytes **out, struct pith_error *err)
{
    struct pith_vocab_bytes *v;
    PITH_TRY(new_vocab(vocab, ends, end_count, &v, err));
    return finish(v, out, read_tokens(t, v, err), err);
}

enum pith_status pith_vocab_bytes_make(const struct pith_spelling *tokens, const int32_t *ends,
                                       size_t end_count, struct pith_vocab_bytes **out,
                                       struct pith_error *err)
{
    struct pith_vocab_bytes *v;
    const size_t vocab = tokens->vocab, size = tokens->at[vocab];
    PITH_TRY(new_vocab(vocab, ends, end_count, &v, err));
    memcpy(v->at, tokens->at, (vocab + 1) * sizeof *v->at);
    v->text = pith_alloc(size, 1);
    if (v->text && size) memcpy(v->text, tokens->text, size);
    return finish(v, out, v->text ? PITH_OK : pith_fail_nomem(err, "vocabulary"), err);
}

void pith_vocab_bytes_close(struct pith_vocab_bytes *v)
{
    if (!v) return;
    pith_free(v->ends);
    pith_free(v->text);
    pith_free(v->at);
    pith_free(v->node);
    pith_free(v->ids);
    pith_free(v);
}

size_t pith_vocab_bytes_size(const struct pith_vocab_bytes *v)
{
    return sizeof *v + v->words * 8 + v->at[v->vocab] + (v->vocab + 1) * sizeof *v->at +
           ((size_t)v->nodes + 1) * sizeof *v->node + v->node[v->nodes].first * sizeof *v->ids;
}
