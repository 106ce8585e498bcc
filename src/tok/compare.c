#include "tok/compare.h"

#include "base/mem.h"
#include "base/rng.h"
#include "tok/kind.h"
#include "tok/unicode/utf8.h"

#include <string.h>

struct pair {
    const struct pith_tokenizer *a, *b;
    struct pith_str text, other;
    struct pith_ids ids_a, ids_b;
    struct pith_str *why;
};

static bool differs(const struct pair *p)
{
    return p->why->len > 0;
}

/* --- what is stated --------------------------------------------------------------------------- */

static void compare_special(struct pair *p)
{
    const struct pith_tokenizer *a = p->a, *b = p->b;
    const struct {
        const char *what;
        int32_t a, b;
    } ids[] = {{"BOS", a->bos, b->bos}, {"EOS", a->eos, b->eos}};
    for (size_t i = 0; i < PITH_COUNT(ids) && !differs(p); i++)
        if (ids[i].a != ids[i].b)
            pith_str_printf(p->why, "%s is %d, and %d in the original", ids[i].what, (int)ids[i].a,
                            (int)ids[i].b);
}

static bool same_ids(const struct pith_ids *a, const struct pith_ids *b)
{
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->id, b->id, a->count * sizeof *a->id) == 0);
}

/* Whether a token is omitted from what is shown. */
static bool is_special(const struct pith_tokenizer *t, size_t id)
{
    size_t len = 0;
    const char *text = t->kind->token(t->model, (int32_t)id, true, &len);
    return !text || len == 0;
}

static void compare_tokens(struct pair *p)
{
    const size_t x = pith_tokenizer_vocab(p->a), y = pith_tokenizer_vocab(p->b);
    for (size_t id = 0; id < (x < y ? x : y) && !differs(p); id++) {
        size_t na = 0, nb = 0;
        const char *a = p->a->kind->token(p->a->model, (int32_t)id, false, &na);
        const char *b = p->b->kind->token(p->b->model, (int32_t)id, false, &nb);
        if (!a || !b) continue; /* a file that must name every id names this one anyhow */
        if (na != nb || memcmp(a, b, na) != 0)
            pith_str_printf(p->why, "token %zu is \"%.*s\", and \"%.*s\" in the original", id,
                            (int)(na < 40 ? na : 40), a, (int)(nb < 40 ? nb : 40), b);
        else if (is_special(p->a, id) != is_special(p->b, id))
            pith_str_printf(p->why, "token %zu, \"%.*s\", is %s, and %s in the original", id,
                            (int)(na < 40 ? na : 40), a, is_special(p->a, id) ? "special" : "text",
                            is_special(p->b, id) ? "special" : "text");
    }
}

static void compare_rules(struct pair *p)
{
    const struct pith_tok_kind *kind = p->a->kind;
    if (kind != p->b->kind || !kind->rules) return;
    const uint64_t a = kind->rules(p->a->model), b = kind->rules(p->b->model);
    if (a && b && a != b)
        pith_str_puts(p->why, "merges or scores are not the original's");
}

/* --- what it does ----------------------------------------------------------------------------- */

/* A text that one of them refuses (it may be too hard for a pattern), both must refuse. */
static enum pith_status encode_both(struct pair *p, const char *text, size_t size,
                                    struct pith_error *err)
{
    struct pith_error why = {0};
    p->ids_a.count = p->ids_b.count = 0;
    const enum pith_status a = pith_tokenizer_encode(p->a, text, size, true, &p->ids_a, &why);
    const enum pith_status b = pith_tokenizer_encode(p->b, text, size, true, &p->ids_b, &why);
    if (a == PITH_NOMEM || b == PITH_NOMEM) return pith_fail_nomem(err, "token ids");
    if (a != b || !same_ids(&p->ids_a, &p->ids_b))
        pith_str_printf(p->why, "the text \"%.*s\" becomes other ids", (int)(size < 60 ? size : 60),
                        text);
    return PITH_OK;
}

static bool same_text(const struct pith_str *a, const struct pith_str *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

/* Both texts of some ids. */
static enum pith_status decode_both(struct pair *p, const int32_t *ids, size_t n, bool skip,
                                    struct pith_error *err)
{
    pith_str_clear(&p->text);
    pith_str_clear(&p->other);
    PITH_TRY(pith_tokenizer_decode(p->b, ids, n, skip, &p->text, err));
    return pith_tokenizer_decode(p->a, ids, n, skip, &p->other, err);
}

/* Leaves out the ids that are parts of a character: what a broken character is shown as, is the
 * decoder's own choice (SentencePiece and Hugging Face's library differ). */
static enum pith_status drop_parts(struct pair *p, int32_t *ids, size_t *n, struct pith_error *err)
{
    size_t count = 0;
    for (size_t i = 0; i < *n; i++) {
        pith_str_clear(&p->text);
        PITH_TRY(pith_tokenizer_bytes(p->b, ids[i], &p->text, err));
        if (pith_utf8_valid(p->text.data, p->text.len)) ids[count++] = ids[i];
    }
    *n = count;
    return PITH_OK;
}

/* The text of some ids: both must decode it alike, special tokens omitted or not, and give it the
 * same ids. Of ids that are decoded differently, those of whole characters remain. */
static enum pith_status try_ids(struct pair *p, int32_t *ids, size_t n, struct pith_error *err)
{
    for (int skip = 1; skip >= 0 && !differs(p); skip--) {
        PITH_TRY(decode_both(p, ids, n, skip, err));
        if (same_text(&p->text, &p->other)) continue;
        PITH_TRY(drop_parts(p, ids, &n, err));
        PITH_TRY(decode_both(p, ids, n, skip, err));
        if (same_text(&p->text, &p->other)) continue;
        const int shown = (int)(p->text.len < 60 ? p->text.len : 60);
        pith_str_printf(p->why, "ids that are \"%.*s\" in the original become another text", shown,
                        pith_str_text(&p->text));
    }
    if (differs(p) || !p->text.len) return PITH_OK;
    return encode_both(p, p->text.data, p->text.len, err);
}

/* A special token amid a text: what it takes of the blanks around it, and whether it stands within
 * a word. */
static enum pith_status try_amid(struct pair *p, int32_t id, struct pith_error *err)
{
    pith_str_clear(&p->text);
    PITH_TRY(pith_tokenizer_decode(p->b, &id, 1, true, &p->text, err));
    if (p->text.len) return PITH_OK;
    pith_str_puts(&p->text, "a");
    PITH_TRY(pith_tokenizer_decode(p->b, &id, 1, false, &p->text, err));
    if (p->text.len == 1) return PITH_OK;
    pith_str_puts(&p->text, "b  ");
    PITH_TRY(pith_tokenizer_decode(p->b, &id, 1, false, &p->text, err));
    pith_str_puts(&p->text, "  c");
    if (p->text.failed) return pith_fail_nomem(err, "tokenizers");
    return encode_both(p, p->text.data, p->text.len, err);
}

/* Tokens that only the larger vocabulary has: a text may not become one of them. */
static enum pith_status compare_rest(struct pair *p, size_t from, size_t to,
                                     const struct pith_tokenizer *larger, struct pith_error *err)
{
    for (size_t id = from; id < to && !differs(p); id++) {
        size_t n = 0;
        const char *text = larger->kind->token(larger->model, (int32_t)id, false, &n);
        if (text && n) PITH_TRY(encode_both(p, text, n, err));
    }
    return PITH_OK;
}

/* Each token, and runs of tokens that hardly anybody writes. */
static enum pith_status compare_encoding(struct pair *p, struct pith_error *err)
{
    enum { RUN = 48, RUNS = 512 };
    static const char *const texts[] = {
        "",
        "The quick brown fox jumps over the lazy dog; 3.14159 and 1,234,567 at 12:30.",
        "  leading, trailing and   several blanks\t\ttabs\r\n\r\nlines \n ",
        "don't I'll we've you'RE IT'S",
        "na\xc3\xafve \xc3\x9c\x62\x65rgr\xc3\xb6\xc3\x9f\x65 e\xcc\x81 \xef\xac\x81 \xc2\xa0",
        ("\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e \xd0\x9f\xd1\x80\xd0\xb8\xd0\xb2\xd0\xb5\xd1\x82 "
         "\xf0\x9f\xa6\x99\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x92\xbb"),
        "int main(void) { return x[0] != 0x1F ? a->b : *c; } // <html> & </s><s>",
    };
    const size_t x = pith_tokenizer_vocab(p->a), y = pith_tokenizer_vocab(p->b);
    const size_t n = x < y ? x : y;
    struct pith_rng rng;
    int32_t run[RUN];
    pith_rng_seed(&rng, 1);
    for (size_t i = 0; i < PITH_COUNT(texts) && !differs(p); i++) {
        PITH_TRY(encode_both(p, texts[i], strlen(texts[i]), err));
        if (!differs(p)) PITH_TRY(decode_both(p, p->ids_b.id, p->ids_b.count, true, err));
        if (!differs(p) && !same_text(&p->text, &p->other))
            pith_str_printf(p->why, "the ids of the text \"%s\" become another text", texts[i]);
    }
    for (size_t id = 0; id < n && !differs(p); id++) {
        run[0] = (int32_t)id;
        PITH_TRY(try_ids(p, run, 1, err));
        if (!differs(p)) PITH_TRY(try_amid(p, run[0], err));
    }
    for (int i = 0; i < RUNS && n && !differs(p); i++) {
        for (int k = 0; k < RUN; k++) run[k] = (int32_t)pith_rng_below(&rng, n);
        PITH_TRY(try_ids(p, run, RUN, err));
    }
    return compare_rest(p, n, x > y ? x : y, x > y ? p->a : p->b, err);
}

enum pith_status pith_tokenizer_compare(const struct pith_tokenizer *a,
                                        const struct pith_tokenizer *b, struct pith_str *why,
                                        struct pith_error *err)
{
    struct pair p = {.a = a, .b = b, .why = why};
    compare_special(&p);
    if (!differs(&p)) compare_tokens(&p);
    if (!differs(&p)) compare_rules(&p);
    const enum pith_status s = differs(&p) ? PITH_OK : compare_encoding(&p, err);
    pith_str_free(&p.text);
    pith_str_free(&p.other);
    pith_ids_free(&p.ids_a);
    pith_ids_free(&p.ids_b);
    return s == PITH_OK && why->failed ? pith_fail_nomem(err, "tokenizers") : s;
}
