#define PCRE2_CODE_UNIT_WIDTH 8
#include "tok/regex.h"

#include "base/mem.h"
#include "tok/unicode.h"
#include "tok/utf8.h"

#include <pcre2.h>
#include <string.h>

/* Longest pattern, in bytes as translated; real ones have a few hundred. */
#define MAX_PATTERN (1u << 20)
/* Backtracking steps of one match, and KiB of heap for it: what a hostile pattern may cost. */
#define MATCH_LIMIT 20000000u
#define HEAP_LIMIT (256u << 10)

struct pith_regex {
    pcre2_code *plain;
    pcre2_code *newer; /* for texts with characters of Unicode 15 and 16; NULL: plain does */
    char *literal;     /* not a pattern but this text; the codes are NULL */
    size_t literal_len;
};

static void *take(PCRE2_SIZE size, void *unused)
{
    (void)unused;
    return pith_alloc(size, 1);
}

static void give(void *p, void *unused)
{
    (void)unused;
    pith_free(p);
}

static enum pith_status compile(const char *pattern, size_t len, pcre2_code **out,
                                struct pith_error *err)
{
    pcre2_general_context *general = pcre2_general_context_create(take, give, NULL);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    int code = PCRE2_ERROR_NOMEMORY;
    PCRE2_SIZE at = 0;
    *out = NULL;
    if (context) {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        pcre2_set_max_pattern_length(context, MAX_PATTERN);
        const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C |
                                 PCRE2_NO_AUTO_CAPTURE;
        *out = pcre2_compile((PCRE2_SPTR)pattern, len, options, &code, &at, context);
    }
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    if (*out) {
        pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* without JIT the interpreter does it */
        return PITH_OK;
    }
    if (code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAP_FAILED)
        return pith_fail_nomem(err, "pattern");
    char text[128] = "";
    pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
    return pith_fail(err, PITH_FORMAT, "pattern: %s (at byte %zu)", text, (size_t)at);
}

static enum pith_status translate_and_compile(const char *pattern, size_t len, bool newer,
                                              bool *has_property, pcre2_code **out,
                                              struct pith_error *err)
{
    struct pith_str s = {0};
    enum pith_status status = pith_regex_translate(pattern, len, newer, has_property, &s, err);
    if (status == PITH_OK) status = compile(pith_str_text(&s), s.len, out, err);
    pith_str_free(&s);
    return status;
}

enum pith_status pith_regex_new(const char *pattern, size_t len, struct pith_regex **out,
                                struct pith_error *err)
{
    if (!pith_utf8_valid(pattern, len)) return pith_fail(err, PITH_FORMAT, "pattern: not UTF-8");
    struct pith_regex *re = pith_zalloc(1, sizeof *re);
    if (!re) return pith_fail_nomem(err, "pattern");
    bool has_property = false;
    enum pith_status s = translate_and_compile(pattern, len, false, &has_property, &re->plain, err);
    if (s == PITH_OK && has_property)
        s = translate_and_compile(pattern, len, true, &has_property, &re->newer, err);
    if (s != PITH_OK) {
        pith_regex_free(re);
        return s;
    }
    *out = re;
    return PITH_OK;
}

enum pith_status pith_regex_literal(const char *text, size_t len, struct pith_regex **out,
                                    struct pith_error *err)
{
    if (len == 0) return pith_regex_new(text, len, out, err); /* matches between all characters */
    struct pith_regex *re = pith_zalloc(1, sizeof *re);
    if (re) re->literal = pith_strndup(text, len);
    if (!re || !re->literal) {
        pith_regex_free(re);
        return pith_fail_nomem(err, "pattern");
    }
    re->literal_len = len;
    *out = re;
    return PITH_OK;
}

void pith_regex_free(struct pith_regex *re)
{
    if (!re) return;
    pcre2_code_free(re->plain);
    pcre2_code_free(re->newer);
    pith_free(re->literal);
    pith_free(re);
}

static bool prepare(struct pith_regex_run *run)
{
    if (run->data) return true;
    pcre2_general_context *general = pcre2_general_context_create(take, give, NULL);
    if (!general) return false;
    run->data = pcre2_match_data_create(1, general);
    run->match = pcre2_match_context_create(general);
    pcre2_general_context_free(general);
    if (!run->data || !run->match) {
        pith_regex_run_free(run);
        return false;
    }
    pcre2_set_match_limit(run->match, MATCH_LIMIT);
    pcre2_set_heap_limit(run->match, HEAP_LIMIT);
    return true;
}

void pith_regex_run_free(struct pith_regex_run *run)
{
    pcre2_match_data_free(run->data);
    pcre2_match_context_free(run->match);
    *run = (struct pith_regex_run){0};
}

/* Next match at or after `at`: 1 found, 0 none, negative a PCRE2 error. The machine stack that JIT
 * code may use is small; when it does not suffice the interpreter, which uses the heap, takes over.
 */
static int next_match(const pcre2_code *code, struct pith_regex_run *run, const char *text,
                      size_t len, size_t at)
{
    const PCRE2_SPTR s = (PCRE2_SPTR)text;
    int rc = pcre2_match(code, s, len, at, PCRE2_NO_UTF_CHECK, run->data, run->match);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc =
            pcre2_match(code, s, len, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, run->data, run->match);
    if (rc >= 0) return 1;
    return rc == PCRE2_ERROR_NOMATCH ? 0 : rc;
}

static enum pith_status match_failed(int rc, struct pith_error *err)
{
    if (rc == PCRE2_ERROR_NOMEMORY) return pith_fail_nomem(err, "pattern match");
    char why[128] = "";
    pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
    return pith_fail(err, PITH_LIMIT, "the tokenizer's pattern cannot be applied to this text: %s",
                     why);
}

/* Where the literal next occurs at or after `at`, or len. */
static size_t next_literal(const struct pith_regex *re, const char *text, size_t len, size_t at)
{
    while (at < len && len - at >= re->literal_len) {
        const char *p = memchr(text + at, re->literal[0], len - at - re->literal_len + 1);
        if (!p) break;
        if (memcmp(p, re->literal, re->literal_len) == 0) return (size_t)(p - text);
        at = (size_t)(p - text) + 1;
    }
    return len;
}

static enum pith_status literal_parts(const struct pith_regex *re, const char *text, size_t len,
                                      pith_regex_part_fn *fn, void *ctx, struct pith_error *err)
{
    size_t done = 0;
    while (done < len) {
        const size_t from = next_literal(re, text, len, done);
        if (from > done) PITH_TRY(fn(ctx, done, from, false, err));
        done = from;
        if (from == len) break;
        done += re->literal_len;
        PITH_TRY(fn(ctx, from, done, true, err));
    }
    return len == 0 ? fn(ctx, 0, 0, false, err) : PITH_OK;
}

enum pith_status pith_regex_parts(const struct pith_regex *re, struct pith_regex_run *run,
                                  const char *text, size_t len, pith_regex_part_fn *fn, void *ctx,
                                  struct pith_error *err)
{
    if (re->literal) return literal_parts(re, text, len, fn, ctx, err);
    if (!prepare(run)) return pith_fail_nomem(err, "pattern match");
    const pcre2_code *code = re->newer && pith_unicode_has_newer(text, len) ? re->newer : re->plain;
    size_t done = 0, at = 0;
    bool any = false;
    while (at <= len && len > 0) {
        const int rc = next_match(code, run, text, len, at);
        if (rc < 0) return match_failed(rc, err);
        if (rc == 0) break;
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(run->data);
        const size_t from = range[0], to = range[1];
        if (to < from) return pith_fail(err, PITH_UNSUPPORTED, "pattern: \\K is not supported");
        at = to;
        if (from == to) { /* an empty match: never where the last one ended, and go on behind it */
            at = to < len ? to + pith_utf8_len(text[to]) : len + 1;
            if (any && from == done) continue;
        }
        if (from < done) return pith_fail(err, PITH_UNSUPPORTED, "pattern: \\K is not supported");
        if (from > done) PITH_TRY(fn(ctx, done, from, false, err));
        PITH_TRY(fn(ctx, from, to, true, err));
        done = to;
        any = true;
    }
    return done < len || len == 0 ? fn(ctx, done, len, false, err) : PITH_OK;
}
