#define PCRE2_CODE_UNIT_WIDTH 8
#include "tok/regex/regex.h"

#include "base/mem.h"
#include "tok/unicode/unicode.h"
#include "tok/unicode/utf8.h"

#include <pcre2.h>
#include <string.h>

/* Longest pattern, in bytes as translated; real ones have a few hundred. */
#define MAX_PATTERN (1u << 20)
/* KiB of heap that a match may take. */
#define HEAP_LIMIT (256u << 10)

/* What patterns may cost. A match is first tried in a short stretch of text with few backtracking
 * steps, which suffices for nearly all of them and bounds the work of each byte. What does not end
 * there is matched by a code that counts: each item that is tried is a step, and so is each byte
 * moved over. These steps have a budget for the whole text; patterns of real tokenizers take less
 * than ten a byte. */
#define STRETCH ((size_t)128)
#define STRETCH_STEPS 64u
#define STEPS_A_BYTE 512u
#define STEPS_AT_LEAST (8u << 20)

/* A pattern compiled twice. */
struct code {
    pcre2_code *quick;   /* as it is; NULL: only counting will do */
    pcre2_code *counted; /* with a callout before each item */
    bool refers;         /* has references to groups, whose comparison is no separate item */
};

struct pith_regex {
    struct code plain;
    struct code newer; /* for texts with characters of Unicode 15 and 16; empty: plain does */
    char *source;      /* the pattern as written, or the literal text */
    size_t source_len;
    uint32_t *fallback; /* of a literal: how much of it still matches when the next byte does not */
};

static enum pith_status compile(const char *pattern, size_t len, uint32_t extra, pcre2_code **out,
                                struct pith_error *err)
{
    pcre2_general_context *general = pcre2_general_context_create(pith_lend, pith_take_back, NULL);
    pcre2_compile_context *context = general ? pcre2_compile_context_create(general) : NULL;
    int code = PCRE2_ERROR_NOMEMORY;
    PCRE2_SIZE at = 0;
    *out = NULL;
    if (context) {
        pcre2_set_newline(context, PCRE2_NEWLINE_LF);
        pcre2_set_max_pattern_length(context, MAX_PATTERN);
        const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C |
                                 PCRE2_NO_AUTO_CAPTURE | extra;
        *out = pcre2_compile((PCRE2_SPTR)pattern, len, options, &code, &at, context);
    }
    pcre2_compile_context_free(context);
    pcre2_general_context_free(general);
    if (*out) {
        /* Without JIT the interpreter does it. */
        pcre2_jit_compile(*out,
                          extra ? PCRE2_JIT_COMPLETE : PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD);
        return PITH_OK;
    }
    if (code == PCRE2_ERROR_NOMEMORY || code == PCRE2_ERROR_HEAP_FAILED)
        return pith_fail_nomem(err, "pattern");
    char text[128] = "";
    pcre2_get_error_message(code, (PCRE2_UCHAR *)text, sizeof text);
    return pith_fail(err, PITH_FORMAT, "pattern: %s (at byte %zu)", text, (size_t)at);
}

static bool contains(const char *text, size_t len, const char *part)
{
    const size_t n = strlen(part);
    for (size_t i = 0; i + n <= len; i++)
        if (memcmp(text + i, part, n) == 0) return true;
    return false;
}

/* Whether a text may be searched stretch by stretch: not by patterns that know where the search
 * began (\G), that end it (verbs), or that look far back. */
static bool may_stretch(const pcre2_code *code, const char *pattern, size_t len)
{
    uint32_t behind = 0;
    pcre2_pattern_info(code, PCRE2_INFO_MAXLOOKBEHIND, &behind);
    return behind <= 16 && !contains(pattern, len, "\\G") && !contains(pattern, len, "(*");
}

static enum pith_status compile_both(const char *pattern, size_t len, struct code *out,
                                     struct pith_error *err)
{
    uint32_t highest = 0;
    PITH_TRY(compile(pattern, len, 0, &out->quick, err));
    PITH_TRY(compile(pattern, len, PCRE2_AUTO_CALLOUT, &out->counted, err));
    pcre2_pattern_info(out->counted, PCRE2_INFO_BACKREFMAX, &highest);
    out->refers = highest > 0;
    if (may_stretch(out->quick, pattern, len)) return PITH_OK;
    pcre2_code_free(out->quick);
    out->quick = NULL;
    return PITH_OK;
}

static enum pith_status translate_and_compile(const char *pattern, size_t len, bool newer,
                                              bool *has_property, struct code *out,
                                              struct pith_error *err)
{
    struct pith_str s = {0};
    enum pith_status status = pith_regex_translate(pattern, len, newer, has_property, &s, err);
    if (status == PITH_OK) status = compile_both(pith_str_text(&s), s.len, out, err);
    pith_str_free(&s);
    return status;
}

/* A pattern with its source and nothing else; NULL when memory is out. */
static struct pith_regex *new_regex(const char *source, size_t len)
{
    struct pith_regex *re = pith_zalloc(1, sizeof *re);
    if (!re) return NULL;
    re->source = pith_strndup(source, len);
    re->source_len = len;
    if (re->source) return re;
    pith_free(re);
    return NULL;
}

enum pith_status pith_regex_new(const char *pattern, size_t len, struct pith_regex **out,
                                struct pith_error *err)
{
    if (!pith_utf8_valid(pattern, len)) return pith_fail(err, PITH_FORMAT, "pattern: not UTF-8");
    struct pith_regex *re = new_regex(pattern, len);
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
    if (len > MAX_PATTERN)
        return pith_fail(err, PITH_UNSUPPORTED, "pattern: a text of %zu bytes is too long", len);
    struct pith_regex *re = new_regex(text, len);
    if (re) re->fallback = pith_zalloc(len, sizeof *re->fallback);
    if (!re || !re->fallback) {
        pith_regex_free(re);
        return pith_fail_nomem(err, "pattern");
    }
    /* fallback[i]: the longest part of text[0..i] that both begins and ends it (Knuth, Morris and
     * Pratt, 1977). */
    for (uint32_t i = 1, n = 0; i < len; i++) {
        while (n && text[i] != text[n]) n = re->fallback[n - 1];
        n += text[i] == text[n];
        re->fallback[i] = n;
    }
    *out = re;
    return PITH_OK;
}

static void free_code(struct code *c)
{
    pcre2_code_free(c->quick);
    pcre2_code_free(c->counted);
}

void pith_regex_free(struct pith_regex *re)
{
    if (!re) return;
    free_code(&re->plain);
    free_code(&re->newer);
    pith_free(re->source);
    pith_free(re->fallback);
    pith_free(re);
}

/* ---- matching ---- */

/* A search that counts its steps. */
struct counting {
    struct pith_regex_run *run;
    bool refers;
    PCRE2_SIZE last; /* where the text was read before this step */
    enum pith_status status;
    struct pith_error *err;
};

/* Called before each item that is tried; not 0 ends the match. */
static int on_item(pcre2_callout_block *b, void *ctx)
{
    struct counting *c = ctx;
    size_t cost = 1;
    if (b->current_position > c->last) cost += b->current_position - c->last;
    if (c->refers && b->current_position > b->start_match)
        cost += b->current_position - b->start_match;
    c->last = b->current_position;
    if (cost > c->run->left) return PCRE2_ERROR_MATCHLIMIT;
    c->run->left -= cost;
    c->status = pith_beat(&c->run->beat, c->err);
    return c->status == PITH_OK ? 0 : PCRE2_ERROR_CALLOUT;
}

static bool prepare(struct pith_regex_run *run)
{
    if (run->data) return true;
    pcre2_general_context *general = pcre2_general_context_create(pith_lend, pith_take_back, NULL);
    if (!general) return false;
    run->data = pcre2_match_data_create(1, general);
    run->quick = pcre2_match_context_create(general);
    run->counted = pcre2_match_context_create(general);
    pcre2_general_context_free(general);
    if (!run->data || !run->quick || !run->counted) {
        pith_regex_run_free(run);
        return false;
    }
    pcre2_set_match_limit(run->quick, STRETCH_STEPS);
    pcre2_set_heap_limit(run->quick, HEAP_LIMIT);
    pcre2_set_match_limit(run->counted, UINT32_MAX);
    pcre2_set_heap_limit(run->counted, HEAP_LIMIT);
    run->left = STEPS_AT_LEAST;
    return true;
}

void pith_regex_run_free(struct pith_regex_run *run)
{
    pcre2_match_data_free(run->data);
    pcre2_match_context_free(run->quick);
    pcre2_match_context_free(run->counted);
    *run = (struct pith_regex_run){.beat = run->beat};
}

/* Next match at or after `at`, by counted steps: 1 found, 0 none, negative a PCRE2 error. The
 * machine stack that JIT code may use is small; when it does not suffice the interpreter, which
 * uses the heap, takes over. */
static int next_counted(const struct code *code, struct counting *c, const char *text, size_t len,
                        size_t at)
{
    const PCRE2_SPTR s = (PCRE2_SPTR)text;
    struct pith_regex_run *run = c->run;
    c->last = at;
    pcre2_set_callout(run->counted, on_item, c);
    int rc = pcre2_match(code->counted, s, len, at, PCRE2_NO_UTF_CHECK, run->data, run->counted);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(code->counted, s, len, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, run->data,
                         run->counted);
    if (rc >= 0) return 1;
    return rc == PCRE2_ERROR_NOMATCH ? 0 : rc;
}

/* The same. What a match within a stretch has not read beyond its end is the match in the whole
 * text. */
static int next_match(const struct code *code, struct counting *c, const char *text, size_t len,
                      size_t at)
{
    struct pith_regex_run *run = c->run;
    while (code->quick) {
        size_t end = len - at > STRETCH ? at + STRETCH : len;
        while (end < len && ((unsigned char)text[end] & 0xc0) == 0x80) end++;
        const uint32_t options = PCRE2_NO_UTF_CHECK | (end < len ? PCRE2_PARTIAL_HARD : 0);
        const int rc =
            pcre2_match(code->quick, (PCRE2_SPTR)text, end, at, options, run->data, run->quick);
        if (rc >= 0) return 1;
        if (rc == PCRE2_ERROR_NOMATCH && end == len) return 0;
        if (rc != PCRE2_ERROR_NOMATCH) break;
        at = end;
        c->status = pith_beat(&run->beat, c->err);
        if (c->status != PITH_OK) return PCRE2_ERROR_CALLOUT;
    }
    return next_counted(code, c, text, len, at);
}

/* Where a search failed. */
static enum pith_status match_failed(const struct pith_regex *re, int rc, size_t at, size_t len,
                                     struct pith_error *err)
{
    if (rc == PCRE2_ERROR_NOMEMORY) return pith_fail_nomem(err, "pattern match");
    char why[128] = "it takes too many steps";
    if (rc != PCRE2_ERROR_MATCHLIMIT) pcre2_get_error_message(rc, (PCRE2_UCHAR *)why, sizeof why);
    return pith_fail(err, PITH_LIMIT,
                     "the tokenizer's pattern \"%.*s%s\" cannot be applied to this text: %s (at "
                     "byte %zu of %zu)",
                     re->source_len > 60 ? 60 : (int)re->source_len, re->source,
                     re->source_len > 60 ? "..." : "", why, at, len);
}

/* Where the literal next occurs at or after `at`, or len. */
static size_t next_literal(const struct pith_regex *re, const char *text, size_t len, size_t at)
{
    const char *want = re->source;
    for (size_t n = 0; at < len; at++) {
        if (n == 0) {
            const char *p = memchr(text + at, want[0], len - at);
            if (!p) break;
            at = (size_t)(p - text);
        }
        while (n && text[at] != want[n]) n = re->fallback[n - 1];
        n += text[at] == want[n];
        if (n == re->source_len) return at + 1 - n;
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
        done += re->source_len;
        PITH_TRY(fn(ctx, from, done, true, err));
    }
    return len == 0 ? fn(ctx, 0, 0, false, err) : PITH_OK;
}

enum pith_status pith_regex_parts(const struct pith_regex *re, struct pith_regex_run *run,
                                  const char *text, size_t len, pith_regex_part_fn *fn, void *ctx,
                                  struct pith_error *err)
{
    if (re->fallback) return literal_parts(re, text, len, fn, ctx, err);
    if (!prepare(run)) return pith_fail_nomem(err, "pattern match");
    const bool newer = re->newer.counted && pith_unicode_has_newer(text, len);
    const struct code *code = newer ? &re->newer : &re->plain;
    struct counting counting = {.run = run, .refers = code->refers, .err = err};
    size_t done = 0, at = 0;
    bool any = false;
    run->left += (uint64_t)len * STEPS_A_BYTE;
    while (at <= len && len > 0) {
        PITH_TRY(pith_beat(&run->beat, err));
        const int rc = next_match(code, &counting, text, len, at);
        PITH_TRY(counting.status);
        if (rc < 0) return match_failed(re, rc, at, len, err);
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
