/* From Oniguruma's Ruby-like syntax to PCRE2's. What differs and matters:
 *   \s, \w, \h   have other members (PCRE2's \s holds U+180E, its \w lacks marks; \h is a hex digit
 * there) {1,3}+       repeats the interval there, and is possessive in PCRE2
 *   (?m:...)     lets '.' match a newline there; that is (?s:...) in PCRE2
 *   \uHHHH       is a code point there
 *   [ab&&[^c]]   takes what both sets have; that is (?:(?=[ab])[^c]) in PCRE2. [a[bc]] is refused
 *   \p{...}      knows Unicode 16 there and 14 in the PCRE2 of Debian 12 */
#include "tok/regex/regex.h"

#include "base/mem.h"
#include "tok/unicode/unicode.h"

#include <ctype.h>
#include <string.h>

#define SPACES                                                                                     \
    "\\t-\\r\\x20\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}"   \
    "\\x{3000}"
#define NOT_SPACES                                                                                 \
    "\\x00-\\x08\\x0E-\\x1F\\x21-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}"       \
    "\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{"   \
    "10FFFF}"
#define WORDS                                                                                      \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}\\x{24B6}-\\x{24E9}"     \
    "\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}"

#define MAX_DEPTH 200

struct translator {
    const char *p, *end;
    struct pith_str *out;
    size_t atom; /* where the last atom starts in out */
    size_t group[MAX_DEPTH];
    size_t depth;
    bool newer, has_property;
    struct pith_error *err;
};

/* Appends the ranges of newer characters that a property covers. */
static void put_newer(struct translator *t, const char *name, size_t len)
{
    t->has_property = true;
    if (!t->newer) return;
    for (size_t i = 0; i < pith_newer_count; i++) {
        const struct pith_newer *r = &pith_newer_ranges[i];
        const bool is = (len == 1 && name[0] == r->category[0]) ||
                        (len == 2 && memcmp(name, r->category, 2) == 0) ||
                        (len == 3 && memcmp(name, "Han", 3) == 0 && r->han);
        if (is) pith_str_printf(t->out, "\\x{%X}-\\x{%X}", (unsigned)r->first, (unsigned)r->last);
    }
}

static void put_words(struct translator *t)
{
    static const char *const parts[] = {"L", "M", "Nd", "Nl", "Pc"};
    pith_str_puts(t->out, WORDS);
    for (size_t i = 0; i < PITH_COUNT(parts); i++) put_newer(t, parts[i], strlen(parts[i]));
}

/* \p{Name}, \P{Name}, \p{^Name} or \pL; t->p stands behind the 'p'. */
static enum pith_status property(struct translator *t, bool negative, bool in_class)
{
    const char *name = t->p;
    size_t len = 1;
    if (t->p < t->end && *t->p == '{') {
        name++;
        const char *close = memchr(name, '}', (size_t)(t->end - name));
        if (!close) return pith_fail(t->err, PITH_FORMAT, "pattern: \\p{ without }");
        t->p = close + 1;
        if (*name == '^') {
            negative = !negative;
            name++;
        }
        len = (size_t)(close - name);
    } else if (t->p++ == t->end) {
        return pith_fail(t->err, PITH_FORMAT, "pattern: \\p at its end");
    }
    const char *open = negative ? "[^" : "[";
    if (!in_class) pith_str_puts(t->out, open);
    pith_str_puts(t->out, in_class && negative ? "\\P{" : "\\p{");
    pith_str_append(t->out, name, len);
    pith_str_putc(t->out, '}');
    /* Inside a class a negated property keeps the older data: ranges cannot be taken away there. */
    if (!in_class || !negative) put_newer(t, name, len);
    if (!in_class) pith_str_putc(t->out, ']');
    return PITH_OK;
}

static enum pith_status short_unicode(struct translator *t)
{
    if (t->end - t->p < 4) return pith_fail(t->err, PITH_FORMAT, "pattern: \\u needs 4 hex digits");
    for (int i = 0; i < 4; i++)
        if (!isxdigit((unsigned char)t->p[i]))
            return pith_fail(t->err, PITH_FORMAT, "pattern: \\u needs 4 hex digits");
    pith_str_printf(t->out, "\\x{%.4s}", t->p);
    t->p += 4;
    return PITH_OK;
}

/* An escape; t->p stands behind the backslash. */
static enum pith_status escape(struct translator *t, bool in_class)
{
    if (t->p == t->end) return pith_fail(t->err, PITH_FORMAT, "pattern: ends in a backslash");
    const char c = *t->p++;
    const char *open = isupper((unsigned char)c) ? "[^" : "[", *close = "]";
    if (in_class) open = close = "";
    switch (c) {
    case 'p':
    case 'P': return property(t, c == 'P', in_class);
    case 'u': return short_unicode(t);
    case 's':
    case 'S':
        pith_str_printf(t->out, "%s%s%s", open, in_class && c == 'S' ? NOT_SPACES : SPACES, close);
        return PITH_OK;
    case 'w':
    case 'W':
        if (in_class && c == 'W')
            return pith_fail(t->err, PITH_UNSUPPORTED,
                             "pattern: \\W inside [...] is not supported");
        pith_str_puts(t->out, open);
        put_words(t);
        pith_str_puts(t->out, close);
        return PITH_OK;
    case 'h':
    case 'H':
        if (in_class && c == 'H')
            return pith_fail(t->err, PITH_UNSUPPORTED,
                             "pattern: \\H inside [...] is not supported");
        pith_str_printf(t->out, "%s0-9a-fA-F%s", open, close);
        return PITH_OK;
    case 'd':
        pith_str_printf(t->out, "%s\\d", open);
        put_newer(t, "Nd", 2);
        pith_str_puts(t->out, close);
        return PITH_OK;
    default:
        pith_str_putc(t->out, '\\');
        pith_str_putc(t->out, c);
        return PITH_OK;
    }
}

static enum pith_status char_class(struct translator *t, int depth);

/* Sets whose intersection is taken, and how deep sets may be nested. */
#define MAX_SETS 4

/* The members of a set up to its end or to &&, as a separate set. */
static enum pith_status members(struct translator *t, bool first)
{
    const char *start = t->p;
    for (; t->p < t->end; first = false) {
        const char c = *t->p;
        if (c == ']' && !first) break;
        if (c == '&' && t->end - t->p > 1 && t->p[1] == '&') break;
        t->p++;
        if (c == '\\') {
            PITH_TRY(escape(t, true));
        } else if (c == '[' && t->p < t->end && *t->p == ':') {
            pith_str_putc(t->out, c);
        } else if (c == '[') {
            return pith_fail(t->err, PITH_UNSUPPORTED, "pattern: nested [...] are not supported");
        } else {
            pith_str_putc(t->out, c);
        }
    }
    if (t->p == t->end) return pith_fail(t->err, PITH_FORMAT, "pattern: [ without ]");
    if (t->p == start) return pith_fail(t->err, PITH_FORMAT, "pattern: an empty set");
    return PITH_OK;
}

/* One of the sets that && stands between: a set in brackets, or members. *inner: the former. */
static enum pith_status operand(struct translator *t, bool negative, bool first, int depth,
                                bool *inner)
{
    *inner = t->end - t->p > 1 && t->p[0] == '[' && t->p[1] != ':';
    if (!*inner) {
        pith_str_puts(t->out, negative ? "[^" : "[");
        PITH_TRY(members(t, first));
        pith_str_putc(t->out, ']');
        return PITH_OK;
    }
    t->p++;
    PITH_TRY(char_class(t, depth + 1));
    const bool ends = t->p < t->end && *t->p == ']';
    if (!ends && !(t->end - t->p > 1 && t->p[0] == '&' && t->p[1] == '&'))
        return pith_fail(t->err, PITH_UNSUPPORTED, "pattern: nested [...] are not supported");
    return PITH_OK;
}

/* Puts the sets that were written from `start` on together: a character that all have, or, when
 * negative, that not all have. */
static enum pith_status intersect(struct translator *t, size_t start, const size_t *at,
                                  size_t count, bool negative)
{
    char *sets = pith_strndup(t->out->data + start, t->out->len - start);
    const size_t end = t->out->len;
    if (!sets) return pith_fail_nomem(t->err, "pattern");
    t->out->len = start;
    pith_str_puts(t->out, negative ? "(?:(?!" : "(?:");
    for (size_t i = 0; i < count; i++) {
        const size_t to = i + 1 < count ? at[i + 1] : end;
        if (i + 1 < count) pith_str_puts(t->out, "(?=");
        pith_str_append(t->out, sets + (at[i] - start), to - at[i]);
        if (i + 1 < count) pith_str_putc(t->out, ')');
    }
    pith_str_puts(t->out, negative ? ")[\\x00-\\x{10FFFF}])" : ")");
    pith_free(sets);
    return PITH_OK;
}

/* [...]; t->p stands behind the bracket. */
static enum pith_status char_class(struct translator *t, int depth)
{
    const size_t start = t->out->len;
    const bool negative = t->p < t->end && *t->p == '^';
    size_t at[MAX_SETS], count = 0;
    bool inner = false, plain = true;
    if (negative) t->p++;
    if (depth == MAX_SETS)
        return pith_fail(t->err, PITH_UNSUPPORTED, "pattern: [...] nested too deep");
    const char *first = t->p;
    for (;;) {
        if (count == MAX_SETS)
            return pith_fail(t->err, PITH_UNSUPPORTED, "pattern: more than %d sets in [...&&...]",
                             MAX_SETS);
        at[count++] = t->out->len;
        PITH_TRY(operand(t, negative && count == 1, count == 1, depth, &inner));
        plain = plain && !inner;
        if (*t->p++ == ']') break;
        t->p++; /* the second & */
    }
    if (t->out->failed) return pith_fail_nomem(t->err, "pattern");
    if (count == 1 && plain) return PITH_OK;
    /* What was written as [^ is not the negative one, all of them together are. */
    if (negative && !(first[0] == '[' && first[1] != ':')) {
        memmove(t->out->data + at[0] + 1, t->out->data + at[0] + 2, t->out->len - at[0] - 2);
        t->out->len--;
        for (size_t i = 1; i < count; i++) at[i]--;
    }
    return intersect(t, start, at, count, negative);
}

/* (...: copies "(?flags", with s for m. */
static enum pith_status open_group(struct translator *t)
{
    if (t->depth == MAX_DEPTH)
        return pith_fail(t->err, PITH_UNSUPPORTED, "pattern: more than %d nested groups",
                         MAX_DEPTH);
    t->group[t->depth++] = t->out->len;
    pith_str_putc(t->out, '(');
    if (t->p == t->end || *t->p != '?') return PITH_OK;
    pith_str_putc(t->out, *t->p++);
    const char *p = t->p;
    while (p < t->end && (*p == 'i' || *p == 'm' || *p == 'x' || *p == '-')) p++;
    if (p == t->end || (*p != ':' && *p != ')')) return PITH_OK;
    for (; t->p < p; t->p++) pith_str_putc(t->out, *t->p == 'm' ? 's' : *t->p);
    return PITH_OK;
}

/* An interval such as {1,3} that '+' follows: (?:atom{1,3})+. t->p stands behind the brace. */
static bool repeated_interval(struct translator *t)
{
    const char *p = t->p;
    while (p < t->end && (isdigit((unsigned char)*p) || *p == ',')) p++;
    if (p == t->p || t->end - p < 2 || p[0] != '}' || p[1] != '+') return false;
    char *atom = pith_strndup(t->out->data + t->atom, t->out->len - t->atom);
    if (!atom) {
        t->out->failed = true;
        return true;
    }
    t->out->len = t->atom;
    pith_str_printf(t->out, "(?:%s{", atom);
    pith_free(atom);
    pith_str_append(t->out, t->p, (size_t)(p + 1 - t->p));
    pith_str_putc(t->out, ')');
    t->p = p + 1;
    return true;
}

static enum pith_status one_item(struct translator *t)
{
    const size_t at = t->out->len;
    const char c = *t->p++;
    switch (c) {
    case '\\': t->atom = at; return escape(t, false);
    case '[': t->atom = at; return char_class(t, 0);
    case '(': return open_group(t);
    case ')':
        if (t->depth == 0) return pith_fail(t->err, PITH_FORMAT, "pattern: ) without (");
        t->atom = t->group[--t->depth];
        pith_str_putc(t->out, c);
        return PITH_OK;
    case '{':
        if (repeated_interval(t)) return PITH_OK;
        pith_str_putc(t->out, c);
        return PITH_OK;
    case '+':
    case '*':
    case '?':
    case '}': pith_str_putc(t->out, c); return PITH_OK;
    default: break;
    }
    t->atom = at;
    pith_str_putc(t->out, c);
    while (t->p < t->end && ((unsigned char)*t->p & 0xc0) == 0x80) pith_str_putc(t->out, *t->p++);
    return PITH_OK;
}

enum pith_status pith_regex_translate(const char *pattern, size_t len, bool newer,
                                      bool *has_property, struct pith_str *out,
                                      struct pith_error *err)
{
    struct translator t = {
        .p = pattern, .end = pattern + len, .out = out, .newer = newer, .err = err};
    while (t.p < t.end) PITH_TRY(one_item(&t));
    *has_property = t.has_property;
    return out->failed ? pith_fail_nomem(err, "pattern") : PITH_OK;
}
