#include "base/json.h"

#include "base/file.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum pith_status pith_json_parse(const char *text, size_t size, const char *where, json_t **out,
                                 struct pith_error *err)
{
    return pith_json_read(text, size, 0, where, out, err);
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

json_t *pith_json_name(const char *bytes)
{
    json_t *plain = json_string(bytes), *text;
    struct pith_str s = {0};
    if (plain) return plain;
    for (const char *p = bytes; *p; p++) {
        if ((unsigned char)*p < 0x80) pith_str_putc(&s, *p);
        else pith_str_printf(&s, "\\x%02X", (unsigned)(unsigned char)*p);
    }
    text = s.failed ? NULL : json_string(pith_str_text(&s));
    pith_str_free(&s);
    return text;
}

json_t *pith_json_finite(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

void pith_json_set(json_t **object, const char *key, json_t *value)
{
    if (*object && json_object_set_new(*object, key, value) == 0) return;
    if (!*object) json_decref(value);
    json_decref(*object);
    *object = NULL;
}

void pith_json_set_some(json_t **object, const char *key, json_t *value)
{
    if (value && json_object_size(value) + json_array_size(value) == 0) json_decref(value);
    else pith_json_set(object, key, value);
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
    if (!pith_json_is_integer(v))
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is not an integer", where, key);
    const int64_t n = pith_json_integer(v);
    if (n < lo || n > hi)
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is %lld, outside %lld..%lld", where, key,
                         (long long)n, (long long)lo, (long long)hi);
    *value = n;
    return PITH_OK;
}

enum pith_status pith_json_get_most(const json_t *obj, const char *key, int64_t hi,
                                    int64_t *value, const char *where, struct pith_error *err)
{
    int64_t n = *value;
    PITH_TRY(pith_json_get_int(obj, key, 1, INT64_MAX, &n, where, err));
    *value = lookup(obj, key) && n > hi ? hi : n;
    return PITH_OK;
}

enum pith_status pith_json_get_real(const json_t *obj, const char *key, double *value,
                                    const char *where, struct pith_error *err)
{
    const json_t *v = lookup(obj, key);
    if (!v) return PITH_OK;
    const double x = pith_json_number(v);
    if (!pith_json_is_number(v))
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is not a number", where, key);
    if (!isfinite(x))
        return pith_fail(err, PITH_FORMAT, "%s: \"%s\" is %s, not a number that is finite", where,
                         key, pith_json_marked_text(v));
    *value = x;
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
            const size_t from = at;
            while (at + 1 < size && strchr("+-.eE0123456789", text[at + 1]) && text[at + 1]) at++;
            bytes += at - from < 18 ? NUMBER : TABLE + MEMBER + (at - from);
        }
    }
    return bytes;
}
