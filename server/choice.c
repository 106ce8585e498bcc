/* "tool_choice" in the forms that clients write, brought to the one that the rest knows. */
#include "server/ask.h"

#include <string.h>

static const char field[] = "tool_choice";

/* The name of a tool, in a list of tools or of references to them: of chats, or of responses. */
static const char *name_of(const json_t *tool)
{
    const json_t *f = json_object_get(tool, "function");
    return json_string_value(json_object_get(f ? f : tool, "name"));
}

static json_t *find(json_t *tools, const char *name)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const char *own = name_of(json_array_get(tools, i));
        if (own && strcmp(own, name) == 0) return json_array_get(tools, i);
    }
    return NULL;
}

/* The tools that are named, in the order in which they are offered, become all that there are. */
static bool keep_named(json_t *body, json_t *named, struct refusal *r)
{
    json_t *tools = json_object_get(body, "tools"), *chosen = json_array(), *one;
    bool good = chosen != NULL;
    size_t i;
    json_array_foreach (named, i, one) {
        const char *name = name_of(one);
        if (!name) good = good && refuse(r, 400, field, "allowed_tools: tool %zu has no name", i);
        else if (!find(tools, name))
            good = good && refuse(r, 400, field, "there is no tool of the name '%.64s'", name);
    }
    json_array_foreach (tools, i, one) {
        const char *name = name_of(one);
        if (name && find(named, name) && json_array_append(chosen, one) != 0) good = false;
    }
    if (good && json_array_size(chosen) == 0)
        good = refuse(r, 400, field, "allowed_tools: no tool is named");
    if (good && json_object_set(body, "tools", chosen) != 0) good = false;
    json_decref(chosen);
    return good || (r->status ? false : refuse_failure(r, PITH_NOMEM, NULL));
}

/* {"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}, or those two at once. */
static bool allow(json_t *body, const json_t *choice, struct refusal *r)
{
    const json_t *inner = body_get(choice, "allowed_tools");
    const char *mode = json_string_value(json_object_get(inner ? inner : choice, "mode"));
    json_t *named = json_object_get(inner ? inner : choice, "tools");
    if (!mode || (strcmp(mode, "auto") != 0 && strcmp(mode, "required") != 0))
        return refuse(r, 400, field, "allowed_tools: 'mode' must be 'auto' or 'required'");
    if (!json_is_array(named))
        return refuse(r, 400, field, "allowed_tools: 'tools' must be a list");
    json_t *word = json_string(mode);
    const bool good = keep_named(body, named, r);
    if (good && json_object_set(body, field, word) != 0) (void)refuse_failure(r, PITH_NOMEM, NULL);
    json_decref(word);
    return good && r->status == 0;
}

bool choose_tools(json_t *body, struct refusal *r)
{
    json_t *choice = json_object_get(body, field);
    const char *type = json_string_value(json_object_get(choice, "type"));
    const json_t *name = json_object_get(choice, "name");
    if (!type) return true;
    if (strcmp(type, "allowed_tools") == 0) {
        json_incref(choice);
        const bool good = allow(body, choice, r);
        json_decref(choice);
        return good;
    }
    if (strcmp(type, "function") != 0 || !json_is_string(name) ||
        json_object_get(choice, "function"))
        return true;
    json_t *named = json_pack("{s:s, s:{s:O}}", "type", "function", "function", "name", name);
    return json_object_set_new(body, field, named) == 0 || refuse_failure(r, PITH_NOMEM, NULL);
}
