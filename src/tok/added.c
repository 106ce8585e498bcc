#include "tok/added.h"

#include "base/mem.h"
#include "tok/unicode/unicode.h"
#include "tok/unicode/utf8.h"

#include <string.h>

static const char what[] = "added_tokens";

static enum pith_status read_flags(struct pith_added_token *t, const json_t *json,
                                   struct pith_error *err)
{
    PITH_TRY(pith_json_get_bool(json, "single_word", &t->single_word, what, err));
    PITH_TRY(pith_json_get_bool(json, "lstrip", &t->lstrip, what, err));
    PITH_TRY(pith_json_get_bool(json, "rstrip", &t->rstrip, what, err));
    PITH_TRY(pith_json_get_bool(json, "special", &t->special, what, err));
    t->normalized = !t->special;
    return pith_json_get_bool(json, "normalized", &t->normalized, what, err);
}

/* Fills t->shown when the normalizer changes the text. */
static enum pith_status normalize(struct pith_added_token *t, const struct pith_normalizer *n,
                                  struct pith_error *err)
{
    if (!t->normalized || n->count == 0) return PITH_OK;
    struct pith_normal_run run = {0};
    enum pith_status s = pith_normalizer_apply(n, t->text, t->len, &run, err);
    const struct pith_str *out = &run.text[0];
    if (s == PITH_OK && (out->len != t->len || memcmp(pith_str_text(out), t->text, t->len) != 0)) {
        t->shown = pith_strndup(pith_str_text(out), out->len);
        t->shown_len = out->len;
        if (!t->shown) s = pith_fail_nomem(err, what);
    }
    pith_normal_run_free(&run);
    return s;
}

static enum pith_status index_token(struct pith_added *a, size_t index, struct pith_error *err)
{
    const struct pith_added_token *t = &a->token[index];
    struct pith_matcher *m = t->normalized ? &a->normal : &a->raw;
    const char *text = t->shown ? t->shown : t->text;
    const size_t len = t->shown ? t->shown_len : t->len;
    if (len && !pith_matcher_add(m, text, len, (int32_t)index)) return pith_fail_nomem(err, what);
    if ((size_t)t->id >= a->ids) {
        const size_t ids = (size_t)t->id + 1;
        int32_t *by_id = pith_realloc(a->by_id, ids, sizeof *by_id);
        if (!by_id) return pith_fail_nomem(err, what);
        memset(by_id + a->ids, 0, (ids - a->ids) * sizeof *by_id);
        a->by_id = by_id;
        a->ids = ids;
    }
    a->by_id[t->id] = (int32_t)index + 1;
    return PITH_OK;
}

static enum pith_status read_added_token(struct pith_added_token *t, const json_t *json,
                                         const struct pith_normalizer *n, struct pith_error *err)
{
    const json_t *content = json_object_get(json, "content");
    if (!json_is_string(content))
        return pith_fail(err, PITH_FORMAT, "%s: an entry has no \"content\" text", what);
    t->len = json_string_length(content);
    t->text = pith_strndup(json_string_value(content), t->len);
    if (!t->text) return pith_fail_nomem(err, what);
    PITH_TRY(read_flags(t, json, err));
    return normalize(t, n, err);
}

enum pith_status pith_added_read(struct pith_added *a, const json_t *list,
                                 const struct pith_vocab *vocab, const struct pith_normalizer *n,
                                 bool numbered, struct pith_error *err)
{
    if (!list || json_is_null(list)) return PITH_OK;
    if (!json_is_array(list)) return pith_fail(err, PITH_FORMAT, "%s: not a list", what);
    const size_t total = json_array_size(list);
    if (total > PITH_VOCAB_ID_MAX - vocab->count)
        return pith_fail(err, PITH_FORMAT, "%s: too many entries", what);
    a->token = pith_zalloc(total, sizeof *a->token);
    struct pith_vocab seen = {0}; /* texts so far, with their index */
    enum pith_status s = a->token ? PITH_OK : pith_fail_nomem(err, what);
    int32_t fresh = (int32_t)vocab->count;
    for (size_t i = 0; s == PITH_OK && i < total; i++) {
        struct pith_added_token *t = &a->token[a->count];
        s = read_added_token(t, json_array_get(list, i), n, err);
        if (s != PITH_OK || t->len == 0 || pith_vocab_find(&seen, t->text, t->len) >= 0) {
            pith_free(t->text);
            pith_free(t->shown);
            *t = (struct pith_added_token){0};
            continue;
        }
        const int32_t known = pith_vocab_find(vocab, t->text, t->len);
        int64_t own = known >= 0 ? known : fresh++;
        if (numbered)
            s = pith_json_get_int(json_array_get(list, i), "id", 0, PITH_VOCAB_ID_MAX, &own, what,
                                  err);
        t->id = (int32_t)own;
        if (s == PITH_OK) s = pith_vocab_add(&seen, t->text, t->len, (int64_t)a->count++, err);
        if (s == PITH_OK) s = index_token(a, a->count - 1, err);
    }
    pith_vocab_free(&seen);
    if (s == PITH_OK && (!pith_matcher_finish(&a->raw) || !pith_matcher_finish(&a->normal)))
        s = pith_fail_nomem(err, what);
    return s;
}

const struct pith_added_token *pith_added_find(const struct pith_added *a, const char *text,
                                               size_t len)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->token[i].len == len && memcmp(a->token[i].text, text, len) == 0) return &a->token[i];
    return NULL;
}

const struct pith_added_token *pith_added_by_id(const struct pith_added *a, int32_t id)
{
    if (id < 0 || (size_t)id >= a->ids || !a->by_id[id]) return NULL;
    return &a->token[a->by_id[id] - 1];
}

void pith_added_free(struct pith_added *a)
{
    for (size_t i = 0; i < a->count; i++) {
        pith_free(a->token[i].text);
        pith_free(a->token[i].shown);
    }
    pith_free(a->token);
    pith_free(a->by_id);
    pith_matcher_free(&a->raw);
    pith_matcher_free(&a->normal);
    *a = (struct pith_added){0};
}

/* No letter, digit or other word character touches text[from..to). */
static bool stands_alone(const char *text, size_t len, size_t from, size_t to)
{
    if (from > 0 && pith_is_word(pith_utf8_get(text + pith_utf8_back(text, from)))) return false;
    return to == len || !pith_is_word(pith_utf8_get(text + to));
}

static size_t spaces_before(const char *text, size_t at)
{
    while (at > 0) {
        const size_t back = pith_utf8_back(text, at);
        if (!pith_is_space(pith_utf8_get(text + back))) break;
        at = back;
    }
    return at;
}

static size_t spaces_after(const char *text, size_t len, size_t at)
{
    while (at < len && pith_is_space(pith_utf8_get(text + at))) at += pith_utf8_len(text[at]);
    return at;
}

bool pith_added_markup(const struct pith_added_token *t)
{
    if (t->len == 0) return false;
    const char first = t->text[0], last = t->text[t->len - 1];
    return t->special || (first == '<' && last == '>') || (first == '[' && last == ']');
}

/* Who receives the parts, and how far they reach. */
struct parts {
    pith_added_part_fn *fn;
    void *ctx;
    size_t done;
};

/* The parts that are found, and what lies between them. */
static enum pith_status split(const struct pith_added *a, struct pith_match_run *run,
                              const struct pith_added_text *in, struct parts *out,
                              struct pith_error *err)
{
    const char *text = run->text;
    const size_t len = run->len;
    for (size_t at = 0; at < len && run->m->count;) {
        int32_t index = -1;
        const size_t n = pith_match_at(run, at, &index);
        if (n == 0) {
            at++;
            continue;
        }
        const struct pith_added_token *t = &a->token[index];
        if (in->marks && memchr(in->marks + at, 1, n) && pith_added_markup(t)) {
            at++;
            continue;
        }
        size_t from = at, to = at + n;
        at = to;
        if (t->single_word && !stands_alone(text, len, from, to)) continue;
        if (t->lstrip) {
            const size_t left = spaces_before(text, from);
            from = left > out->done ? left : out->done;
        }
        if (t->rstrip) to = spaces_after(text, len, to);
        if (out->done < from) PITH_TRY(out->fn(out->ctx, out->done, from, NULL, err));
        PITH_TRY(out->fn(out->ctx, from, to, t, err));
        out->done = to;
    }
    return run->failed ? pith_fail_nomem(err, what) : PITH_OK;
}

enum pith_status pith_added_split(const struct pith_added *a, const struct pith_added_text *text,
                                  pith_added_part_fn *fn, void *ctx, struct pith_error *err)
{
    struct pith_match_run run = {
        .m = text->normal ? &a->normal : &a->raw, .text = text->text, .len = text->len};
    struct parts parts = {fn, ctx, 0};
    const enum pith_status s = split(a, &run, text, &parts, err);
    pith_match_run_free(&run);
    PITH_TRY(s);
    /* A token that begins inside the blanks of the one before it may end before them. */
    return parts.done < text->len ? fn(ctx, parts.done, text->len, NULL, err) : PITH_OK;
}
