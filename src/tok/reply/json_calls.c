/* Calls whose arguments are JSON. */
#include "tok/reply/parts.h"

#include "base/mem.h"
#include "tok/unicode/utf8.h"

#include <string.h>

/* The tree of a text, a new reference; NULL, and the cursor bad, when it is no JSON. */
static json_t *parse(struct pith_cursor *c, const struct pith_passage *s)
{
    json_t *j = NULL;
    if (c->state != PITH_CURSOR_GOOD) return NULL;
    const enum pith_status status = pith_json_parse(s->text, s->size, "a call", &j, NULL);
    if (status == PITH_NOMEM) pith_cursor_fail(c, PITH_CURSOR_NOMEM);
    else if (status != PITH_OK) pith_cursor_fail(c, PITH_CURSOR_BAD);
    return j;
}

static bool good_name(const struct pith_passage *s)
{
    for (size_t i = 0; i < s->size; i++)
        if ((unsigned char)s->text[i] <= ' ' || strchr("\"\\<>{}[]()\x7f", s->text[i]))
            return false;
    return s->size > 0 && s->size <= PITH_REPLY_NAME && pith_utf8_valid(s->text, s->size);
}

void pith_call_add(struct pith_cursor *c, json_t **calls, const struct pith_passage *name,
                   const struct pith_passage *arguments, const struct pith_passage *id)
{
    if (c->state != PITH_CURSOR_GOOD) return;
    if (!good_name(name) || (id && !good_name(id))) {
        pith_cursor_fail(c, PITH_CURSOR_BAD);
        return;
    }
    json_t *j = parse(c, arguments), *call;
    if (j && !json_is_object(j)) pith_cursor_fail(c, PITH_CURSOR_BAD);
    json_decref(j);
    if (c->state != PITH_CURSOR_GOOD) return;
    call = json_object();
    pith_json_set(&call, "name", json_stringn(name->text, name->size));
    pith_json_set(&call, "arguments", json_stringn(arguments->text, arguments->size));
    if (id) pith_json_set(&call, "id", json_stringn(id->text, id->size));
    pith_json_add(calls, call);
    if (!*calls) pith_cursor_fail(c, PITH_CURSOR_NOMEM);
}

void pith_put_string(struct pith_cursor *c, struct pith_str *out, const struct pith_passage *s)
{
    json_t *j;
    if (!pith_utf8_valid(s->text, s->size)) {
        pith_cursor_fail(c, PITH_CURSOR_BAD);
        return;
    }
    j = json_stringn(s->text, s->size);
    if (j) pith_json_dump(j, JSON_ENCODE_ANY, out);
    else out->failed = true;
    json_decref(j);
}

const json_t *pith_tool_schema(const json_t *tools, const char *name, size_t size)
{
    const json_t *tool;
    size_t i;
    json_array_foreach (tools, i, tool) {
        const json_t *f = json_object_get(tool, "function");
        if (!f) f = tool;
        const json_t *n = json_object_get(f, "name");
        if (json_is_string(n) && json_string_length(n) == size &&
            memcmp(json_string_value(n), name, size) == 0)
            return json_object_get(f, "parameters");
    }
    return NULL;
}

/* ---- {"name": ..., "arguments": ...} ---- */

/* The text of a member of an object that is valid JSON; false when there is none. */
static bool member(const struct pith_passage *object, const char *key, struct pith_passage *out)
{
    const char *p = object->text + 1, *end = object->text + object->size;
    size_t depth = 0;
    bool string = false, found = false;
    const char *from = p; /* of the key or value that is read */
    for (; p < end; p++) {
        if (string) {
            if (*p == '\\') p++;
            else if (*p == '"') string = false;
            continue;
        }
        if (*p == '"') string = true;
        if (*p == '{' || *p == '[') depth++;
        if (depth == 0 && (*p == ':' || *p == ',' || *p == '}')) {
            while (from < p && strchr(" \t\r\n", *from)) from++;
            const char *to = p;
            while (to > from && strchr(" \t\r\n", to[-1])) to--;
            if (*p != ':' && found) {
                *out = (struct pith_passage){from, (size_t)(to - from)};
                return true;
            }
            found = *p == ':' && (size_t)(to - from) == strlen(key) + 2 &&
                    memcmp(from + 1, key, strlen(key)) == 0;
            from = p + 1;
        }
        if ((*p == '}' || *p == ']') && depth > 0) depth--;
    }
    return false;
}

static bool first_member(const struct pith_passage *object, const char *const *keys, size_t count,
                         struct pith_passage *out)
{
    for (size_t i = 0; i < count; i++)
        if (member(object, keys[i], out)) return true;
    return false;
}

/* Puts the text of a JSON string into *owned, and *s refers to it. */
static void unquote(struct pith_cursor *c, struct pith_passage *s, json_t **owned)
{
    const struct pith_passage given = *s;
    json_t *list;
    struct pith_str one = {0};
    pith_str_putc(&one, '[');
    pith_str_append(&one, given.text, given.size);
    pith_str_putc(&one, ']');
    if (one.failed) pith_cursor_fail(c, PITH_CURSOR_NOMEM);
    list = parse(c, &(struct pith_passage){pith_str_text(&one), one.len});
    json_t *string = json_array_get(list, 0);
    if (json_is_string(string)) {
        *owned = json_incref(string);
        *s = (struct pith_passage){json_string_value(string), json_string_length(string)};
    } else {
        pith_cursor_fail(c, PITH_CURSOR_BAD);
    }
    json_decref(list);
    pith_str_free(&one);
}

/* A call as an object, or within one as {"type": "function", "function": {...}}. Without arguments
 * it has none, where they may be missing. */
static void read_object(struct pith_cursor *c, const struct pith_passage *object, bool missing,
                        json_t **calls)
{
    static const char *const names[] = {"name", "tool_name"}, *const arguments[] = {"arguments",
                                                                                    "parameters"};
    struct pith_passage o = *object, inner, name, args = {"{}", 2};
    json_t *name_text = NULL, *args_text = NULL;
    json_decref(parse(c, object));
    if (c->state != PITH_CURSOR_GOOD) return;
    if (member(&o, "function", &inner) && inner.size > 1 && inner.text[0] == '{') o = inner;
    const bool given = first_member(&o, arguments, 2, &args);
    if ((given || missing) && first_member(&o, names, 2, &name) && name.text[0] == '"') {
        unquote(c, &name, &name_text);
        if (args.size > 0 && args.text[0] == '"') unquote(c, &args, &args_text);
        pith_call_add(c, calls, &name, &args, NULL);
    } else {
        pith_cursor_fail(c, PITH_CURSOR_BAD);
    }
    json_decref(name_text);
    json_decref(args_text);
}

/* An object, or a list of one or more of them. */
static void read_value(struct pith_cursor *c, json_t **calls)
{
    struct pith_passage value;
    if (!pith_cursor_value(c, &value)) return;
    if (value.text[0] == '{') {
        read_object(c, &value, true, calls);
        return;
    }
    json_decref(parse(c, &value));
    if (c->state != PITH_CURSOR_GOOD) return;
    struct pith_cursor in = {.text = value.text, .size = value.size, .at = 1, .end = true};
    do {
        struct pith_passage one;
        pith_cursor_space(&in);
        if (pith_cursor_peek(&in) != '{') pith_cursor_fail(&in, PITH_CURSOR_BAD);
        if (pith_cursor_value(&in, &one)) read_object(&in, &one, true, calls);
        pith_cursor_space(&in);
    } while (pith_cursor_take(&in, ","));
    pith_cursor_fail(c, in.state);
}

void pith_read_json(const struct pith_reply_row *row, struct pith_cursor *c, const json_t *tools,
                    json_t **calls)
{
    (void)tools;
    do {
        pith_cursor_space(c);
        read_value(c, calls);
        if (!row->close) return;
        pith_cursor_space(c);
        (void)pith_cursor_take(c, ",");
        pith_cursor_space(c);
    } while (c->state == PITH_CURSOR_GOOD && c->at < c->size &&
             (c->text[c->at] == '{' || c->text[c->at] == '['));
    (void)pith_cursor_last(c, row->close);
}

/* ---- Mistral ---- */

void pith_read_mistral(const struct pith_reply_row *row, struct pith_cursor *c, const json_t *tools,
                       json_t **calls)
{
    struct pith_passage name, id, arguments;
    bool has_id = false;
    (void)row;
    (void)tools;
    pith_cursor_space(c);
    const char first = pith_cursor_peek(c);
    if (first == '[' || first == '{') {
        read_value(c, calls);
        return;
    }
    const size_t from = c->at;
    while (c->state == PITH_CURSOR_GOOD && !strchr("[{ \n", pith_cursor_peek(c)) &&
           c->at - from <= PITH_REPLY_NAME)
        c->at++;
    name = (struct pith_passage){c->text + from, c->at - from};
    if (pith_cursor_take(c, "[CALL_ID]"))
        has_id = pith_cursor_until(c, "[ARGS]", PITH_REPLY_NAME, &id);
    else (void)pith_cursor_take(c, "[ARGS]");
    pith_cursor_space(c);
    if (pith_cursor_peek(c) != '{') pith_cursor_fail(c, PITH_CURSOR_BAD);
    if (pith_cursor_value(c, &arguments))
        pith_call_add(c, calls, &name, &arguments, has_id ? &id : NULL);
}

/* ---- DeepSeek, Kimi: calls within a section, names and arguments apart ---- */

/* NAME, or of Kimi functions.NAME:NUMBER, which is the call's id too. */
static void add_named(struct pith_cursor *c, json_t **calls, struct pith_passage name,
                      const struct pith_passage *arguments)
{
    static const char prefix[] = "functions.";
    const struct pith_passage id = name;
    size_t digits = 0;
    if (pith_begins(name.text, name.size, prefix) == PITH_BEGINS_ALL) {
        name.text += strlen(prefix);
        name.size -= strlen(prefix);
    }
    while (digits < name.size && strchr("0123456789", name.text[name.size - 1 - digits])) digits++;
    const bool numbered = digits > 0 && digits < name.size &&
                          name.text[name.size - 1 - digits] == ':';
    if (numbered) name.size -= digits + 1;
    pith_call_add(c, calls, &name, arguments, numbered ? &id : NULL);
}

void pith_read_section(const struct pith_reply_row *row, struct pith_cursor *c, const json_t *tools,
                       json_t **calls)
{
    (void)tools;
    pith_cursor_space(c);
    (void)pith_cursor_need(c, row->part[0]);
    do {
        struct pith_passage name, arguments;
        (void)pith_cursor_until(c, row->part[1], PITH_REPLY_NAME, &name);
        pith_cursor_space(c);
        if (pith_cursor_peek(c) != '{') {
            /* What stood there was "function". */
            (void)pith_cursor_until(c, "\n", PITH_REPLY_NAME, &name);
            (void)pith_cursor_need(c, "```json\n");
            pith_cursor_space(c);
            (void)pith_cursor_value(c, &arguments);
            pith_cursor_space(c);
            (void)pith_cursor_need(c, "```");
        } else {
            (void)pith_cursor_value(c, &arguments);
        }
        if (c->state != PITH_CURSOR_GOOD) return;
        while (name.size > 0 && strchr(" \t\r\n", name.text[0])) name.text++, name.size--;
        while (name.size > 0 && strchr(" \t\r\n", name.text[name.size - 1])) name.size--;
        add_named(c, calls, name, &arguments);
        pith_cursor_space(c);
        (void)pith_cursor_last(c, row->part[2]);
        pith_cursor_space(c);
    } while (pith_cursor_take(c, row->part[0]));
    (void)pith_cursor_last(c, row->close);
}

/* ---- Llama 3: the answer is the call ---- */

/* Whether {"key" may begin a call: other objects are shown while they come. */
static void look_at_key(struct pith_cursor c, struct pith_cursor *state)
{
    static const char *const keys[] = {"\"name\"", "\"type\"", "\"function\"", "\"parameters\"",
                                       "\"arguments\""};
    c.at++;
    pith_cursor_space(&c);
    (void)pith_cursor_peek(&c);
    bool some = false;
    for (size_t i = 0; c.state == PITH_CURSOR_GOOD && i < PITH_COUNT(keys); i++)
        some |= pith_begins(c.text + c.at, c.size - c.at, keys[i]) != PITH_BEGINS_NOT;
    if (c.state == PITH_CURSOR_GOOD && !some) c.state = PITH_CURSOR_BAD;
    pith_cursor_fail(state, c.state);
}

void pith_read_bare(const struct pith_reply_row *row, struct pith_cursor *c, const json_t *tools,
                    json_t **calls)
{
    struct pith_passage value;
    (void)tools;
    pith_cursor_space(c);
    if (pith_cursor_take(c, ";")) pith_cursor_space(c);
    if (pith_cursor_take(c, row->part[0])) pith_cursor_space(c);
    if (pith_cursor_peek(c) != '{') pith_cursor_fail(c, PITH_CURSOR_BAD);
    if (c->state != PITH_CURSOR_GOOD) return;
    look_at_key(*c, c);
    if (pith_cursor_value(c, &value)) read_object(c, &value, false, calls);
}
