/* A reader of JSON that builds jansson's trees. It takes what Python's json module and Rust's
 * serde_json take between them: see json.h. */
#include "base/json.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Levels of lists and objects, as jansson has it: what walks trees recurses. */
#define MOST_DEPTH 2048
/* Digits of an integer, as Python has it since 3.11. */
#define MOST_DIGITS 4300

#define REPLACEMENT "\xef\xbf\xbd"

struct reader {
    const char *start, *at, *end;
    unsigned flags;
    int depth;
    const char *why; /* what is wrong at `at`; NULL: memory is out */
    bool failed;
    struct pith_str text;             /* a string with escapes, the digits of a number */
    json_t *odd[PITH_JSON_ODD_COUNT]; /* NaN and the infinities: one node each for a whole text */
};

static json_t *read_value(struct reader *r);

static json_t *wrong(struct reader *r, const char *why)
{
    if (!r->failed) r->why = why;
    r->failed = true;
    return NULL;
}

static json_t *made(struct reader *r, json_t *j)
{
    return j ? j : wrong(r, NULL);
}

static void skip_space(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\t' || *r->at == '\r'))
        r->at++;
}

static bool next_is(struct reader *r, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

/* --- strings ---------------------------------------------------------------------------------- */

/* Bytes of the well-formed character at the reader's place, 0 or less when it is none. */
static utf8proc_ssize_t character_size(const struct reader *r)
{
    utf8proc_int32_t c;
    return utf8proc_iterate((const utf8proc_uint8_t *)r->at, r->end - r->at, &c);
}

/* Up to the next quote or escape; false with the error set when something there may not stand. */
static bool skip_plain(struct reader *r)
{
    while (r->at < r->end) {
        const unsigned char c = (unsigned char)*r->at;
        if (c == '"' || c == '\\') return true;
        if (c < 0x20) {
            (void)wrong(r, c ? "a control character in a string" : "it contains a NUL byte");
            return false;
        }
        const utf8proc_ssize_t n = c < 0x80 ? 1 : character_size(r);
        if (n <= 0) {
            (void)wrong(r, "a string is not UTF-8");
            return false;
        }
        r->at += n;
    }
    (void)wrong(r, "it ends within a string");
    return false;
}

/* The four digits after \u; -1 when there are none. */
static int32_t hex4(const struct reader *r)
{
    int32_t x = 0;
    if (r->end - r->at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        const int d = pith_hex_digit(r->at[i]);
        if (d < 0) return -1;
        x = x * 16 + d;
    }
    return x;
}

/* After \u. A surrogate without its other half becomes U+FFFD. */
static bool read_unicode(struct reader *r)
{
    int32_t c = hex4(r), low;
    if (c < 0) return wrong(r, "an escape that JSON does not have");
    r->at += 4;
    if (c >= 0xd800 && c < 0xdc00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u') {
        r->at += 2;
        low = hex4(r);
        if (low >= 0xdc00 && low < 0xe000) {
            r->at += 4;
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
        } else {
            r->at -= 2;
        }
    }
    if (c < 0xd800 || c > 0xdfff) pith_utf8_put(&r->text, (uint32_t)c);
    else if (r->flags & PITH_JSON_STRICT) return wrong(r, "half of a surrogate pair");
    else pith_str_puts(&r->text, REPLACEMENT);
    return true;
}

/* At a backslash. */
static bool read_escape(struct reader *r)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char c = r->end - r->at > 1 ? r->at[1] : 0;
    const char *p = c ? strchr(from, c) : NULL;
    if (c != 'u' && !p) return wrong(r, "an escape that JSON does not have");
    r->at += 2;
    if (c == 'u') return read_unicode(r);
    pith_str_putc(&r->text, to[p - from]);
    return true;
}

/* At a quote: the bytes of the string, which are valid until the next string is read. */
static bool read_bytes(struct reader *r, const char **bytes, size_t *size)
{
    const char *from = ++r->at;
    if (!skip_plain(r)) return false;
    if (*r->at == '"') {
        *bytes = from;
        *size = (size_t)(r->at++ - from);
        return true;
    }
    pith_str_clear(&r->text);
    for (;;) {
        pith_str_append(&r->text, from, (size_t)(r->at - from));
        if (*r->at == '"') break;
        if (!read_escape(r)) return false;
        from = r->at;
        if (!skip_plain(r)) return false;
    }
    r->at++;
    if (r->text.failed) return wrong(r, NULL);
    *bytes = pith_str_text(&r->text);
    *size = r->text.len;
    return true;
}

static json_t *read_string(struct reader *r)
{
    const char *bytes;
    size_t size;
    return read_bytes(r, &bytes, &size) ? made(r, json_stringn_nocheck(bytes, size)) : NULL;
}

/* --- numbers ---------------------------------------------------------------------------------- */

static json_t *read_odd(struct reader *r, enum pith_json_odd which)
{
    if (r->flags & PITH_JSON_STRICT) return wrong(r, "a number that JSON does not have");
    if (!r->odd[which]) {
        const char *text = pith_json_odd_text(which);
        r->odd[which] = pith_json_marked(text, strlen(text));
    }
    return made(r, json_incref(r->odd[which]));
}

static const char *digits(const struct reader *r, const char *p)
{
    while (p < r->end && *p >= '0' && *p <= '9') p++;
    return p;
}

/* The digits in r->at..end; jansson's integers have 64 bits. */
static json_t *integer(struct reader *r, const char *end)
{
    const bool minus = *r->at == '-';
    const char *from = r->at + minus;
    uint64_t x = 0, most = (uint64_t)INT64_MAX + minus;
    bool fits = true;
    for (const char *p = from; p < end && fits; p++) {
        const uint64_t d = (uint64_t)(*p - '0');
        fits = x <= (most - d) / 10;
        if (fits) x = x * 10 + d;
    }
    json_t *j;
    if (fits) {
        j = json_integer(minus ? (json_int_t)(0 - x) : (json_int_t)x);
    } else {
        if (r->flags & PITH_JSON_STRICT) return wrong(r, "an integer of more than 64 bits");
        if (end - from > MOST_DIGITS) return wrong(r, "an integer of more than 4300 digits");
        j = pith_json_marked(r->at, (size_t)(end - r->at));
    }
    r->at = end;
    return made(r, j);
}

/* The mark between whole and fraction that strtod() wants. */
static void localize(char *text)
{
    const char *point = localeconv()->decimal_point;
    char *p = point[0] != '.' && !point[1] ? strchr(text, '.') : NULL;
    if (p) *p = point[0];
}

static json_t *real(struct reader *r, const char *end)
{
    char few[64], *text = few;
    const size_t n = (size_t)(end - r->at);
    if (n >= sizeof few) text = pith_alloc(n + 1, 1);
    if (!text) return wrong(r, NULL);
    memcpy(text, r->at, n);
    text[n] = '\0';
    localize(text);
    const double x = strtod(text, NULL);
    if (text != few) pith_free(text);
    if (isinf(x)) {
        json_t *j = read_odd(r, x > 0 ? PITH_JSON_INFINITY : PITH_JSON_MINUS_INFINITY);
        if (j) r->at = end;
        return j;
    }
    r->at = end;
    return made(r, json_real(x));
}

static json_t *read_number(struct reader *r)
{
    static const char no_number[] = "a number that JSON does not have";
    const char *p = r->at + (*r->at == '-'), *whole = p;
    p = digits(r, p);
    if (p == whole || (*whole == '0' && p - whole > 1)) return wrong(r, no_number);
    const char *whole_end = p;
    if (p < r->end && *p == '.') {
        const char *part = p + 1;
        p = digits(r, part);
        if (p == part) return wrong(r, no_number);
    }
    if (p < r->end && (*p == 'e' || *p == 'E')) {
        const char *power = p + 1;
        if (power < r->end && (*power == '+' || *power == '-')) power++;
        p = digits(r, power);
        if (p == power) return wrong(r, no_number);
    }
    return p == whole_end ? integer(r, p) : real(r, p);
}

/* --- lists and objects ------------------------------------------------------------------------ */

/* Past the comma: true; past the end of the list or object, or wrong: false. */
static bool more(struct reader *r, char end, const char *why)
{
    skip_space(r);
    if (r->at < r->end && *r->at == ',') {
        r->at++;
        skip_space(r);
        return true;
    }
    if (r->at < r->end && *r->at == end) r->at++;
    else (void)wrong(r, r->at < r->end ? why : "it ends within a list or an object");
    return false;
}

/* The first thing within, true; false when there is none. */
static bool opened(struct reader *r, char end)
{
    r->at++;
    skip_space(r);
    if (r->at >= r->end || *r->at != end) return true;
    r->at++;
    return false;
}

static json_t *read_list(struct reader *r)
{
    json_t *list = made(r, json_array());
    if (!opened(r, ']')) return list;
    do {
        json_t *item = r->failed ? NULL : read_value(r);
        if (!item) break;
        if (json_array_append_new(list, item) != 0) (void)wrong(r, NULL);
    } while (!r->failed && more(r, ']', "a list goes on with something else than ',' or ']'"));
    return list;
}

static void read_member(struct reader *r, json_t *object)
{
    const char *bytes, *at = r->at;
    char few[64], *key = few;
    size_t size;
    if (at >= r->end || *at != '"') {
        (void)wrong(r, "a member of an object has no name in quotes");
        return;
    }
    if (!read_bytes(r, &bytes, &size)) return;
    /* The value may have strings with escapes too. */
    const bool own = bytes == pith_str_text(&r->text);
    if (own && size > sizeof few) key = pith_alloc(size, 1);
    if (!key) {
        (void)wrong(r, NULL);
        return;
    }
    if (own) memcpy(key, bytes, size);
    skip_space(r);
    const bool strict = (r->flags & PITH_JSON_STRICT) && !(r->flags & PITH_JSON_NAMES);
    if (strict && memchr(bytes, '\0', size)) {
        (void)wrong(r, "\\u0000 in the name of a member");
    } else if (strict && json_object_getn(object, bytes, size)) {
        r->at = at;
        (void)wrong(r, "a duplicate member");
    } else if (r->at >= r->end || *r->at != ':') {
        (void)wrong(r, "a member of an object has no ':'");
    } else {
        r->at++;
        skip_space(r);
        json_t *value = read_value(r);
        if (value && json_object_setn_new_nocheck(object, own ? key : bytes, size, value) != 0)
            (void)wrong(r, NULL);
    }
    if (key != few) pith_free(key);
}

static json_t *read_object(struct reader *r)
{
    json_t *object = made(r, json_object());
    if (!opened(r, '}')) return object;
    do {
        if (!r->failed) read_member(r, object);
    } while (!r->failed && more(r, '}', "an object goes on with something else than ',' or '}'"));
    return object;
}

static json_t *read_nested(struct reader *r)
{
    if (r->depth == MOST_DEPTH) return wrong(r, "more than 2048 lists and objects in each other");
    r->depth++;
    json_t *j = *r->at == '{' ? read_object(r) : read_list(r);
    r->depth--;
    if (!r->failed) return j;
    json_decref(j);
    return NULL;
}

static json_t *read_value(struct reader *r)
{
    if (r->at >= r->end) return wrong(r, "it ends where a value should stand");
    switch (*r->at) {
    case '{':
    case '[': return read_nested(r);
    case '"': return read_string(r);
    case 't':
        if (next_is(r, "true")) return json_true();
        break;
    case 'f':
        if (next_is(r, "false")) return json_false();
        break;
    case 'n':
        if (next_is(r, "null")) return json_null();
        break;
    case 'N':
        if (next_is(r, "NaN")) return read_odd(r, PITH_JSON_NAN);
        break;
    case 'I':
        if (next_is(r, "Infinity")) return read_odd(r, PITH_JSON_INFINITY);
        break;
    case '-':
        if (next_is(r, "-Infinity")) return read_odd(r, PITH_JSON_MINUS_INFINITY);
        return read_number(r);
    case '\0': return wrong(r, "it contains a NUL byte");
    default:
        if (*r->at >= '0' && *r->at <= '9') return read_number(r);
    }
    return wrong(r, "a value should stand there");
}

/* --- the whole -------------------------------------------------------------------------------- */

static enum pith_status report(const struct reader *r, const char *where, struct pith_error *err)
{
    size_t line = 1, column = 1;
    if (!r->why) return pith_fail_nomem(err, where);
    for (const char *p = r->start; p < r->at && p < r->end; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    return pith_fail(err, PITH_FORMAT, "%s: not valid JSON: %s (line %zu, column %zu)", where,
                     r->why, line, column);
}

/* Past a byte order mark; the name of an encoding that is not read, or NULL. */
static const char *skip_mark(struct reader *r)
{
    const unsigned char *p = (const unsigned char *)r->at;
    const size_t n = (size_t)(r->end - r->at);
    if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 && !(r->flags & PITH_JSON_STRICT)) r->at += 3;
    if (n >= 4 && (memcmp(p, "\xff\xfe\0\0", 4) == 0 || memcmp(p, "\0\0\xfe\xff", 4) == 0))
        return "UTF-32";
    if (n >= 2 && (memcmp(p, "\xff\xfe", 2) == 0 || memcmp(p, "\xfe\xff", 2) == 0)) return "UTF-16";
    if (n >= 2 && (p[0] == 0) != (p[1] == 0) && strchr("{[\"", p[0] ? p[0] : p[1])) return "UTF-16";
    return NULL;
}

enum pith_status pith_json_read(const char *text, size_t size, unsigned flags, const char *where,
                                json_t **out, struct pith_error *err)
{
    struct reader r = {.start = text, .at = text, .end = text + size, .flags = flags};
    const char *encoding = skip_mark(&r);
    if (encoding)
        return pith_fail(err, PITH_FORMAT, "%s: not valid JSON: it is written in %s, not in UTF-8",
                         where, encoding);
    skip_space(&r);
    const bool nests = r.at < r.end && (*r.at == '{' || *r.at == '[');
    json_t *j = nests || (flags & PITH_JSON_ANY) || r.at == r.end
                    ? read_value(&r)
                    : wrong(&r, "it is no list and no object");
    if (j && !(flags & PITH_JSON_FRONT)) {
        skip_space(&r);
        if (r.at < r.end) (void)wrong(&r, "something follows after its end");
    }
    for (int i = 0; i < PITH_JSON_ODD_COUNT; i++) json_decref(r.odd[i]);
    pith_str_free(&r.text);
    if (!r.failed) {
        *out = j;
        return PITH_OK;
    }
    json_decref(j);
    return report(&r, where, err);
}
