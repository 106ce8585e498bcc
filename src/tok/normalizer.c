#include "tok/normalizer.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "tok/component.h"
#include "tok/unicode/bytemap.h"
#include "tok/unicode/unicode.h"
#include "tok/unicode/utf8.h"

#include <string.h>
#include <utf8proc.h>

static const char what[] = "normalizer";

/* Each rewrites the whole text. */
#define MAX_STEPS 64

static enum pith_status normal_too_long(struct pith_error *err)
{
    return pith_fail(err, PITH_LIMIT, "the tokenizer's %s makes this text too long", what);
}

#define APPLY(name)                                                                                \
    static enum pith_status name(const struct pith_normal *s, const char *text, size_t len,        \
                                 struct pith_normal_run *run, struct pith_str *out,                \
                                 struct pith_error *err)

#define APPLY_FORM(name, compatible, compose)                                                      \
    APPLY(name)                                                                                    \
    {                                                                                              \
        (void)s;                                                                                   \
        (void)run;                                                                                 \
        return pith_normal_form(text, len, compatible, compose, out, err);                         \
    }

APPLY_FORM(apply_nfc, false, true)
APPLY_FORM(apply_nfd, false, false)
APPLY_FORM(apply_nfkc, true, true)
APPLY_FORM(apply_nfkd, true, false)

static enum pith_status read_prepend(struct pith_normal *s, const json_t *json,
                                     struct pith_error *err)
{
    const char *text;
    PITH_TRY(pith_component_text(json, "prepend", what, &text, &s->text_len, err));
    s->text = pith_strndup(text, s->text_len);
    return s->text ? PITH_OK : pith_fail_nomem(err, what);
}

APPLY(apply_prepend)
{
    (void)err;
    if (run->start) run->start += s->text_len;
    if (len) pith_str_append(out, s->text, s->text_len);
    pith_str_append(out, text, len);
    return PITH_OK;
}

static enum pith_status read_normal_replace(struct pith_normal *s, const json_t *json,
                                            struct pith_error *err)
{
    const char *text;
    PITH_TRY(pith_component_text(json, "content", what, &text, &s->text_len, err));
    s->text = pith_strndup(text, s->text_len);
    if (!s->text) return pith_fail_nomem(err, what);
    return pith_component_pattern(json, what, &s->pattern, err);
}

struct replacement {
    const struct pith_normal *step;
    const char *text;
    struct pith_str *out;
    struct pith_normal_run *run;
};

static enum pith_status replace_normal_part(void *ctx, size_t from, size_t to, bool match,
                                            struct pith_error *err)
{
    const struct replacement *r = ctx;
    if (match) pith_str_append(r->out, r->step->text, r->step->text_len);
    else pith_str_append(r->out, r->text + from, to - from);
    if (r->out->len == 0) r->run->lost = to;
    return r->out->len > r->run->limit ? normal_too_long(err) : PITH_OK;
}

APPLY(apply_replace)
{
    struct replacement r = {s, text, out, run};
    return pith_regex_parts(s->pattern, &run->regex, text, len, replace_normal_part, &r, err);
}

/* Pairs that Unicode 16 added and utf8proc 2.8 lacks: first and last upper case, first lower case.
 */
static const struct {
    uint32_t first, last, lower;
} newer_cases[] = {{0x1c89, 0x1c89, 0x1c8a}, {0xa7cb, 0xa7cb, 0x264}, {0xa7cc, 0xa7cc, 0xa7cd},
                   {0xa7da, 0xa7da, 0xa7db}, {0xa7dc, 0xa7dc, 0x19b}, {0x10d50, 0x10d65, 0x10d70}};

static uint32_t lower(uint32_t cp)
{
    for (size_t i = 0; i < PITH_COUNT(newer_cases); i++)
        if (cp >= newer_cases[i].first && cp <= newer_cases[i].last)
            return cp - newer_cases[i].first + newer_cases[i].lower;
    return (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
}

APPLY(apply_lowercase)
{
    (void)s;
    (void)run;
    (void)err;
    for (size_t i = 0; i < len; i += pith_utf8_len(text[i])) {
        const uint32_t cp = pith_utf8_get(text + i);
        /* The one character whose lower case is longer (SpecialCasing.txt, unconditional). */
        if (cp == 0x130) pith_str_puts(out, "i\xcc\x87");
        else pith_utf8_put(out, lower(cp));
    }
    return PITH_OK;
}

static enum pith_status read_normal_strip(struct pith_normal *s, const json_t *json,
                                          struct pith_error *err)
{
    PITH_TRY(pith_json_get_bool(json, "strip_left", &s->left, what, err));
    return pith_json_get_bool(json, "strip_right", &s->right, what, err);
}

APPLY(apply_strip)
{
    (void)err;
    size_t from = 0, to = len;
    while (s->left && from < to && pith_is_space(pith_utf8_get(text + from)))
        from += pith_utf8_len(text[from]);
    while (s->right && to > from) {
        const size_t last = pith_utf8_back(text, to);
        if (!pith_is_space(pith_utf8_get(text + last))) break;
        to = last;
    }
    run->lost = from;
    pith_str_append(out, text + from, to - from);
    return PITH_OK;
}

/* Marks as the reference's tables have them. */
static bool is_mark(uint32_t cp)
{
    if (cp == 0x1cf2 || cp == 0x1cf3) return true; /* letters since Unicode 12 */
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return !pith_unicode_later(cp) &&
           (c == UTF8PROC_CATEGORY_MN || c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME);
}

APPLY(apply_strip_accents)
{
    (void)s;
    (void)err;
    for (size_t i = 0, n; i < len; i += n) {
        n = pith_utf8_len(text[i]);
        if (!is_mark(pith_utf8_get(text + i))) pith_str_append(out, text + i, n);
        if (out->len == 0) run->lost = i + n;
    }
    return PITH_OK;
}

APPLY(apply_byte_level)
{
    (void)s;
    (void)run;
    (void)err;
    pith_bytemap_put(text, len, out);
    return PITH_OK;
}

static enum pith_status read_precompiled(struct pith_normal *s, const json_t *json,
                                         struct pith_error *err)
{
    const char *text;
    size_t len;
    PITH_TRY(pith_component_text(json, "precompiled_charsmap", what, &text, &len, err));
    return pith_charsmap_read_base64(&s->rules, text, len, err);
}

APPLY(apply_precompiled)
{
    (void)err;
    pith_charsmap_apply(&s->rules, text, len, run->limit, out);
    return PITH_OK;
}

/* What becomes of a character in machine translation: 0 when it vanishes. */
static uint32_t nmt(uint32_t cp)
{
    static const uint32_t blank[] = {'\t',   '\n',   '\f',   '\r',   0x1680,
                                     0x2028, 0x2029, 0x2581, 0xfeff, 0xfffd};
    if ((cp >= 1 && cp <= 8) || cp == 0xb || (cp >= 0xe && cp <= 0x1f) || cp == 0x7f ||
        cp == 0x8f || cp == 0x9f)
        return 0;
    if (cp >= 0x200b && cp <= 0x200f) return ' ';
    for (size_t i = 0; i < PITH_COUNT(blank); i++)
        if (cp == blank[i]) return ' ';
    return cp;
}

APPLY(apply_nmt)
{
    (void)s;
    (void)err;
    for (size_t i = 0, n; i < len; i += n) {
        const uint32_t cp = pith_utf8_get(text + i), to = nmt(cp);
        n = pith_utf8_len(text[i]);
        if (to || !cp) pith_utf8_put(out, to);
        if (out->len == 0) run->lost = i + n;
    }
    return PITH_OK;
}

/* "type" in tokenizer.json, reader, function. */
static const struct pith_normal_kind kinds[] = {
    {"NFC", NULL, apply_nfc},
    {"NFD", NULL, apply_nfd},
    {"NFKC", NULL, apply_nfkc},
    {"NFKD", NULL, apply_nfkd},
    {"Prepend", read_prepend, apply_prepend},
    {"Replace", read_normal_replace, apply_replace},
    {"Lowercase", NULL, apply_lowercase},
    {"Strip", read_normal_strip, apply_strip},
    {"StripAccents", NULL, apply_strip_accents},
    {"ByteLevel", NULL, apply_byte_level},
    {"Nmt", NULL, apply_nmt},
    {"Precompiled", read_precompiled, apply_precompiled},
};

static enum pith_status add_normal_step(struct pith_normalizer *n, const json_t *json,
                                        const char *type, struct pith_error *err)
{
    const struct pith_normal_kind *kind = NULL;
    for (size_t i = 0; i < PITH_COUNT(kinds); i++)
        if (strcmp(kinds[i].name, type) == 0) kind = &kinds[i];
    if (!kind) return pith_component_unsupported(what, type, err);
    if (n->count == MAX_STEPS)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: more than %d steps", what, MAX_STEPS);
    struct pith_normal *step = pith_realloc(n->step, n->count + 1, sizeof *step);
    if (!step) return pith_fail_nomem(err, what);
    n->step = step;
    step += n->count++;
    *step = (struct pith_normal){.kind = kind};
    return kind->read ? kind->read(step, json, err) : PITH_OK;
}

static enum pith_status read_nested_normalizer(struct pith_normalizer *n, const json_t *json,
                                               int depth, struct pith_error *err)
{
    const char *type;
    PITH_TRY(pith_component_type(json, what, &type, err));
    if (strcmp(type, "Sequence") != 0) return add_normal_step(n, json, type, err);
    const json_t *list = json_object_get(json, "normalizers");
    if (!json_is_array(list) || depth == PITH_COMPONENT_DEPTH)
        return pith_fail(err, PITH_FORMAT, "%s: Sequence without a list, or nested too deep", what);
    for (size_t i = 0; i < json_array_size(list); i++)
        PITH_TRY(read_nested_normalizer(n, json_array_get(list, i), depth + 1, err));
    return PITH_OK;
}

enum pith_status pith_normalizer_read(struct pith_normalizer *n, const json_t *json,
                                      struct pith_error *err)
{
    if (!json || json_is_null(json)) return PITH_OK;
    return read_nested_normalizer(n, json, 0, err);
}

enum pith_status pith_normalizer_apply(const struct pith_normalizer *n, const char *text,
                                       size_t len, struct pith_normal_run *run,
                                       struct pith_error *err)
{
    struct pith_str *out = &run->text[0], *other = &run->text[1];
    pith_str_clear(out);
    run->limit = pith_text_limit(len);
    run->start = len ? pith_utf8_len(text[0]) : 0;
    if (n->count == 0) pith_str_append(out, text, len);
    for (size_t i = 0; i < n->count; i++) {
        const struct pith_normal *s = &n->step[i];
        pith_str_clear(other);
        run->lost = 0;
        PITH_TRY(s->kind->apply(s, text, len, run, other, err));
        if (other->len > run->limit) return normal_too_long(err);
        run->start -= run->lost < run->start ? run->lost : run->start;
        const struct pith_str swap = *out;
        *out = *other;
        *other = swap;
        text = pith_str_text(out);
        len = out->len;
    }
    return out->failed || other->failed ? pith_fail_nomem(err, "normalized text") : PITH_OK;
}

void pith_normalizer_free(struct pith_normalizer *n)
{
    for (size_t i = 0; i < n->count; i++) {
        pith_free(n->step[i].text);
        pith_regex_free(n->step[i].pattern);
        pith_charsmap_free(&n->step[i].rules);
    }
    pith_free(n->step);
    *n = (struct pith_normalizer){0};
}

void pith_normal_run_free(struct pith_normal_run *run)
{
    pith_str_free(&run->text[0]);
    pith_str_free(&run->text[1]);
    pith_regex_run_free(&run->regex);
}
