/* Writing trees: what json_dump() of jansson gives, with the numbers that it does not know. */
#include "base/json.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

struct writer {
    struct pith_str *out;
    size_t flags;
};

struct member {
    const char *key;
    size_t size;
    const json_t *value;
};

static void write_value(const struct writer *w, const json_t *json, size_t depth);

static size_t indent(const struct writer *w)
{
    return w->flags & JSON_MAX_INDENT;
}

/* What stands between two items, or before the first and after the last. */
static void gap(const struct writer *w, size_t depth, bool between)
{
    if (indent(w)) {
        pith_str_putc(w->out, '\n');
        for (size_t i = depth * indent(w); i > 0; i--) pith_str_putc(w->out, ' ');
    } else if (between && !(w->flags & JSON_COMPACT)) {
        pith_str_putc(w->out, ' ');
    }
}

static void write_string(const struct writer *w, const char *text, size_t size)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    size_t plain = 0;
    pith_str_putc(w->out, '"');
    for (size_t i = 0; i <= size; i++) {
        const unsigned char c = i < size ? (unsigned char)text[i] : 0;
        if (i < size && c >= 0x20 && c != '"' && c != '\\') continue;
        pith_str_append(w->out, text + plain, i - plain);
        plain = i + 1;
        if (i == size) break;
        const char *p = c ? strchr(from, (int)c) : NULL;
        if (p) pith_str_printf(w->out, "\\%c", to[p - from]);
        else pith_str_printf(w->out, "\\u%04X", (unsigned)c);
    }
    pith_str_putc(w->out, '"');
}

static void write_list(const struct writer *w, const json_t *list, size_t depth)
{
    const size_t n = json_array_size(list);
    pith_str_putc(w->out, '[');
    for (size_t i = 0; i < n; i++) {
        if (i) pith_str_putc(w->out, ',');
        gap(w, depth + 1, i > 0);
        write_value(w, json_array_get(list, i), depth + 1);
    }
    if (n) gap(w, depth, false);
    pith_str_putc(w->out, ']');
}

static void write_member(const struct writer *w, const struct member *m, size_t depth, bool first)
{
    if (!first) pith_str_putc(w->out, ',');
    gap(w, depth, !first);
    write_string(w, m->key, m->size);
    pith_str_puts(w->out, w->flags & JSON_COMPACT ? ":" : ": ");
    write_value(w, m->value, depth);
}

static struct member member_at(void *at)
{
    return (struct member){json_object_iter_key(at), json_object_iter_key_len(at),
                           json_object_iter_value(at)};
}

static int by_key(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    const int order = memcmp(x->key, y->key, x->size < y->size ? x->size : y->size);
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

static void write_sorted(const struct writer *w, json_t *object, size_t depth)
{
    const size_t n = json_object_size(object);
    struct member *all = pith_alloc(n, sizeof *all);
    size_t i = 0;
    if (!all) {
        w->out->failed = true;
        return;
    }
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at))
        all[i++] = member_at(at);
    qsort(all, n, sizeof *all, by_key);
    for (i = 0; i < n; i++) write_member(w, &all[i], depth, i == 0);
    pith_free(all);
}

static void write_object(const struct writer *w, json_t *object, size_t depth)
{
    void *first = json_object_iter(object);
    pith_str_putc(w->out, '{');
    if (first && (w->flags & JSON_SORT_KEYS)) {
        write_sorted(w, object, depth + 1);
    } else {
        for (void *at = first; at; at = json_object_iter_next(object, at)) {
            const struct member m = member_at(at);
            write_member(w, &m, depth + 1, at == first);
        }
    }
    if (first) gap(w, depth, false);
    pith_str_putc(w->out, '}');
}

static void write_number(const struct writer *w, const json_t *json)
{
    char text[512];
    const size_t n = json_dumpb(json, text, sizeof text, w->flags | JSON_ENCODE_ANY);
    if (n == 0 || n > sizeof text) w->out->failed = true;
    else pith_str_append(w->out, text, n);
}

static void write_value(const struct writer *w, const json_t *json, size_t depth)
{
    const char *marked = pith_json_marked_text(json);
    if (marked) {
        pith_str_puts(w->out, marked);
        return;
    }
    switch (json ? json_typeof(json) : JSON_NULL) {
    case JSON_OBJECT: write_object(w, (json_t *)(uintptr_t)json, depth); break;
    case JSON_ARRAY: write_list(w, json, depth); break;
    case JSON_STRING: write_string(w, json_string_value(json), json_string_length(json)); break;
    case JSON_INTEGER:
    case JSON_REAL: write_number(w, json); break;
    case JSON_TRUE: pith_str_puts(w->out, "true"); break;
    case JSON_FALSE: pith_str_puts(w->out, "false"); break;
    case JSON_NULL: pith_str_puts(w->out, "null"); break;
    }
}

void pith_json_dump(const json_t *json, size_t flags, struct pith_str *out)
{
    const struct writer w = {out, flags};
    const bool nests = json_is_object(json) || json_is_array(json);
    if (!(flags & JSON_ENCODE_ANY) && (!nests || pith_json_marked_text(json))) out->failed = true;
    else if (json) write_value(&w, json, 0);
    else out->failed = true;
}
