#include "base/json.h"

#include "base/file.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The text with each whole number of more than 18 digits made a real one: "12" is "12.0" then.
 * Tokenizers have 10^30 for a length without limit, which no integer here holds. */
static void write_reals(const char *text, size_t size, struct pith_str *out)
{
    enum { DIGITS = 18 };
    bool quoted = false;
    size_t from = 0;
    for (size_t i = 0; i < size;) {
        if (quoted && text[i] == '\\') i++;
        else if (text[i] == '"') quoted = !quoted;
        if (quoted || i >= size || !is_digit(text[i])) {
            i++;
            continue;
        }
        size_t end = i;
        while (end < size && is_digit(text[end])) end++;
        const bool whole = end == size || !strchr(".eE", text[end]);
        const bool part = i > 0 && strchr(".eE+", text[i - 1]); /* of a real number */
        const bool exponent = i > 1 && text[i - 1] == '-' && strchr("eE", text[i - 2]);
        if (whole && !part && !exponent && end - i > DIGITS) {
            pith_str_append(out, text + from, end - from);
            pith_str_puts(out, ".0");
            from = end;
        }
        i = end;
    }
    pith_str_append(out, text + from, size - from);
}

static json_t *load(const char *text, size_t size, json_error_t *e)
{
    json_t *j = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, e);
    struct pith_str reals = {0};
    if (j || json_error_code(e) != json_error_numeric_overflow) return j;
    write_reals(text, size, &reals);
    if (!reals.failed)
        j = json_loadb(reals.data, reals.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, e);
    pith_str_free(&reals);
    return j;
}

enum pith_status pith_json_parse(const char *text, size_t size, const char *where, json_t **out,
                                 struct pith_error *err)
{
    json_error_t e;
    /* jansson 2.14 reads over a NUL byte that follows a number. */
    if (memchr(text, '\0', size))
        return pith_fail(err, PITH_FORMAT, "%s: not valid JSON: it contains a NUL byte", where);
    json_t *j = load(text, size, &e);
    if (!j) {
        /* It also leaves the text empty when memory runs out in its scanner. */
        if (json_error_code(&e) == json_error_out_of_memory || !e.text[0])
            return pith_fail_nomem(err, where);
        return pith_fail(err, PITH_FORMAT, "%s: not valid JSON: %s (line %d, column %d)", where,
                         e.text, e.line, e.column);
    }
    *out = j;
    return PITH_OK;
}

enum pith_status pith_json_load(const char *path, size_t limit, json_t **out,
                                struct pith_error *err)
{
    char *text;
    size_t size;
    PITH_TRY(pith_file_read(path, limit, &text, &size, err));
    const enum pith_status s = pith_json_parse(text, size, path, out, err);
    pith_free(text);
    return s;
}

static int take_text(const char *text, size_t size, void *ctx)
{
    struct pith_str *out = ctx;
    pith_str_append(out, text, size);
    return out->failed ? -1 : 0;
}

void pith_json_dump(const json_t *json, size_t flags, struct pith_str *out)
{
    if (json_dump_callback(json, take_text, out, flags) != 0) out->failed = true;
}

json_t *pith_json_name(const char *bytes)
{
    json_t *plain = json_string(bytes), *told;
    struct pith_str s = {0};
    if (plain) return plain;
    for (const char *p = bytes; *p; p++) {
        if ((unsigned char)*p < 0x80) pith_str_putc(&s, *p);
        else pith_str_printf(&s, "\\x%02X", (unsigned)(unsigned char)*p);
    }
    told = s.failed ? NULL : json_string(pith_str_text(&s));
    pith_str_free(&s);
    return told;
}

void pith_json_set(json_t **object, const char *key, json_t *value)
{
    if (*object && json_object_set_new(*object, key, value) == 0) return;
    if (!*object) json_decref(value);
    json_decref(*object);
    *object = NULL;
}

void pith_json_add(json_t **list, json_t *value)
{
    if (*list && json_array_append_new(*list, value) == 0) return;
    if (!*list) json_decref(value);
    json_decref(*list);
    *list = NULL;
}

enum pith_status pith_json_text(const char *what, const json_t *json, char **out, size_t *size,
                                struct pith_error *err)
{
    struct pith_str s = {0};
    pith_json_dump(json, JSON_INDENT(2) | JSON_REAL_PRECISION(9), &s);
    pith_str_putc(&s, '\n');
    *size = s.len;
    *out = pith_str_take(&s);
    return *out ? PITH_OK : pith_fail_nomem(err, what);
}

enum pith_status pith_json_save(const char *path, const json_t *json, struct pith_error *err)
{
    char *text;
    size_t size;
    PITH_TRY(pith_json_text(path, json, &text, &size, err));
    const enum pith_status s = pith_file_write(path, text, size, err);
    pith_free(text);
    return s;
}

/* The value of a key, NULL when it is missing or null. */
static const json_t *lookup(const json_t *obj, const char *key)
{
    const json_t *v = json_object_get(obj, key);
    return json_is_null(v) ? NULL : v;
}

enum pith_status pith_json_get_int(const json_t *obj, const char *key, int64_t lo, int64_t hi,
                                   int64_t *value, const char *where, struct pith_error *err)
{
    const json_t *v = lookup(obj, key);
    if (!v) return PITH_OK;
    if (!json_is_integer(v))
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is not an integer", where, key);
    const int64_t n = json_integer_value(v);
    if (n < lo || n > hi)
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is %lld, outside %lld..%lld", where, key,
                         (long long)n, (long long)lo, (long long)hi);
    *value = n;
    return PITH_OK;
}

enum pith_status pith_json_get_real(const json_t *obj, const char *key, double *value,
                                    const char *where, struct pith_error *err)
{
    const json_t *v = lookup(obj, key);
    if (!v) return PITH_OK;
    if (!json_is_number(v) || !isfinite(json_number_value(v)))
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is not a number", where, key);
    *value = json_number_value(v);
    return PITH_OK;
}

enum pith_status pith_json_get_bool(const json_t *obj, const char *key, bool *value,
                                    const char *where, struct pith_error *err)
{
    const json_t *v = lookup(obj, key);
    if (!v) return PITH_OK;
    if (!json_is_boolean(v))
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is not true or false", where, key);
    *value = json_is_true(v);
    return PITH_OK;
}

enum pith_status pith_json_get_str(const json_t *obj, const char *key, const char **value,
                                   const char *where, struct pith_error *err)
{
    const json_t *v = lookup(obj, key);
    if (!v) return PITH_OK;
    if (!json_is_string(v))
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is not a string", where, key);
    if (strlen(json_string_value(v)) != json_string_length(v))
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" contains a NUL character", where, key);
    *value = json_string_value(v);
    return PITH_OK;
}

/* Past a string's closing quote; at its first character before. */
static size_t string_end(const char *text, size_t size, size_t at)
{
    while (at < size && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
    return at + 1;
}

uint64_t pith_json_tree_bytes(const char *text, size_t size)
{
    /* A member's pair and its place in the table, a string's value, a number, a list's slot; what
     * malloc adds is in them. */
    enum { MEMBER = 112, STRING = 64, NUMBER = 32, SLOT = 12, TABLE = 320, LIST = 144 };
    uint64_t bytes = 0;
    for (size_t at = 0; at < size; at++) {
        const char c = text[at];
        if (c == '"') {
            const size_t end = string_end(text, size, at + 1);
            bytes += STRING + (end - at) / 16 * 16;
            at = end - 1;
        } else if (c == ':') {
            bytes += MEMBER - STRING; /* what was before it was a key */
        } else if (c == '{') {
            bytes += TABLE;
        } else if (c == '[') {
            bytes += LIST;
        } else if (c == ',') {
            bytes += SLOT;
        } else if (c == '-' || (c >= '0' && c <= '9')) {
            bytes += NUMBER;
            while (at + 1 < size && strchr("+-.eE0123456789", text[at + 1]) && text[at + 1]) at++;
        }
    }
    return bytes;
}
