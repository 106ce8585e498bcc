/* Calls that must be made: the schema that an answer has then. */
#include "server/ask.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_TOOLS = 256 };

/* References into a schema that now stands elsewhere: "#..." becomes "#/place...". Values that are
 * no schemas are left as they are. False: memory is out. */
static bool move_references(json_t *schema, const char *place)
{
    static const char *const values[] = {"enum", "const", "default", "examples"};
    const char *key;
    json_t *part;
    size_t i;
    void *next;
    json_array_foreach (schema, i, part)
        if (!move_references(part, place)) return false;
    json_object_foreach_safe(schema, next, key, part)
    {
        bool plain = false;
        for (i = 0; i < sizeof values / sizeof values[0]; i++)
            plain = plain || strcmp(key, values[i]) == 0;
        if (plain) continue;
        const char *ref = json_string_value(part);
        if (ref && strcmp(key, "$ref") == 0 && ref[0] == '#') {
            json_t *moved = json_sprintf("#%s%s", place, ref + 1);
            if (!moved || json_object_set_new(schema, key, moved) != 0) return false;
        } else if (!move_references(part, place)) {
            return false;
        }
    }
    return true;
}

/* One call of a function: NULL when memory is out. */
static json_t *schema_of(const json_t *function, size_t at)
{
    json_t *parameters = json_deep_copy(json_object_get(function, "parameters"));
    char place[64];
    snprintf(place, sizeof place, "/anyOf/%zu/properties/arguments", at);
    if (!json_is_object(parameters)) {
        json_decref(parameters);
        parameters = json_object();
    }
    if (!move_references(parameters, place)) {
        json_decref(parameters);
        return NULL;
    }
    if (!json_object_get(parameters, "type"))
        json_object_set_new(parameters, "type", json_string("object"));
    return json_pack("{s:s, s:{s:{s:O}, s:o}, s:[s, s], s:b}", "type", "object", "properties",
                     "name", "const", json_object_get(function, "name"), "arguments", parameters,
                     "required", "name", "arguments", "additionalProperties", 0);
}

/* Adds the functions of that name, or all of them. */
static bool add_functions(const json_t *tools, const char *name, json_t *out, struct refusal *r)
{
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *tool = json_array_get(tools, i), *f = json_object_get(tool, "function");
        const char *own = json_string_value(json_object_get(f ? f : tool, "name"));
        if (!own) return refuse(r, 400, "tools", "tools[%zu] has no function with a name", i);
        if (name && strcmp(own, name) != 0) continue;
        json_t *one = schema_of(f ? f : tool, json_array_size(out));
        if (!one || json_array_append_new(out, one) != 0)
            return refuse_failure(r, PITH_NOMEM, NULL);
    }
    return true;
}

bool forced_call(const json_t *body, char **schema, struct refusal *r)
{
    static const char field[] = "tool_choice";
    const json_t *choice = body_get(body, field), *tools = body_get(body, "tools");
    const char *word = json_string_value(choice);
    const char *name =
        json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
    *schema = NULL;
    if (!choice || (word && (strcmp(word, "auto") == 0 || strcmp(word, "none") == 0))) return true;
    if (!name && !(word && strcmp(word, "required") == 0))
        return refuse(r, 400, field,
                      "'tool_choice' must be 'auto', 'none', 'required', or name a function");
    if (json_array_size(tools) > MOST_TOOLS)
        return refuse(r, 400, field, "a call of more than %d tools cannot be forced", MOST_TOOLS);
    json_t *list = json_array();
    bool good = list && add_functions(tools, name, list, r);
    if (good && json_array_size(list) == 0)
        good = refuse(r, 400, field,
                      name ? "there is no tool of the name '%.64s'"
                           : "there are no tools to choose from",
                      name);
    json_t *whole = good ? json_pack("{s:O}", "anyOf", list) : NULL;
    if (whole) *schema = json_dumps(whole, JSON_COMPACT);
    json_decref(whole);
    json_decref(list);
    return *schema || (r->status == 0 ? refuse_failure(r, PITH_NOMEM, NULL) : false);
}
