/* Regular expressions as ECMA-262 writes them with the flag u, as far as they describe regular
 * sets. Repeated parts are read again for every copy, so no tree of the expression is stored. */
#include "serve/grammar/chars.h"

#include "base/mem.h"
#include "tok/unicode/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NESTED = 100, MOST_REPEATS = 100000, MOST_RANGES = 1024 };
#define EMPTY 1, 0 /* a way by nothing */

struct reading {
    const char *text;
    size_t at, len;
    bool dry;      /* only find where things end */
    bool anchored; /* the last sequence ended with $ */
    int depth;
    struct pith_chars_net *net;
    struct pith_error *err;
};

struct range {
    uint32_t lo, hi;
};
struct char_class {
    struct range range[MOST_RANGES];
    size_t count;
};

static const struct range digits[] = {{'0', '9'}},
                          words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                          spaces[] = {{9, 13},          {' ', ' '},       {0xa0, 0xa0},
                                      {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029},
                                      {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000},
                                      {0xfeff, 0xfeff}},
                          line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

/* Escapes that stand for classes. */
static const struct {
    char letter;
    const struct range *range;
    size_t count;
} classes[] = {{'d', digits, PITH_COUNT(digits)},
               {'w', words, PITH_COUNT(words)},
               {'s', spaces, PITH_COUNT(spaces)}};

static enum pith_status bad(struct reading *r, enum pith_status s, const char *what)
{
    return pith_fail(r->err, s, "expression, character %zu: %s", r->at + 1, what);
}

static bool ahead(const struct reading *r, const char *text)
{
    const size_t n = strlen(text);
    return r->len - r->at >= n && memcmp(r->text + r->at, text, n) == 0;
}

static bool take(struct reading *r, const char *text)
{
    if (!ahead(r, text)) return false;
    r->at += strlen(text);
    return true;
}

static uint32_t node(struct reading *r)
{
    return r->dry ? 0 : pith_chars_node(r->net);
}

static void way(struct reading *r, uint32_t from, uint32_t lo, uint32_t hi, uint32_t to)
{
    if (!r->dry) pith_chars_way(r->net, from, lo, hi, to);
}

/* --- characters ------------------------------------------------------------------------------- */

static bool add_range(struct char_class *c, uint32_t lo, uint32_t hi)
{
    if (c->count == MOST_RANGES) return false;
    c->range[c->count++] = (struct range){lo, hi};
    return true;
}

static int by_start(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

/* All characters but those. */
static bool invert(struct char_class *c)
{
    struct char_class rest = {.count = 0};
    uint32_t next = 0;
    if (c->count) qsort(c->range, c->count, sizeof *c->range, by_start);
    for (size_t i = 0; i < c->count; i++) {
        if (c->range[i].lo > next && !add_range(&rest, next, c->range[i].lo - 1)) return false;
        if (c->range[i].hi >= next) next = c->range[i].hi + 1;
    }
    if (next <= PITH_CHARS_LAST && !add_range(&rest, next, PITH_CHARS_LAST)) return false;
    *c = rest;
    return true;
}

static bool add_ranges(struct char_class *c, const struct range *range, size_t count, bool others)
{
    struct char_class named = {.count = 0};
    for (size_t i = 0; i < count; i++) add_range(&named, range[i].lo, range[i].hi);
    if (others && !invert(&named)) return false;
    for (size_t i = 0; i < named.count; i++)
        if (!add_range(c, named.range[i].lo, named.range[i].hi)) return false;
    return true;
}

static bool take_hex(struct reading *r, size_t digits_wanted, uint32_t *cp)
{
    uint32_t value = 0;
    if (r->len - r->at < digits_wanted) return false;
    for (size_t i = 0; i < digits_wanted; i++) {
        const int d = pith_hex_digit(r->text[r->at + i]);
        if (d < 0) return false;
        value = value * 16 + (uint32_t)d;
    }
    r->at += digits_wanted;
    *cp = value;
    return true;
}

/* Behind "\u": four digits, two such that are a pair of surrogates, or any number in braces. */
static bool take_unicode(struct reading *r, uint32_t *cp)
{
    uint32_t low;
    if (take(r, "{")) {
        size_t n = 0;
        while (r->at + n < r->len && pith_hex_digit(r->text[r->at + n]) >= 0) n++;
        return n > 0 && n <= 6 && take_hex(r, n, cp) && take(r, "}") && *cp <= PITH_CHARS_LAST;
    }
    if (!take_hex(r, 4, cp)) return false;
    const size_t at = r->at;
    if (*cp >= 0xd800 && *cp < 0xdc00 && take(r, "\\u") && take_hex(r, 4, &low) && low >= 0xdc00 &&
        low < 0xe000)
        *cp = 0x10000 + ((*cp - 0xd800) << 10) + (low - 0xdc00);
    else r->at = at;
    return true;
}

/* The character that an escape stands for; r is behind the backslash. */
static enum pith_status read_escape(struct reading *r, uint32_t *cp)
{
    static const char control[] = "n\nr\rt\tf\fv\v"; /* letter, character */
    static const char *const plain = "^$\\.*+?()[]{}|/-\"'#%&,:;<=>@_`~! ";
    if (r->at == r->len) return bad(r, PITH_FORMAT, "a backslash at the end");
    const char c = r->text[r->at];
    for (size_t i = 0; control[i]; i += 2)
        if (c == control[i]) {
            r->at++;
            *cp = (uint32_t)control[i + 1];
            return PITH_OK;
        }
    if (take(r, "x"))
        return take_hex(r, 2, cp) ? PITH_OK : bad(r, PITH_FORMAT, "\\x without two digits");
    if (take(r, "u"))
        return take_unicode(r, cp) ? PITH_OK : bad(r, PITH_FORMAT, "\\u without a character");
    if (c == 'p' || c == 'P') return bad(r, PITH_UNSUPPORTED, "\\p, a property of characters");
    if (c == 'b' || c == 'B') return bad(r, PITH_UNSUPPORTED, "\\b, a border of words");
    if (c == 'k' || (c >= '1' && c <= '9')) return bad(r, PITH_UNSUPPORTED, "a back-reference");
    if (c == '0') {
        r->at++;
        *cp = 0;
        return PITH_OK;
    }
    if (!strchr(plain, c)) return bad(r, PITH_FORMAT, "an escape that means nothing");
    r->at++;
    *cp = (uint8_t)c;
    return PITH_OK;
}

/* A class such as \d, or none of them (*found false). */
static enum pith_status read_named(struct reading *r, struct char_class *c, bool *found)
{
    *found = false;
    if (r->len - r->at < 2 || r->text[r->at] != '\\') return PITH_OK;
    const char letter = r->text[r->at + 1];
    for (size_t i = 0; i < PITH_COUNT(classes); i++) {
        const bool others = letter == classes[i].letter - 32;
        if (letter != classes[i].letter && !others) continue;
        r->at += 2;
        *found = true;
        if (!add_ranges(c, classes[i].range, classes[i].count, others))
            return bad(r, PITH_LIMIT, "too many ranges in a class");
    }
    return PITH_OK;
}

static enum pith_status read_char(struct reading *r, bool in_class, uint32_t *cp)
{
    if (r->at == r->len) return bad(r, PITH_FORMAT, "it ends within something");
    if (in_class && take(r, "\\b")) {
        *cp = '\b';
        return PITH_OK;
    }
    if (take(r, "\\")) return read_escape(r, cp);
    *cp = pith_utf8_get(r->text + r->at);
    r->at += pith_utf8_len(r->text[r->at]);
    return PITH_OK;
}

/* One member of a class in brackets, or a range. */
static enum pith_status read_member(struct reading *r, struct char_class *c)
{
    bool named;
    uint32_t lo, hi;
    PITH_TRY(read_named(r, c, &named));
    if (named) {
        if (ahead(r, "-") && !ahead(r, "-]"))
            return bad(r, PITH_FORMAT, "a range that begins with a class");
        return PITH_OK;
    }
    PITH_TRY(read_char(r, true, &lo));
    hi = lo;
    if (ahead(r, "-") && !ahead(r, "-]")) {
        r->at++;
        PITH_TRY(read_named(r, c, &named));
        if (named) return bad(r, PITH_FORMAT, "a range that ends with a class");
        PITH_TRY(read_char(r, true, &hi));
    }
    if (hi < lo) return bad(r, PITH_FORMAT, "a range whose end lies before its start");
    return add_range(c, lo, hi) ? PITH_OK : bad(r, PITH_LIMIT, "too many ranges in a class");
}

static enum pith_status read_class(struct reading *r, struct char_class *c)
{
    const bool others = take(r, "^");
    while (!take(r, "]")) {
        if (r->at == r->len) return bad(r, PITH_FORMAT, "a class without an end");
        PITH_TRY(read_member(r, c));
    }
    if (others && !invert(c)) return bad(r, PITH_LIMIT, "too many ranges in a class");
    return PITH_OK;
}

static enum pith_status read_set(struct reading *r, uint32_t from, uint32_t to)
{
    struct char_class c = {.count = 0};
    bool named;
    PITH_TRY(read_named(r, &c, &named));
    if (named) {
    } else if (take(r, "[")) {
        PITH_TRY(read_class(r, &c));
    } else if (take(r, ".")) {
        add_ranges(&c, line_ends, PITH_COUNT(line_ends), true);
    } else {
        uint32_t cp;
        PITH_TRY(read_char(r, false, &cp));
        add_range(&c, cp, cp);
    }
    for (size_t i = 0; i < c.count; i++) way(r, from, c.range[i].lo, c.range[i].hi, to);
    return PITH_OK;
}

/* --- what is made of them --------------------------------------------------------------------- */

static enum pith_status read_choice(struct reading *r, uint32_t from, uint32_t to);

static enum pith_status read_group(struct reading *r, uint32_t from, uint32_t to)
{
    if (ahead(r, "?=") || ahead(r, "?!")) return bad(r, PITH_UNSUPPORTED, "a look-ahead");
    if (ahead(r, "?<=") || ahead(r, "?<!")) return bad(r, PITH_UNSUPPORTED, "a look-behind");
    if (take(r, "?<")) {
        while (r->at < r->len && r->text[r->at] != '>') r->at++;
        if (!take(r, ">")) return bad(r, PITH_FORMAT, "a name of a group without an end");
    } else if (ahead(r, "?") && !take(r, "?:")) {
        return bad(r, PITH_UNSUPPORTED, "a group of this kind");
    }
    if (++r->depth > MOST_NESTED) return bad(r, PITH_LIMIT, "groups are nested too deep");
    PITH_TRY(read_choice(r, from, to));
    r->depth--;
    return take(r, ")") ? PITH_OK : bad(r, PITH_FORMAT, "a group without an end");
}

static enum pith_status read_atom(struct reading *r, uint32_t from, uint32_t to)
{
    const char c = r->text[r->at];
    if (c == '^' || c == '$') return bad(r, PITH_UNSUPPORTED, "an anchor within the expression");
    if (strchr("*+?{", c)) return bad(r, PITH_FORMAT, "nothing to repeat");
    if (c == ']' || c == '}') return bad(r, PITH_FORMAT, "a bracket that was not opened");
    if (take(r, "(")) return read_group(r, from, to);
    return read_set(r, from, to);
}

static bool take_number(struct reading *r, uint32_t *n)
{
    const size_t start = r->at;
    for (*n = 0; r->at < r->len && r->text[r->at] >= '0' && r->text[r->at] <= '9'; r->at++)
        if (*n <= MOST_REPEATS) *n = *n * 10 + (uint32_t)(r->text[r->at] - '0');
    return r->at > start;
}

static enum pith_status read_repeats(struct reading *r, uint32_t *min, uint32_t *max)
{
    *min = *max = 1;
    if (take(r, "*") || take(r, "+") || take(r, "?")) {
        const char c = r->text[r->at - 1];
        *min = c == '+';
        *max = c == '?' ? 1 : PITH_CHARS_NO_LIMIT;
    } else if (take(r, "{")) {
        bool ok = take_number(r, min);
        *max = *min;
        if (take(r, ",") && !take_number(r, max)) *max = PITH_CHARS_NO_LIMIT;
        ok = ok && take(r, "}");
        if (!ok || *min > *max) return bad(r, PITH_FORMAT, "a repetition that is none");
        if (*min > MOST_REPEATS || (*max > MOST_REPEATS && *max != PITH_CHARS_NO_LIMIT))
            return bad(r, PITH_LIMIT, "too many repetitions");
    } else {
        return PITH_OK;
    }
    take(r, "?"); /* that it takes as little as it can changes nothing: the whole must match */
    if (r->at < r->len && strchr("*+?{", r->text[r->at]))
        return bad(r, PITH_FORMAT, "a repetition of a repetition");
    return PITH_OK;
}

/* An atom with its repetitions. */
static enum pith_status read_term(struct reading *r, uint32_t from, uint32_t to)
{
    const size_t start = r->at;
    const bool dry = r->dry;
    uint32_t min, max;
    r->dry = true;
    enum pith_status s = read_atom(r, 0, 0);
    r->dry = dry;
    if (s == PITH_OK) s = read_repeats(r, &min, &max);
    if (s != PITH_OK || dry) return s;
    const size_t end = r->at;
    const uint32_t copies = max == PITH_CHARS_NO_LIMIT ? min : max;
    for (uint32_t i = 0; i < copies && s == PITH_OK && r->net->failed == PITH_OK; i++) {
        const uint32_t next = node(r);
        if (i >= min) way(r, from, EMPTY, to);
        r->at = start;
        s = read_atom(r, from, next);
        from = next;
    }
    if (s == PITH_OK && max == PITH_CHARS_NO_LIMIT) {
        const uint32_t loop = node(r);
        way(r, from, EMPTY, loop);
        r->at = start;
        s = read_atom(r, loop, loop);
        from = loop;
    }
    way(r, from, EMPTY, to);
    r->at = end;
    return s;
}

static bool at_end(const struct reading *r)
{
    return r->at == r->len || r->text[r->at] == '|' || r->text[r->at] == ')';
}

static enum pith_status read_sequence(struct reading *r, uint32_t from, uint32_t to, bool top)
{
    r->anchored = false;
    while (!at_end(r)) {
        if (top && ahead(r, "$")) {
            r->at++;
            if (!at_end(r)) return bad(r, PITH_UNSUPPORTED, "an anchor within the expression");
            way(r, from, EMPTY, to);
            r->anchored = true;
            return PITH_OK;
        }
        const uint32_t next = node(r);
        PITH_TRY(read_term(r, from, next));
        from = next;
    }
    way(r, from, EMPTY, to);
    return PITH_OK;
}

static enum pith_status read_choice(struct reading *r, uint32_t from, uint32_t to)
{
    do {
        const uint32_t start = node(r); /* loops of what begins here stay here */
        way(r, from, EMPTY, start);
        PITH_TRY(read_sequence(r, start, to, false));
    } while (take(r, "|"));
    return PITH_OK;
}

/* The whole: alternatives may be anchored at their ends. */
static enum pith_status read_all(struct reading *r, bool search)
{
    const uint32_t start = node(r), before = node(r), end = node(r), rest = node(r);
    if (r->net->failed != PITH_OK) return PITH_OK;
    r->net->node[end].final = r->net->node[rest].final = r->net->node[rest].all = true;
    way(r, before, 0, PITH_CHARS_LAST, before);
    way(r, start, EMPTY, before);
    way(r, rest, 0, PITH_CHARS_LAST, rest);
    do {
        const bool from_start = take(r, "^") || !search;
        const size_t at = r->at;
        r->dry = true;
        PITH_TRY(read_sequence(r, 0, 0, true));
        r->dry = false;
        const bool to_end = !search || r->anchored;
        const uint32_t first = node(r);
        r->at = at;
        way(r, from_start ? start : before, EMPTY, first);
        PITH_TRY(read_sequence(r, first, to_end ? end : rest, true));
    } while (take(r, "|"));
    return r->at == r->len ? PITH_OK : bad(r, PITH_FORMAT, "a bracket that was not opened");
}

enum pith_status pith_chars_regex(const char *pattern, bool search, struct pith_chars *out,
                                  struct pith_error *err)
{
    struct pith_chars_net net = {0};
    struct reading r = {.text = pattern, .len = strlen(pattern), .net = &net, .err = err};
    if (!pith_utf8_valid(pattern, r.len))
        return pith_fail(err, PITH_FORMAT, "an expression that is not UTF-8");
    enum pith_status s = read_all(&r, search);
    if (s == PITH_OK) s = pith_chars_settle(&net, out, err);
    pith_chars_net_free(&net);
    return s;
}
