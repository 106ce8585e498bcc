/* The conversation of a chat's body, as templates know it. */
#include "server/ask.h"
#include "server/buffer.h"

#include <pith/json.h>

#include <stdlib.h>
#include <string.h>

enum { MOST_MESSAGES = 4096 };

/* Parts of text become one text, a line each, as vLLM and llama-server join them. */
static json_t *joined(const json_t *parts, size_t at, struct refusal *r)
{
    struct buffer b = {0};
    json_t *text = NULL;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i);
        const char *type = json_string_value(json_object_get(part, "type"));
        const bool refuses = type && strcmp(type, "refusal") == 0 && json_object_get(part, type);
        const json_t *piece = json_is_string(part) ? part
                              : refuses            ? json_object_get(part, type)
                                                   : json_object_get(part, "text");
        const bool words = !type || strcmp(type, "text") == 0 || strcmp(type, "input_text") == 0 ||
                           strcmp(type, "refusal") == 0;
        if (!words || !json_is_string(piece)) {
            (void)refuse(r, 400, "messages",
                         "messages[%zu].content[%zu]: parts of type '%.40s' are not supported", at,
                         i, type ? type : "unknown");
            buffer_free(&b);
            return NULL;
        }
        if (i > 0) buffer_text(&b, "\n");
        buffer_add(&b, json_string_value(piece), json_string_length(piece));
    }
    if (!b.failed) text = json_stringn(b.text ? b.text : "", b.size);
    if (!text) (void)refuse_failure(r, PITH_NOMEM, NULL);
    buffer_free(&b);
    return text;
}

/* OpenAI gives the arguments of a call as text; templates want what it says. */
static void open_arguments(json_t *message)
{
    json_t *calls = json_object_get(message, "tool_calls"), *call;
    size_t i;
    if (!json_is_array(calls)) return;
    json_array_foreach (calls, i, call) {
        json_t *function = json_object_get(call, "function");
        const json_t *given = json_object_get(function, "arguments");
        if (!json_is_string(given)) continue;
        if (json_string_length(given) == 0) {
            json_object_set_new(function, "arguments", json_object());
            continue;
        }
        json_t *read = NULL;
        (void)pith_tree_read(json_string_value(given), json_string_length(given), "a call", &read,
                             NULL);
        if (json_is_object(read) && !pith_tree_number(read))
            json_object_set(function, "arguments", read);
        json_decref(read);
    }
}

/* Lists of calls that are empty, as clients write out messages, are none. */
static void drop_no_calls(json_t *message)
{
    const json_t *calls = json_object_get(message, "tool_calls");
    if (calls && json_array_size(calls) == 0 && (json_is_null(calls) || json_is_array(calls)))
        json_object_del(message, "tool_calls");
}

/* "function_call" of a message is a call without an id, as it was before there were tools. */
static void open_function_call(json_t *message)
{
    json_t *call = json_object_get(message, "function_call");
    if (!json_is_object(call) || json_object_get(message, "tool_calls")) return;
    json_t *calls = json_pack("[{s:s, s:O*}]", "type", "function", "function", call);
    if (calls) json_object_set_new(message, "tool_calls", calls);
    json_object_del(message, "function_call");
}

static bool add_message(json_t *to, const json_t *message, size_t at, struct refusal *r)
{
    const json_t *content = json_object_get(message, "content");
    if (!json_is_object(message) || !json_is_string(json_object_get(message, "role")))
        return refuse(r, 400, "messages", "messages[%zu] must be an object with a 'role'", at);
    if (content && !json_is_null(content) && !json_is_string(content) && !json_is_array(content))
        return refuse(r, 400, "messages", "messages[%zu].content must be a text, or parts of text",
                      at);
    json_t *copy = json_deep_copy(message);
    if (json_is_array(content)) {
        json_t *text = joined(content, at, r);
        if (!text || json_object_set_new(copy, "content", text) != 0) {
            json_decref(copy);
            return false;
        }
    }
    drop_no_calls(copy);
    open_function_call(copy);
    open_arguments(copy);
    return json_array_append_new(to, copy) == 0 || refuse_failure(r, PITH_NOMEM, NULL);
}

/* Whether tools go to the template: there are some, and the request does not put them away. */
static bool read_tools(const json_t *body, const json_t **out, struct refusal *r)
{
    const json_t *tools = body_get(body, "tools"), *choice = body_get(body, "tool_choice");
    const char *word = json_string_value(choice);
    *out = NULL;
    if (tools && !json_is_array(tools)) return refuse(r, 400, "tools", "'tools' must be a list");
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (!json_is_object(json_array_get(tools, i)))
            return refuse(r, 400, "tools", "tools[%zu] must be an object", i);
    if (json_array_size(tools) > 0 && !(word && strcmp(word, "none") == 0)) *out = tools;
    return true;
}

static bool add_variables(json_t *to, const json_t *body, struct refusal *r)
{
    static const char *const names[] = {"documents", "add_generation_prompt", "reasoning_effort",
                                        "continue_final_message"};
    json_t *more = json_object_get(body, "chat_template_kwargs");
    if (more && !json_is_null(more) && !json_is_object(more))
        return refuse(r, 400, "chat_template_kwargs", "'chat_template_kwargs' must be an object");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        json_t *j = json_object_get(body, names[i]);
        if (j && !json_is_null(j)) json_object_set(to, names[i], j);
    }
    const char *key;
    json_t *value;
    if (json_is_object(more)) {
        json_object_foreach (more, key, value) {
            if (strcmp(key, "messages") == 0 || strcmp(key, "tools") == 0)
                return refuse(r, 400, "chat_template_kwargs", "'%s' is no variable of the template",
                              key);
            json_object_set(to, key, value);
        }
    }
    return true;
}

char *conversation_of(const json_t *body, bool *tools, struct refusal *r)
{
    const json_t *messages = body_get(body, "messages"), *offered = NULL;
    const size_t n = json_array_size(messages);
    char *text = NULL;
    if (!json_is_array(messages) || n == 0) {
        (void)refuse(r, 400, "messages", "'messages' must be a list with a message at least");
        return NULL;
    }
    if (n > MOST_MESSAGES) {
        (void)refuse(r, 400, "messages", "at most %d messages are taken", MOST_MESSAGES);
        return NULL;
    }
    json_t *whole = json_object(), *list = json_array();
    bool good = whole && list && read_tools(body, &offered, r);
    for (size_t i = 0; good && i < n; i++)
        good = add_message(list, json_array_get(messages, i), i, r);
    if (good && offered) {
        json_t *copy = json_deep_copy(offered);
        good = json_object_set_new(whole, "tools", copy) == 0;
    }
    if (good) good = json_object_set(whole, "messages", list) == 0;
    if (good) good = add_variables(whole, body, r);
    if (good) text = json_written(whole, JSON_COMPACT);
    if (!text && r->status == 0) (void)refuse_failure(r, PITH_NOMEM, NULL);
    *tools = offered != NULL;
    json_decref(list);
    json_decref(whole);
    return text;
}
