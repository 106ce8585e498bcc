#include "calib/corpora.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tok/chat.h"

#include <string.h>

static const struct pith_corpus *const corpora[] = {
#define PITH_CORPUS(row) &row,
#include "calib/corpora.def"
#undef PITH_CORPUS
};

const struct pith_corpus *pith_corpus_of(const char *path)
{
    size_t k = 0;
    while (!corpora[k]->takes(path)) k++;
    return corpora[k];
}

struct encoder {
    const struct pith_tokenizer *tokenizer;
    struct pith_ids ids;
    size_t enough; /* documents after this many ids are not encoded */
};

/* Encodes a document piece by piece, cut at line ends: a text of hundreds of megabytes is not
 * tokenized whole when a fraction is enough. Cutting before a line's first character changes at
 * most the ids at the cut, which calibration does not mind. */
static enum pith_status add_document(void *ctx, const char *text, size_t size,
                                     struct pith_error *err)
{
    enum { PIECE = 1 << 20 };
    struct encoder *e = ctx;
    while (size > 0 && e->ids.count < e->enough) {
        size_t take = size;
        if (size > PIECE) {
            take = PIECE;
            while (take > PIECE / 2 && text[take - 1] != '\n') take--;
        }
        PITH_TRY(pith_tokenizer_encode(e->tokenizer, text, take, false, &e->ids, err));
        text += take;
        size -= take;
    }
    return PITH_OK;
}

static enum pith_status add_prompt(void *ctx, const struct pith_rendered *prompt,
                                   struct pith_error *err)
{
    struct encoder *e = ctx;
    if (e->ids.count >= e->enough) return PITH_OK;
    return pith_tokenizer_encode_prompt(e->tokenizer, prompt, &e->ids, err);
}

static enum pith_status read_sources(const struct pith_calib_options *o, struct pith_reading *to,
                                     struct pith_error *err)
{
    static const char *const builtin[] = {PITH_BUILTIN_NAME};
    const char *const *paths = o->path_count ? o->paths : builtin;
    const size_t count = o->path_count ? o->path_count : 1;
    for (size_t i = 0; i < count; i++) PITH_TRY(pith_corpus_of(paths[i])->read(paths[i], to, err));
    return PITH_OK;
}

/* Marks `want` of `have` windows, a random subset by seed (selection sampling, Knuth TAOCP 3.4.2
 * S). */
static void choose(uint64_t seed, size_t have, size_t want, uint8_t *chosen)
{
    struct pith_rng rng;
    pith_rng_seed(&rng, seed);
    for (size_t i = 0; i < have; i++) {
        chosen[i] = pith_rng_below(&rng, have - i) < want;
        want -= chosen[i];
    }
}

static enum pith_status cut_windows(const struct pith_calib_options *o, const struct encoder *e,
                                    struct pith_calib_set *out, struct pith_error *err)
{
    const int32_t bos = pith_tokenizer_adds_bos(e->tokenizer) ? pith_tokenizer_bos(e->tokenizer)
                                                              : -1;
    const size_t text = o->seq_len - (bos >= 0 ? 1 : 0); /* ids of text a window */
    const size_t have = e->ids.count / text;
    size_t want = o->tokens / o->seq_len;
    if (want == 0) want = 1;
    if (have == 0)
        return pith_fail(err, PITH_ARG,
                         "the calibration text (%s) has %zu tokens, fewer than one window of %zu:"
                         " give more text or a smaller --seq-len",
                         o->path_count == 0   ? PITH_BUILTIN_NAME
                         : o->path_count == 1 ? o->paths[0]
                                              : "all files together",
                         e->ids.count, o->seq_len);
    if (want > have) want = have;
    uint8_t *chosen = pith_alloc(have, 1);
    int32_t *ids = pith_alloc(want * o->seq_len, sizeof *ids);
    if (!chosen || !ids) {
        pith_free(chosen);
        pith_free(ids);
        return pith_fail_nomem(err, "calibration windows");
    }
    choose(o->seed, have, want, chosen);
    int32_t *at = ids;
    for (size_t i = 0; i < have; i++) {
        if (!chosen[i]) continue;
        if (bos >= 0) *at++ = bos;
        memcpy(at, e->ids.id + i * text, text * sizeof *at);
        at += text;
    }
    pith_free(chosen);
    *out = (struct pith_calib_set){
        .ids = ids, .windows = want, .length = o->seq_len, .available = e->ids.count};
    if (!pith_sha256_hex(ids, want * o->seq_len * sizeof *ids, out->sha256)) {
        pith_calib_free(out);
        return pith_fail_nomem(err, "calibration digest");
    }
    return PITH_OK;
}

enum pith_status pith_calib_load(const struct pith_calib_options *o, const struct pith_tokenizer *t,
                                 struct pith_calib_set *out, struct pith_error *err)
{
    if (o->seq_len < 2) return pith_fail(err, PITH_ARG, "--seq-len must be at least 2");
    if (o->tokens == 0) return pith_fail(err, PITH_ARG, "--calib-tokens must be at least 1");
    /* A choice among up to eight times what is needed spreads the windows over a large text. */
    const size_t need = o->tokens > o->seq_len ? o->tokens : o->seq_len;
    struct encoder e = {.tokenizer = t, .enough = need < SIZE_MAX / 8 ? need * 8 : SIZE_MAX};
    struct pith_door door = {.lf = o->lf};
    struct pith_reading to = {.door = &door,
                              .document = add_document,
                              .prompt = add_prompt,
                              .ctx = &e,
                              .model = o->model};
    enum pith_status s = read_sources(o, &to, err);
    pith_chat_close(to.chat);
    if (s == PITH_OK) s = cut_windows(o, &e, out, err);
    if (s == PITH_OK) {
        out->crlf = door.crlf;
        out->rendered = to.rendered;
        out->joined = to.joined;
    }
    pith_ids_free(&e.ids);
    return s;
}

void pith_calib_free(struct pith_calib_set *set)
{
    pith_free(set->ids);
    *set = (struct pith_calib_set){0};
}
