/* Calls whose arguments stand one by one between marks, as text: what type a value has, the
 * function's schema says. */
#include "tok/reply/parts.h"

#include "base/mem.h"
#include "tok/unicode/utf8.h"

#include <string.h>

/* Whether a schema allows a type: by "type", a name or a list, or within "anyOf" or "oneOf". */
static bool allows(const json_t *schema, const char *type, bool *any)
{
    static const char *const unions[] = {"anyOf", "oneOf"};
    const json_t *t = json_object_get(schema, "type"), *one;
    bool yes = false;
    size_t i;
    if (json_is_string(t)) yes = strcmp(json_string_value(t), type) == 0;
    json_array_foreach (t, i, one)
        yes |= json_is_string(one) && strcmp(json_string_value(one), type) == 0;
    if (json_is_string(t) || json_is_array(t)) *any = true;
    for (size_t u = 0; u < PITH_COUNT(unions); u++)
        json_array_foreach (json_object_get(schema, unions[u]), i, one) {
            const json_t *inner = json_object_get(one, "type");
            if (!json_is_string(inner)) continue;
            *any = true;
            yes |= strcmp(json_string_value(inner), type) == 0;
        }
    return yes;
}

static bool same_word(const struct pith_passage *s, const char *word)
{
    if (s->size != strlen(word)) return false;
    for (size_t i = 0; i < s->size; i++)
        if ((s->text[i] | 0x20) != word[i]) return false;
    return true;
}

/* The text where it is JSON by itself: "[1, 2]", 2.5; the words of Python's too. */
static const char *as_json(struct pith_cursor *c, const struct pith_passage *s,
                           struct pith_str *one)
{
    static const char *const words[] = {"true", "false", "null"};
    json_t *j = NULL;
    for (size_t i = 0; i < PITH_COUNT(words); i++)
        if (same_word(s, words[i])) return words[i];
    if (same_word(s, "none")) return words[2];
    pith_str_putc(one, '[');
    pith_str_append(one, s->text, s->size);
    pith_str_putc(one, ']');
    enum pith_status status =
        one->failed ? PITH_NOMEM
                    : pith_json_parse(pith_str_text(one), one->len, "a value", &j, NULL);
    if (status == PITH_NOMEM) pith_cursor_fail(c, PITH_CURSOR_NOMEM);
    const bool good = status == PITH_OK && json_array_size(j) == 1;
    json_decref(j);
    if (!good) return NULL;
    one->data[one->len - 1] = '\0';
    return one->data + 1;
}

static void put_value(struct pith_cursor *c, const json_t *schema, struct pith_passage s,
                      struct pith_str *out)
{
    bool any = false;
    const bool text = allows(schema, "string", &any), nothing = allows(schema, "null", &any);
    struct pith_str one = {0};
    const char *json = NULL;
    if (text && nothing && (same_word(&s, "null") || same_word(&s, "none"))) json = "null";
    else if (any && !text) json = as_json(c, &s, &one);
    if (json) pith_str_puts(out, json);
    else pith_put_string(c, out, &s);
    pith_str_free(&one);
}

/* A line break that the template puts around values. */
static struct pith_passage trimmed(struct pith_passage s)
{
    if (s.size > 0 && s.text[0] == '\n') s.text++, s.size--;
    if (s.size > 0 && s.text[s.size - 1] == '\n') s.size--;
    return s;
}

struct fields {
    struct pith_str text; /* the arguments, as JSON, so far */
    json_t *keys;         /* those that were there: none is twice */
};

static void add_field(struct pith_cursor *c, struct fields *f, const json_t *properties,
                      const struct pith_passage *key, const struct pith_passage *value)
{
    char name[PITH_REPLY_NAME + 1];
    if (c->state != PITH_CURSOR_GOOD) return;
    memcpy(name, key->text, key->size);
    name[key->size] = '\0';
    if (!pith_utf8_valid(name, key->size) || strlen(name) != key->size ||
        json_object_get(f->keys, name)) {
        pith_cursor_fail(c, PITH_CURSOR_BAD);
        return;
    }
    pith_str_puts(&f->text, json_object_size(f->keys) ? ", " : "");
    pith_json_set(&f->keys, name, json_true());
    pith_put_string(c, &f->text, key);
    pith_str_puts(&f->text, ": ");
    put_value(c, json_object_get(properties, name), *value, &f->text);
    if (!f->keys || f->text.failed) pith_cursor_fail(c, PITH_CURSOR_NOMEM);
}

/* KEY, VALUE, over and over, up to what ends the function. */
static void read_pairs(const struct pith_reply_row *row, struct pith_cursor *c,
                       const json_t *schema, struct fields *f)
{
    const json_t *properties = json_object_get(schema, "properties");
    const char *const *p = row->part;
    pith_cursor_space(c);
    while (pith_cursor_take(c, p[2])) {
        struct pith_passage key = {0}, value;
        (void)pith_cursor_until(c, p[3], PITH_REPLY_NAME, &key);
        if (p[4]) {
            pith_cursor_space(c);
            (void)pith_cursor_need(c, p[4]);
        }
        if (pith_cursor_until(c, p[5], PITH_REPLY_ANY, &value)) {
            if (!p[4]) value = trimmed(value);
            add_field(c, f, properties, &key, &value);
        }
        pith_cursor_space(c);
    }
}

/* The name of a function: up to its mark, or, where there is none, to the first white space or
 * mark. */
static struct pith_passage read_name(const struct pith_reply_row *row, struct pith_cursor *c)
{
    struct pith_passage name = {0};
    if (row->part[1]) {
        (void)pith_cursor_until(c, row->part[1], PITH_REPLY_NAME, &name);
        return name;
    }
    pith_cursor_space(c);
    const size_t from = c->at;
    while (c->state == PITH_CURSOR_GOOD && !strchr("< \t\r\n", pith_cursor_peek(c)) &&
           c->at - from <= PITH_REPLY_NAME)
        c->at++;
    return (struct pith_passage){c->text + from, c->at - from};
}

static void read_function(const struct pith_reply_row *row, struct pith_cursor *c,
                          const json_t *tools, json_t **calls)
{
    const struct pith_passage name = read_name(row, c);
    struct fields f = {.keys = json_object()};
    if (!f.keys) pith_cursor_fail(c, PITH_CURSOR_NOMEM);
    pith_str_putc(&f.text, '{');
    if (c->state == PITH_CURSOR_GOOD)
        read_pairs(row, c, pith_tool_schema(tools, name.text, name.size), &f);
    pith_str_putc(&f.text, '}');
    (void)pith_cursor_need(c, row->part[6]);
    if (f.text.failed) pith_cursor_fail(c, PITH_CURSOR_NOMEM);
    if (c->state == PITH_CURSOR_GOOD)
        pith_call_add(c, calls, &name, &(struct pith_passage){f.text.data, f.text.len}, NULL);
    json_decref(f.keys);
    pith_str_free(&f.text);
}

void pith_read_fields(const struct pith_reply_row *row, struct pith_cursor *c, const json_t *tools,
                      json_t **calls)
{
    pith_cursor_space(c);
    (void)pith_cursor_need(c, row->part[0]);
    do {
        read_function(row, c, tools, calls);
        pith_cursor_space(c);
    } while (row->part[0] && pith_cursor_take(c, row->part[0]));
    /* Where functions have no end mark, more of their arguments might have come. */
    if (row->part[6]) (void)pith_cursor_last(c, row->close);
    else (void)pith_cursor_need(c, row->close);
}

void pith_read_open_fields(const struct pith_reply_row *row, struct pith_cursor *c,
                           const json_t *tools, json_t **calls)
{
    read_function(row, c, tools, calls);
    struct pith_cursor behind = *c;
    pith_cursor_space(&behind);
    if (pith_cursor_take(&behind, row->close)) *c = behind;
    else if (behind.state == PITH_CURSOR_MORE || (behind.at == behind.size && !behind.end))
        pith_cursor_fail(c, PITH_CURSOR_MORE);
}
