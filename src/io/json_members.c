#include "io/json_members.h"

#include <stdio.h>
#include <string.h>

/* Deeper than anything that stands in these files, shallow enough for every recursion behind it. */
#define DEPTH_LIMIT 64

static void skip_blanks(struct pith_members *m)
{
    while (m->at < m->size && memchr(" \t\n\r", m->text[m->at], 4)) m->at++;
}

static char peek(const struct pith_members *m)
{
    return m->at < m->size ? m->text[m->at] : '\0';
}

static enum pith_status expected(const struct pith_members *m, const char *what,
                                 struct pith_error *err)
{
    if (m->at >= m->size)
        return pith_fail(err, PITH_FORMAT, "JSON ends where %s should be (byte %zu)", what, m->at);
    return pith_fail(err, PITH_FORMAT, "not valid JSON: byte %zu is not %s", m->at, what);
}

/* Moves past a string that begins at the current byte. */
static bool skip_string(struct pith_members *m)
{
    for (m->at++; m->at < m->size; m->at++) {
        if (m->text[m->at] == '\\') m->at++;
        else if (m->text[m->at] == '"') break;
    }
    if (m->at >= m->size) {
        m->at = m->size;
        return false;
    }
    m->at++;
    return true;
}

/* Moves to the ',' or bracket that ends the value which begins at the current byte. */
static enum pith_status skip_value(struct pith_members *m, struct pith_error *err)
{
    size_t depth = 0;
    while (m->at < m->size) {
        const char c = m->text[m->at];
        if (c == '"') {
            if (!skip_string(m)) break;
            continue;
        }
        if (c == '{' || c == '[') {
            if (++depth > DEPTH_LIMIT)
                return pith_fail(err, PITH_FORMAT, "JSON nests deeper than %d levels (byte %zu)",
                                 DEPTH_LIMIT, m->at);
        } else if (c == '}' || c == ']') {
            if (depth == 0) return PITH_OK;
            depth--;
        } else if (c == ',' && depth == 0) {
            return PITH_OK;
        }
        m->at++;
    }
    return expected(m, "the end of a value", err);
}

enum pith_status pith_members_begin(struct pith_members *m, const char *text, size_t size,
                                    struct pith_error *err)
{
    *m = (struct pith_members){.text = text, .size = size, .close = '}'};
    if (peek(m) != '{') return expected(m, "the '{' of an object", err);
    m->at++;
    return PITH_OK;
}

enum pith_status pith_items_begin(struct pith_members *m, const char *text, size_t size,
                                  struct pith_error *err)
{
    *m = (struct pith_members){.text = text, .size = size, .close = ']'};
    if (peek(m) != '[') return expected(m, "the '[' of a list", err);
    m->at++;
    return PITH_OK;
}

void pith_members_end(struct pith_members *m)
{
    pith_str_free(&m->piece);
}

static enum pith_status finish(struct pith_members *m, bool *more, struct pith_error *err)
{
    m->at++;
    skip_blanks(m);
    if (m->at < m->size)
        return expected(m,
                        m->close == '}' ? "blank, though the object has ended"
                                        : "blank, though the list has ended",
                        err);
    *more = false;
    return PITH_OK;
}

/* The key, and what lies between it and its value. */
static enum pith_status take_key(struct pith_members *m, struct pith_member *out,
                                 struct pith_error *err)
{
    if (peek(m) != '"') return expected(m, "a quoted name", err);
    out->key = m->text + m->at;
    if (!skip_string(m)) return expected(m, "the end of a name", err);
    out->key_size = (size_t)(m->text + m->at - out->key);
    skip_blanks(m);
    if (peek(m) != ':') return expected(m, "':'", err);
    m->at++;
    skip_blanks(m);
    return PITH_OK;
}

enum pith_status pith_members_next(struct pith_members *m, struct pith_member *out, bool *more,
                                   struct pith_error *err)
{
    skip_blanks(m);
    if (peek(m) == m->close) return finish(m, more, err);
    if (m->started) {
        if (peek(m) != ',') return expected(m, m->close == '}' ? "',' or '}'" : "',' or ']'", err);
        m->at++;
        skip_blanks(m);
    }
    *out = (struct pith_member){0};
    if (m->close == '}') PITH_TRY(take_key(m, out, err));
    const size_t value = m->at;
    PITH_TRY(skip_value(m, err));
    size_t end = m->at;
    while (end > value && memchr(" \t\n\r", m->text[end - 1], 4)) end--;
    if (end == value) return expected(m, "a value", err);
    out->value = m->text + value;
    out->value_size = end - value;
    m->started = true;
    *more = true;
    return PITH_OK;
}

enum pith_status pith_members_parse(struct pith_members *m, const struct pith_member *member,
                                    size_t limit, json_t **out, struct pith_error *err)
{
    const char *text = member->key ? member->key : member->value;
    const size_t size = (size_t)(member->value - text) + member->value_size;
    char where[64];
    snprintf(where, sizeof where, "entry at byte %zu", (size_t)(text - m->text));
    if (size > limit)
        return pith_fail(err, PITH_FORMAT, "%s: %zu bytes long, more than the %zu allowed", where,
                         size, limit);
    pith_str_clear(&m->piece);
    pith_str_putc(&m->piece, member->key ? '{' : '[');
    pith_str_append(&m->piece, text, size);
    pith_str_putc(&m->piece, member->key ? '}' : ']');
    if (m->piece.failed) return pith_fail_nomem(err, where);
    json_t *j;
    PITH_TRY(pith_json_read(m->piece.data, m->piece.len, m->flags, where, &j, err));
    if ((member->key ? json_object_size(j) : json_array_size(j)) != 1) {
        json_decref(j);
        return pith_fail(err, PITH_FORMAT, "%s: not valid JSON", where);
    }
    *out = j;
    return PITH_OK;
}

bool pith_member_is(const struct pith_member *member, const char *key)
{
    const size_t n = strlen(key);
    return member->key_size == n + 2 && memcmp(member->key + 1, key, n) == 0;
}

const char *pith_json_plain(const json_t *v)
{
    const char *s = json_string_value(v);
    return s && strlen(s) == json_string_length(v) ? s : NULL;
}
