#include "calib/corpora.h"

#include "base/integer.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tok/chat/chat.h"

#include <string.h>

/* Tried in order; the last takes every file. */
static const struct pith_corpus *const corpora[] = {&pith_corpus_builtin, &pith_corpus_jsonl,
                                                    &pith_corpus_text};

const struct pith_corpus *pith_corpus_of(const char *path)
{
    size_t k = 0;
    while (!corpora[k]->takes(path)) k++;
    return corpora[k];
}

/* One draw of the text. */
struct draw {
    size_t tokens, seq_len;
    size_t text;       /* ids of the text in a window: without BOS */
    size_t enough;     /* ids to choose from: what is encoded when they are there is its limit */
    size_t limit;      /* it chooses from so many; 0: there are not enough yet */
    size_t have, want; /* windows to choose from, and that it takes */
    uint8_t *chosen;   /* [have] */
};

struct encoder {
    const struct pith_tokenizer *tokenizer;
    struct pith_ids ids;
    struct draw draw[2]; /* what was requested, and what else is drawn */
    size_t draws;
    size_t behind; /* ids wanted behind what they choose from */
};

/* Documents after what is enough are not encoded. */
static bool wants(const struct encoder *e)
{
    size_t most = 0;
    for (size_t i = 0; i < e->draws; i++) {
        const struct draw *d = &e->draw[i];
        most = pith_larger(most, d->limit ? d->limit : d->enough);
    }
    return e->ids.count < most + e->behind;
}

/* Sets the limits of draws that have enough; at the end of the text, of all. */
static void note_limits(struct encoder *e, bool ended)
{
    for (size_t i = 0; i < e->draws; i++) {
        struct draw *d = &e->draw[i];
        if (!d->limit && (ended || e->ids.count >= d->enough)) d->limit = e->ids.count;
    }
}

/* Encodes a document piece by piece, cut at line ends: a text of hundreds of megabytes is not
 * tokenized whole when a fraction is enough. Cutting before a line's first character changes at
 * most the ids at the cut, which calibration does not mind. */
static enum pith_status add_document(void *ctx, const char *text, size_t size,
                                     struct pith_error *err)
{
    enum { PIECE = 1 << 20 };
    struct encoder *e = ctx;
    while (size > 0 && wants(e)) {
        size_t take = size;
        if (size > PIECE) {
            take = PIECE;
            while (take > PIECE / 2 && text[take - 1] != '\n') take--;
        }
        PITH_TRY(pith_tokenizer_encode(e->tokenizer, text, take, false, &e->ids, err));
        note_limits(e, false);
        text += take;
        size -= take;
    }
    return PITH_OK;
}

static enum pith_status add_prompt(void *ctx, const struct pith_rendered *prompt,
                                   struct pith_error *err)
{
    struct encoder *e = ctx;
    if (!wants(e)) return PITH_OK;
    PITH_TRY(pith_tokenizer_encode_prompt(e->tokenizer, prompt, &e->ids, err));
    note_limits(e, false);
    return PITH_OK;
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
static void choose_windows(uint64_t seed, size_t have, size_t want, uint8_t *chosen)
{
    struct pith_rng rng;
    pith_rng_seed(&rng, seed);
    for (size_t i = 0; i < have; i++) {
        chosen[i] = pith_rng_below(&rng, have - i) < want;
        want -= chosen[i];
    }
}

/* Marks what a draw takes of the first `end` ids. */
static bool mark(const struct pith_calib_options *o, struct draw *d, size_t end)
{
    const size_t from = d->limit < end ? d->limit : end;
    pith_free(d->chosen);
    d->have = from / d->text;
    d->want = d->tokens / d->seq_len;
    if (d->want == 0) d->want = 1;
    if (d->want > d->have) d->want = d->have;
    d->chosen = pith_alloc(d->have, 1);
    if (d->chosen) choose_windows(o->seed, d->have, d->want, d->chosen);
    return d->chosen != NULL;
}

static bool mark_all(const struct pith_calib_options *o, struct encoder *e, size_t end)
{
    bool good = true;
    for (size_t i = 0; i < e->draws && good; i++) good = mark(o, &e->draw[i], end);
    return good;
}

/* Whether a draw takes any of the ids from `at` to before `end`. */
static bool takes(const struct draw *d, size_t at, size_t end)
{
    for (size_t w = at / d->text; w < d->have && w * d->text < end; w++)
        if (d->chosen[w]) return true;
    return false;
}

static bool is_taken(const struct encoder *e, size_t at, size_t end)
{
    for (size_t i = 0; i < e->draws; i++)
        if (takes(&e->draw[i], at, end)) return true;
    return false;
}

/* Copies windows of the shape of `d`, those whose first ids are `at` (owned from here on). */
static enum pith_status copy(const struct encoder *e, const struct draw *d, size_t *at,
                             size_t windows, struct pith_calib_set *out, struct pith_error *err)
{
    const int32_t bos = d->text < d->seq_len ? pith_tokenizer_bos(e->tokenizer) : -1;
    int32_t *ids = pith_alloc(windows * d->seq_len, sizeof *ids), *to = ids;
    *out = (struct pith_calib_set){
        .ids = ids, .windows = windows, .length = d->seq_len, .at = at, .shows = d->text};
    if (!ids) {
        pith_calib_free(out);
        return pith_fail_nomem(err, "calibration windows");
    }
    for (size_t w = 0; w < windows; w++) {
        if (bos >= 0) *to++ = bos;
        memcpy(to, e->ids.id + at[w], d->text * sizeof *to);
        to += d->text;
    }
    if (pith_sha256_hex(ids, windows * d->seq_len * sizeof *ids, out->sha256)) return PITH_OK;
    pith_calib_free(out);
    return pith_fail_nomem(err, "calibration digest");
}

/* The windows that nobody takes, from the end, at most `most`; *at is NULL when there are none. */
static enum pith_status find_free(const struct encoder *e, size_t text, size_t most, size_t **at,
                                  size_t *count, struct pith_error *err)
{
    size_t *free = pith_alloc(most, sizeof *free);
    *at = NULL;
    *count = 0;
    if (!free) return pith_fail_nomem(err, "held-out windows");
    for (size_t w = e->ids.count / text; w-- > 0 && *count < most;)
        if (!is_taken(e, w * text, (w + 1) * text)) free[most - ++*count] = w * text;
    memmove(free, free + most - *count, *count * sizeof *free); /* in the order of the text */
    if (*count) *at = free;
    else pith_free(free);
    return PITH_OK;
}

/* Ids that both draws do without, so that there is something to hold out; 0: they are too few. */
static size_t reserve(const struct encoder *e, size_t text)
{
    const size_t count = e->ids.count,
                 share = pith_larger(count / 8, PITH_CALIB_JUDGE_LEAST * text);
    size_t longest = 0;
    for (size_t i = 0; i < e->draws; i++) longest = pith_larger(longest, e->draw[i].text);
    return share <= count / 4 && count - share >= longest ? share : 0;
}

/* What is held out of both draws, which are marked anew where something had to be reserved. */
static enum pith_status hold_out(const struct pith_calib_options *o, struct encoder *e,
                                 struct pith_calib_set *judge, struct pith_error *err)
{
    const struct draw *a = &e->draw[0], *b = &e->draw[e->draws - 1];
    const struct draw *shape = a->seq_len < b->seq_len ? a : b;
    const size_t most = pith_larger(o->judge / shape->seq_len, PITH_CALIB_JUDGE_LEAST);
    size_t *at, count;
    PITH_TRY(find_free(e, shape->text, most, &at, &count, err));
    const size_t reserved = count < PITH_CALIB_JUDGE_LEAST ? reserve(e, shape->text) : 0;
    if (reserved) {
        pith_free(at);
        if (!mark_all(o, e, e->ids.count - reserved)) return pith_fail_nomem(err, "windows");
        PITH_TRY(find_free(e, shape->text, most, &at, &count, err));
    }
    return count ? copy(e, shape, at, count, judge, err) : PITH_OK;
}

static enum pith_status cut_windows(const struct pith_calib_options *o, struct encoder *e,
                                    struct pith_calib_set *out, struct pith_calib_set *judge,
                                    struct pith_error *err)
{
    struct draw *d = &e->draw[0];
    if (d->limit / d->text == 0)
        return pith_fail(err, PITH_ARG,
                         "the calibration text (%s) has %zu tokens, fewer than one window of %zu:"
                         " give more text or a smaller `seq_len`",
                         o->path_count == 0   ? PITH_BUILTIN_NAME
                         : o->path_count == 1 ? o->paths[0]
                                              : "all files together",
                         d->limit, o->seq_len);
    if (!mark_all(o, e, e->ids.count)) return pith_fail_nomem(err, "calibration windows");
    if (judge) PITH_TRY(hold_out(o, e, judge, err));
    size_t *at = pith_alloc(d->want, sizeof *at), n = 0;
    if (!at) return pith_fail_nomem(err, "calibration windows");
    for (size_t i = 0; i < d->have; i++)
        if (d->chosen[i]) at[n++] = i * d->text;
    PITH_TRY(copy(e, d, at, n, out, err));
    out->available = d->limit;
    return PITH_OK;
}

/* A choice among up to eight times what is needed spreads the windows over a large text. */
static struct draw draw_of(size_t tokens, size_t seq_len, const struct pith_tokenizer *t)
{
    const size_t need = pith_larger(tokens, seq_len);
    return (struct draw){.tokens = tokens,
                         .seq_len = seq_len,
                         .text = seq_len -
                                 (pith_tokenizer_adds_bos(t) && pith_tokenizer_bos(t) >= 0),
                         .enough = need < SIZE_MAX / 16 ? need * 8 : SIZE_MAX / 2};
}

enum pith_status pith_calib_load_apart(const struct pith_calib_options *o,
                                       const struct pith_tokenizer *t, struct pith_calib_set *out,
                                       struct pith_calib_set *judge, struct pith_error *err)
{
    if (judge) *judge = (struct pith_calib_set){0};
    if (o->seq_len < 2) return pith_fail(err, PITH_ARG, "`seq_len` must be at least 2");
    if (o->tokens == 0) return pith_fail(err, PITH_ARG, "`calib_tokens` must be at least 1");
    struct encoder e = {.tokenizer = t, .draw = {draw_of(o->tokens, o->seq_len, t)}, .draws = 1};
    if (!o->judge) judge = NULL;
    if (judge && o->other.tokens && o->other.seq_len >= 2)
        e.draw[e.draws++] = draw_of(o->other.tokens, o->other.seq_len, t);
    if (judge) e.behind = o->judge < SIZE_MAX / 4 ? o->judge : SIZE_MAX / 4;
    struct pith_newlines newlines = {.lf = o->lf};
    struct pith_reading to = {.newlines = &newlines,
                              .document = add_document,
                              .prompt = add_prompt,
                              .ctx = &e,
                              .model = o->model};
    enum pith_status s = read_sources(o, &to, err);
    pith_chat_close(to.chat);
    note_limits(&e, true);
    if (s == PITH_OK) s = cut_windows(o, &e, out, judge, err);
    if (s == PITH_OK) {
        out->crlf = newlines.crlf;
        out->rendered = to.rendered;
        out->joined = to.joined;
    } else if (judge) {
        pith_calib_free(judge);
    }
    for (size_t i = 0; i < e.draws; i++) pith_free(e.draw[i].chosen);
    pith_ids_free(&e.ids);
    return s;
}

enum pith_status pith_calib_load(const struct pith_calib_options *o, const struct pith_tokenizer *t,
                                 struct pith_calib_set *out, struct pith_error *err)
{
    return pith_calib_load_apart(o, t, out, NULL, err);
}

void pith_calib_free(struct pith_calib_set *set)
{
    pith_free(set->ids);
    pith_free(set->at);
    *set = (struct pith_calib_set){0};
}
