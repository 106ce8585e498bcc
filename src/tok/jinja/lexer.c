#include "tok/jinja/lexer.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "tok/jinja/text.h"
#include "tok/unicode/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NESTED = 200 };

struct lexer {
    struct pith_jrun *r;
    const char *s;
    size_t at, len, seen; /* seen: lines are counted up to here */
    bool line_start;      /* what came last ended a line */
    struct pith_jtoken *token;
    size_t count, cap;
    char open[MOST_NESTED];
    size_t opened;
};

static bool starts(const struct lexer *l, size_t at, const char *what)
{
    const size_t n = strlen(what);
    return l->len - at >= n && memcmp(l->s + at, what, n) == 0;
}

/* The template's line of a place; places come in rising order. */
static int line_of(struct lexer *l, size_t at)
{
    for (; l->seen < at; l->seen++) l->r->line += l->s[l->seen] == '\n';
    return l->r->line;
}

static void push(struct lexer *l, enum pith_jtoken_type type, size_t at, int op, struct pith_jv v)
{
    const int line = line_of(l, at);
    if (l->r->status != PITH_OK) return;
    if (l->count == l->cap) {
        const size_t cap = l->cap ? l->cap * 2 : 256;
        struct pith_jtoken *t = pith_jtake(l->r, cap, sizeof *t);
        if (!t) return;
        if (l->count) memcpy(t, l->token, l->count * sizeof *t);
        l->token = t;
        l->cap = cap;
    }
    l->token[l->count++] = (struct pith_jtoken){type, line, op, v};
}

static void push_text(struct lexer *l, enum pith_jtoken_type type, size_t from, size_t to)
{
    push(l, type, from, 0, pith_jtext(l->r, l->s + from, to - from, false));
}

/* Where the tag of that name begins in "{%- name": behind the name; 0 when it is another. */
static size_t tag_named(const struct lexer *l, size_t at, const char *name, size_t *sign)
{
    if (!starts(l, at, "{%")) return 0;
    at += 2;
    *sign = at;
    if (at < l->len && (l->s[at] == '-' || l->s[at] == '+')) at++;
    at += pith_jblank(l->s + at, l->len - at);
    return starts(l, at, name) ? at + strlen(name) : 0;
}

/* Emits the text before a tag; `lstrip`: blanks between the line's start and the tag go. */
static void push_data(struct lexer *l, size_t from, size_t to, char sign, bool lstrip)
{
    size_t end = to;
    if (sign == '-') {
        end = from + pith_jtrimmed(l->s + from, to - from);
    } else if (sign != '+' && lstrip) {
        size_t line = to;
        while (line > from && l->s[line - 1] != '\n') line--;
        if ((line > from || l->line_start) && line < to &&
            pith_jblank(l->s + line, to - line) >= to - line)
            end = line;
    }
    if (end > from) push_text(l, PITH_JT_DATA, from, end);
}

/* Goes behind the end of a tag, `close` with the sign before it at `at`. */
static void skip_end(struct lexer *l, size_t at, size_t close, bool newline)
{
    const bool minus = l->s[at] == '-', plus = l->s[at] == '+';
    l->at = at + (minus || plus) + close;
    if (minus) l->at += pith_jblank(l->s + l->at, l->len - l->at);
    else if (!plus && newline && l->at < l->len && l->s[l->at] == '\n') l->at++;
    l->line_start = l->s[l->at - 1] == '\n';
}

/* Whether a tag ends here: "-%}", "+%}" or "%}" for "%}". */
static bool ends(const struct lexer *l, size_t at, const char *close, bool plus)
{
    return starts(l, at, close) || (at < l->len && (l->s[at] == '-' || (plus && l->s[at] == '+')) &&
                                    starts(l, at + 1, close));
}

static void lex_comment(struct lexer *l, size_t at)
{
    const int line = line_of(l, at);
    for (at += 2; at < l->len; at++)
        if (ends(l, at, "#}", true)) {
            skip_end(l, at, 2, true);
            return;
        }
    l->r->line = line;
    (void)pith_jfail(l->r, "Missing end of comment tag");
}

static void lex_raw(struct lexer *l, size_t body)
{
    size_t sign;
    const int line = line_of(l, body);
    body += pith_jblank(l->s + body, l->len - body);
    skip_end(l, body, 2, false);
    const size_t from = l->at;
    for (size_t at = from; at < l->len; at++) {
        size_t end = tag_named(l, at, "endraw", &sign);
        if (!end) continue;
        end += pith_jblank(l->s + end, l->len - end);
        if (!ends(l, end, "%}", true)) continue;
        push_data(l, from, at, l->s[sign], true);
        skip_end(l, end, 2, true);
        return;
    }
    l->r->line = line;
    (void)pith_jfail(l->r, "Missing end of raw directive");
}

/* ---- inside a tag ---- */

static bool name_char(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (unsigned char)c >= 0x80 || (!first && c >= '0' && c <= '9');
}

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits with single underscores between them, copied without these. */
static size_t digits(const struct lexer *l, size_t at, char *out, size_t *n, size_t most)
{
    while (at < l->len &&
           (digit(l->s[at]) || (l->s[at] == '_' && at + 1 < l->len && digit(l->s[at + 1])))) {
        if (l->s[at] != '_' && *n < most) out[(*n)++] = l->s[at];
        at++;
    }
    return at;
}

static void lex_number(struct lexer *l)
{
    char text[64];
    size_t n = 0, at = l->at;
    bool real = false;
    if (l->s[at] == '0' && at + 1 < l->len && strchr("xXoObB", l->s[at + 1])) {
        const char kind = (char)(l->s[at + 1] | 0x20);
        char *end;
        for (at += 2; at < l->len && n < sizeof text - 1 && (name_char(l->s[at], false)); at++)
            if (l->s[at] != '_') text[n++] = l->s[at];
        text[n] = '\0';
        const long long v = strtoll(text, &end, kind == 'x' ? 16 : kind == 'o' ? 8 : 2);
        if (*end || n == 0) (void)pith_jfail(l->r, "invalid number");
        push(l, PITH_JT_INT, l->at, 0, pith_jint(v));
        l->at = at;
        return;
    }
    at = digits(l, at, text, &n, 40);
    if (at + 1 < l->len && l->s[at] == '.' && digit(l->s[at + 1])) {
        real = true;
        text[n++] = '.';
        at = digits(l, at + 1, text, &n, 50);
    }
    const size_t sign = at + 1 < l->len && (l->s[at + 1] == '-' || l->s[at + 1] == '+');
    if (at + 1 + sign < l->len && (l->s[at] | 0x20) == 'e' && digit(l->s[at + 1 + sign])) {
        real = true;
        text[n++] = 'e';
        if (sign) text[n++] = l->s[at + 1];
        at = digits(l, at + 1 + sign, text, &n, 58);
    }
    text[n] = '\0';
    if (!real && n > 18) (void)pith_jfail(l->r, "the number %s is too large", text);
    push(l, real ? PITH_JT_FLOAT : PITH_JT_INT, l->at, 0,
         real ? pith_jfloat(strtod(text, NULL)) : pith_jint(strtoll(text, NULL, 10)));
    l->at = at;
}

/* The code point of n digits of that base; false when they are others. */
static bool code_of(const char *s, size_t room, size_t n, int base, uint32_t *cp)
{
    char text[12], *end;
    if (room < n) return false;
    memcpy(text, s, n);
    text[n] = '\0';
    const unsigned long v = strtoul(text, &end, base);
    if (*end || text[0] == '-' || text[0] == '+' || text[0] == ' ' || v > 0x10ffff ||
        (v >= 0xd800 && v < 0xe000))
        return false;
    *cp = (uint32_t)v;
    return true;
}

/* What follows a backslash at s: appended, and the bytes that it takes. */
static size_t unescape(struct pith_jrun *r, const char *s, size_t n, struct pith_jbuf *out)
{
    static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
    const char *known = *s ? strchr(from, *s) : NULL;
    struct pith_str text = {0};
    uint32_t cp;
    size_t took = 0;
    if (known) {
        pith_jbuf_add(out, to + (known - from), 1, false);
        return 1;
    }
    if (*s == '\n') return 1;
    if (*s >= '0' && *s <= '7') {
        for (cp = 0; took < 3 && took < n && s[took] >= '0' && s[took] <= '7'; took++)
            cp = cp * 8 + (uint32_t)(s[took] - '0');
    } else if (*s == 'x' || *s == 'u' || *s == 'U') {
        took = *s == 'x' ? 2 : *s == 'u' ? 4 : 8;
        if (!code_of(s + 1, n - 1, took, 16, &cp)) {
            (void)pith_jfail(r, "a string has a broken escape \\%c", *s);
            return n;
        }
        took++;
    } else {
        pith_jbuf_puts(out, "\\");
        return 0;
    }
    pith_utf8_put(&text, cp);
    pith_jbuf_puts(out, pith_str_text(&text));
    if (text.failed) (void)pith_jnomem(r);
    pith_str_free(&text);
    return took;
}

static void lex_string(struct lexer *l)
{
    const char quote = l->s[l->at];
    const size_t from = l->at + 1;
    struct pith_jbuf b = {.r = l->r};
    size_t at = from;
    while (at < l->len && l->s[at] != quote) {
        size_t plain = at;
        while (plain < l->len && l->s[plain] != quote && l->s[plain] != '\\') plain++;
        pith_jbuf_add(&b, l->s + at, plain - at, false);
        at = plain;
        if (at < l->len && l->s[at] == '\\') {
            at++;
            if (at < l->len) at += unescape(l->r, l->s + at, l->len - at, &b);
        }
        if (l->r->status != PITH_OK) return;
    }
    if (at >= l->len) {
        (void)pith_jfail(l->r, "unexpected char '%c'", quote);
        return;
    }
    push(l, PITH_JT_STRING, l->at, 0, pith_jbuf_value(&b));
    l->at = at + 1;
}

static void lex_operator(struct lexer *l)
{
    static const char pairs[][3] = {"**", "//", "==", "!=", "<=", ">="};
    static const char closing[] = ")]}", opening[] = "([{";
    const char c = l->s[l->at];
    int op = c;
    for (size_t i = 0; i < PITH_COUNT(pairs); i++)
        if (starts(l, l->at, pairs[i])) op = PITH_JOP(pairs[i][0], pairs[i][1]);
    const char *open = c ? strchr(opening, c) : NULL, *close = c ? strchr(closing, c) : NULL;
    if (!c || !strchr("+-/*%~[](){}><=.:|,;!", c) || op == '!') {
        (void)pith_jfail(l->r, "unexpected char '%c'", c);
        return;
    }
    if (open && l->opened == MOST_NESTED) (void)pith_jfail(l->r, "brackets nest too deeply");
    else if (open) l->open[l->opened++] = closing[open - opening];
    if (close && (l->opened == 0 || l->open[--l->opened] != c))
        (void)pith_jfail(l->r, "unexpected '%c'", c);
    push(l, PITH_JT_OP, l->at, op, pith_jnone());
    l->at += op > 0xff ? 2 : 1;
}

/* A tag's inside up to its end. */
static void lex_tag(struct lexer *l, const char *close, enum pith_jtoken_type end)
{
    const bool block = end == PITH_JT_BLOCK_END;
    l->opened = 0;
    while (l->r->status == PITH_OK) {
        l->at += pith_jblank(l->s + l->at, l->len - l->at);
        (void)line_of(l, l->at);
        if (l->at >= l->len) {
            (void)pith_jfail(l->r, "unexpected end of template, expected '%s'", close);
            return;
        }
        if (l->opened == 0 && ends(l, l->at, close, block)) {
            push(l, end, l->at, 0, pith_jnone());
            skip_end(l, l->at, 2, block);
            return;
        }
        const char c = l->s[l->at];
        if (digit(c)) lex_number(l);
        else if (c == '\'' || c == '"') lex_string(l);
        else if (name_char(c, true)) {
            size_t to = l->at;
            while (to < l->len && name_char(l->s[to], false)) to++;
            push_text(l, PITH_JT_NAME, l->at, to);
            l->at = to;
        } else lex_operator(l);
    }
}

static void lex_all(struct lexer *l)
{
    size_t sign;
    while (l->at < l->len && l->r->status == PITH_OK) {
        const size_t from = l->at;
        size_t at = from;
        while (at < l->len &&
               !(l->s[at] == '{' && at + 1 < l->len && strchr("{%#", l->s[at + 1]) && l->s[at + 1]))
            at++;
        if (at == l->len) {
            push_text(l, PITH_JT_DATA, from, at);
            return;
        }
        const char kind = l->s[at + 1], mark = at + 2 < l->len ? l->s[at + 2] : '\0';
        push_data(l, from, at, mark, kind != '{');
        l->line_start = false;
        const size_t raw = tag_named(l, at, "raw", &sign);
        const size_t after = raw ? raw + pith_jblank(l->s + raw, l->len - raw) : 0;
        if (kind == '#') {
            lex_comment(l, at);
        } else if (raw && ends(l, after, "%}", false)) {
            lex_raw(l, raw);
        } else {
            const bool block = kind == '%';
            push(l, block ? PITH_JT_BLOCK : PITH_JT_PRINT, at, 0, pith_jnone());
            l->at = at + 2 + (mark == '-' || mark == '+');
            lex_tag(l, block ? "%}" : "}}", block ? PITH_JT_BLOCK_END : PITH_JT_PRINT_END);
        }
    }
}

struct pith_jtoken *pith_jlex(struct pith_jrun *r, const char *text, size_t size, size_t *count)
{
    struct lexer l = {.r = r, .line_start = true};
    char *s = pith_jtake(r, size + 1, 1);
    if (!s) return NULL;
    for (size_t i = 0; i < size; i++)
        if (text[i] != '\r') s[l.len++] = text[i];
        else if (i + 1 == size || text[i + 1] != '\n') s[l.len++] = '\n';
    if (l.len && s[l.len - 1] == '\n') l.len--;
    l.s = s;
    r->line = 1;
    lex_all(&l);
    push(&l, PITH_JT_END, l.len, 0, pith_jnone());
    *count = l.count;
    return r->status == PITH_OK ? l.token : NULL;
}
