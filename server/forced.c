/* Calls that must be made: the schema that an answer has then. */
#include "server/ask.h"
#include "server/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOOLS = 256 };

static bool is_one_of(const char *key, const char *const *words)
{
    while (*words && strcmp(key, *words) != 0) words++;
    return *words != NULL;
}

/* References into a schema that now stands elsewhere: "#..." becomes "#/place...". Values that are
 * no schemas are not changed; names: the keys are names, and no keywords. False: memory is
 * out. */
static bool move_references(json_t *schema, const char *place, bool names)
{
    static const char *const values[] = {"enum", "const", "default", "examples", NULL},
                             *const maps[] = {"properties", "patternProperties", "$defs",
                                              "definitions", NULL};
    const char *key;
    json_t *part;
    size_t i;
    void *next;
    json_array_foreach (schema, i, part)
        if (!move_references(part, place, false)) return false;
    json_object_foreach_safe(schema, next, key, part)
    {
        if (!names && is_one_of(key, values)) continue;
        const char *ref = names ? NULL : json_string_value(part);
        if (ref && strcmp(key, "$ref") == 0 && ref[0] == '#') {
            json_t *moved = json_sprintf("#%s%s", place, ref + 1);
            if (!moved || json_object_set_new(schema, key, moved) != 0) return false;
        } else if (!move_references(part, place, !names && is_one_of(key, maps))) {
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
    /* Its own name says nothing of where "#" is: that is at the top, here as there. */
    if (json_is_string(json_object_get(parameters, "$id"))) json_object_del(parameters, "$id");
    if (json_is_string(json_object_get(parameters, "id"))) json_object_del(parameters, "id");
    if (!move_references(parameters, place, false)) {
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

bool forced_read(const json_t *body, struct forced_call *out, struct refusal *r)
{
    static const char field[] = "tool_choice";
    const json_t *choice = body_get(body, field);
    const char *word = json_string_value(choice);
    bool parallel;
    *out = (struct forced_call){.must = false};
    if (!body_flag(body, "parallel_tool_calls", true, &parallel, r)) return false;
    out->many = parallel;
    if (!choice || (word && (strcmp(word, "auto") == 0 || strcmp(word, "none") == 0))) return true;
    const json_t *function = json_object_get(choice, "function");
    out->name = json_string_value(json_object_get(function ? function : choice, "name"));
    out->must = true;
    if (out->name || (word && strcmp(word, "required") == 0)) return true;
    return refuse(r, 400, field,
                  "'tool_choice' must be 'auto', 'none', 'required', or name a function");
}

char *forced_schema(const json_t *body, const struct forced_call *f, struct refusal *r)
{
    static const char field[] = "tool_choice";
    const json_t *tools = body_get(body, "tools");
    if (json_array_size(tools) > MOST_TOOLS) {
        (void)refuse(r, 400, field, "a call of more than %d tools cannot be forced", MOST_TOOLS);
        return NULL;
    }
    json_t *list = json_array();
    bool good = list && add_functions(tools, f->name, list, r);
    if (good && json_array_size(list) == 0)
        good = refuse(r, 400, field,
                      f->name ? "there is no tool of the name '%.64s'"
                              : "there are no tools to choose from",
                      f->name);
    json_t *whole = good ? json_pack("{s:O}", "anyOf", list) : NULL;
    char *schema = whole ? json_written(whole, JSON_COMPACT) : NULL;
    json_decref(whole);
    json_decref(list);
    if (!schema && r->status == 0) (void)refuse_failure(r, PITH_NOMEM, NULL);
    return schema;
}

/* The schema of one call that a constraint of forced_schema or forced_text has. */
static json_t *schema_within(const char *constraint)
{
    json_t *whole = json_loads(constraint, 0, NULL);
    const char *call = json_string_value(json_object_get(whole, "call"));
    json_t *within = call ? json_loads(call, 0, NULL) : json_incref(whole);
    json_decref(whole);
    return within;
}

void forced_place(const char *constraint, struct refusal *r)
{
    static const char head[] = "\"/anyOf/", within[] = "/properties/arguments";
    char *at = strstr(r->message, head), *end, message[sizeof r->message];
    if (!at) return;
    const unsigned long which = strtoul(at + sizeof head - 1, &end, 10);
    if (strncmp(end, within, sizeof within - 1) != 0) return;
    json_t *whole = schema_within(constraint);
    const json_t *one = json_array_get(json_object_get(whole, "anyOf"), which);
    const json_t *name = json_object_get(json_object_get(one, "properties"), "name");
    const char *text = json_string_value(json_object_get(name, "const"));
    if (text) {
        snprintf(message, sizeof message, "tool '%.64s': %.*s\"%s", text, (int)(at - r->message),
                 r->message, end + sizeof within - 1);
        memcpy(r->message, message, sizeof message);
        snprintf(r->param, sizeof r->param, "tools");
    }
    json_decref(whole);
}

char *forced_text(const char *schema, const struct pith_reply_format *format, bool many,
                  const char *kind, const char *text)
{
    const char *close = NULL, *open = pith_reply_format_calls(format, &close);
    /* Behind the only call nothing follows: its closing mark would be tokens for nobody. */
    if (!many) close = NULL;
    struct buffer before = {0}, behind = {0};
    buffer_print(&before, "%s\n", open);
    buffer_print(&behind, "\n%s", close ? close : "");
    json_t *j = json_pack("{s:s, s:s, s:s, s:b}", "call", schema, "open", before.text, "close",
                          close ? behind.text : "", "many", (int)many);
    json_t *other = kind ? json_pack("{s:s, s:s*}", "kind", kind, "text", text) : NULL;
    if (j && kind && json_object_set_new(j, "else", other) != 0) {
        json_decref(j);
        j = NULL;
    }
    char *whole = j && !before.failed && !behind.failed ? json_written(j, JSON_COMPACT) : NULL;
    json_decref(j);
    buffer_free(&before);
    buffer_free(&behind);
    return whole;
}
