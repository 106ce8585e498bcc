#include "tok/chat/tools.h"

#include "base/mem.h"
#include "base/str.h"

#include <string.h>
#include <time.h>

/* The string that was put together, which is freed. */
static json_t *taken(struct pith_str *s)
{
    json_t *j = s->failed ? NULL : json_stringn(pith_str_text(s), s->len);
    pith_str_free(s);
    return j;
}

static void put_string(struct pith_str *s, const json_t *text)
{
    pith_str_append(s, json_string_value(text), json_string_length(text));
}

/* The functions alone; takes the tools. */
static json_t *bare(json_t *tools)
{
    json_t *list = json_array(), *tool;
    size_t i;
    json_array_foreach (tools, i, tool) {
        json_t *function = json_object_get(tool, "function");
        pith_json_add(&list, json_incref(json_is_object(function) ? function : tool));
    }
    json_decref(tools);
    return list;
}

static bool give(json_t *given, json_t *tools, const struct pith_chat_traits *t, int64_t now)
{
    char date[64];
    const time_t seconds = (time_t)now;
    struct tm utc;
    if (json_object_set_new(given, "tools", tools ? json_incref(tools) : json_null()) != 0)
        return false;
    if (!t->tools || strcmp(t->tools, "tools") == 0) return true;
    if (!t->tools_text) return !tools || json_object_set(given, t->tools, tools) == 0;
    struct pith_str text = {0};
    if (tools) pith_json_dump(tools, JSON_ENCODE_ANY, &text);
    else pith_str_puts(&text, "[]");
    if (json_object_set_new(given, t->tools, taken(&text)) != 0) return false;
    if (json_object_get(given, "datetime") || !gmtime_r(&seconds, &utc)) return true;
    strftime(date, sizeof date, "%B %d %Y %H:%M:%S GMT", &utc);
    return json_object_set_new(given, "datetime", json_string(date)) == 0;
}

bool pith_chat_give_tools(json_t *given, json_t *tools, const struct pith_chat_traits *t,
                          int64_t now)
{
    json_t *list = tools ? json_incref(tools) : NULL;
    if (list && t->bare) list = bare(list);
    const bool good = (list || !tools) && give(given, list, t, now);
    json_decref(list);
    return good;
}

json_t *pith_chat_describe(const json_t *tools)
{
    static const char before[] = "# Tools\n\nYou can call these functions:\n\n",
                      behind[] = "\nTo call one, write\n\n" PITH_DESCRIBED_OPEN
                                 "\n{\"name\": \"NAME\", \"arguments\": {\"KEY\": "
                                 "\"VALUE\"}}\n" PITH_DESCRIBED_CLOSE
                                 "\n\nfor each call, and end your answer there. Results come "
                                 "between "
                                 "<tool_response> and </tool_response>.";
    struct pith_str s = {0};
    const json_t *tool;
    size_t i;
    pith_str_puts(&s, before);
    json_array_foreach (tools, i, tool) {
        const json_t *function = json_object_get(tool, "function");
        pith_json_dump(json_is_object(function) ? function : tool, JSON_ENCODE_ANY, &s);
        pith_str_putc(&s, '\n');
    }
    pith_str_puts(&s, behind);
    return taken(&s);
}

/* {"name": ..., "arguments": {...}}: arguments in a text stand as they were written. */
static void put_call(struct pith_str *s, const json_t *call)
{
    const json_t *function = json_object_get(call, "function");
    if (!function) function = call;
    const json_t *name = json_object_get(function, "name"),
                 *arguments = json_object_get(function, "arguments");
    pith_str_puts(s, "{\"name\": ");
    if (json_is_string(name)) pith_json_dump(name, JSON_ENCODE_ANY, s);
    else pith_str_puts(s, "\"\"");
    pith_str_puts(s, ", \"arguments\": ");
    if (json_string_length(arguments) > 0) put_string(s, arguments);
    else if (json_is_object(arguments)) pith_json_dump(arguments, JSON_ENCODE_ANY, s);
    else pith_str_puts(s, "{}");
    pith_str_putc(s, '}');
}

json_t *pith_chat_call_text(const json_t *message, const char *open, const char *close)
{
    const json_t *calls = json_object_get(message, "tool_calls"), *call;
    struct pith_str s = {0};
    size_t i;
    json_array_foreach (calls, i, call) {
        if (i > 0) pith_str_puts(&s, close ? "\n" : ", ");
        if (close || i == 0) pith_str_puts(&s, open);
        if (!close && i == 0) pith_str_putc(&s, '[');
        if (close) pith_str_putc(&s, '\n');
        put_call(&s, call);
        if (close) pith_str_putc(&s, '\n');
        if (close) pith_str_puts(&s, close);
    }
    if (!close && json_array_size(calls) > 0) pith_str_putc(&s, ']');
    json_t *content = json_object_get(message, "content");
    json_t *both = json_pack("[O?, o]", content, taken(&s));
    json_t *whole = both ? pith_chat_joined(both, "\n") : NULL;
    json_decref(both);
    return whole;
}

json_t *pith_chat_result_text(const json_t *message)
{
    struct pith_str s = {0};
    json_t *text = pith_chat_text_of(json_object_get(message, "content"));
    pith_str_puts(&s, "<tool_response>\n");
    if (text) put_string(&s, text);
    else s.failed = true;
    pith_str_puts(&s, "\n</tool_response>");
    json_decref(text);
    return taken(&s);
}

json_t *pith_chat_text_of(const json_t *content)
{
    struct pith_str s = {0};
    const json_t *part;
    size_t i;
    if (!content || json_is_null(content)) return json_string("");
    if (json_is_string(content)) return json_incref((json_t *)(uintptr_t)content);
    if (!json_is_array(content)) {
        pith_json_dump(content, JSON_ENCODE_ANY, &s);
        return taken(&s);
    }
    json_array_foreach (content, i, part) {
        const json_t *text = json_is_string(part) ? part : json_object_get(part, "text");
        if (i > 0) pith_str_putc(&s, '\n');
        if (json_is_string(text)) put_string(&s, text);
        else pith_json_dump(part, JSON_ENCODE_ANY, &s);
    }
    return taken(&s);
}

bool pith_chat_is_nothing(const json_t *content)
{
    return !content || json_is_null(content) ||
           (json_is_string(content) && json_string_length(content) == 0) ||
           (json_is_array(content) && json_array_size(content) == 0);
}

/* Adds the parts of a content: its own, or its text as one. False: memory is out. */
static bool add_parts(json_t *list, const json_t *content)
{
    if (json_is_array(content))
        return json_array_extend(list, (json_t *)(uintptr_t)content) == 0;
    return json_array_append_new(list, json_pack("{s:s, s:o}", "type", "text", "text",
                                                 pith_chat_text_of(content))) == 0;
}

json_t *pith_chat_joined(const json_t *contents, const char *between)
{
    const json_t *one;
    struct pith_str s = {0};
    bool parts = false, good = true;
    size_t i, some = 0;
    json_array_foreach (contents, i, one) parts |= json_is_array(one);
    json_t *list = parts ? json_array() : NULL;
    json_array_foreach (contents, i, one) {
        if (pith_chat_is_nothing(one)) continue;
        if (parts) {
            good &= add_parts(list, one);
            continue;
        }
        if (some++) pith_str_puts(&s, between);
        json_t *text = pith_chat_text_of(one);
        if (text) put_string(&s, text);
        else s.failed = true;
        json_decref(text);
    }
    if (!parts) return taken(&s);
    if (good) return list;
    json_decref(list);
    return NULL;
}
