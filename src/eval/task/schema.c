#include "eval/task/schema.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

#include <math.h>
#include <string.h>

static bool same(const json_t *a, const json_t *b)
{
    const char *key;
    const json_t *value;
    size_t i;
    const bool exact = pith_json_marked_text(a) && pith_json_marked_text(b);
    if (pith_json_is_number(a) && pith_json_is_number(b) && !exact)
        return pith_json_number(a) == pith_json_number(b);
    if (json_is_array(a) && json_is_array(b)) {
        bool all = json_array_size(a) == json_array_size(b);
        for (i = 0; all && i < json_array_size(a); i++)
            all = same(json_array_get(a, i), json_array_get(b, i));
        return all;
    }
    if (!json_is_object(a) || !json_is_object(b)) return json_equal(a, b);
    if (pith_json_marked_text(a) || pith_json_marked_text(b)) return json_equal(a, b);
    if (json_object_size(a) != json_object_size(b)) return false;
    json_object_foreach ((json_t *)(uintptr_t)a, key, value)
        if (!json_object_get(b, key) || !same(value, json_object_get(b, key))) return false;
    return true;
}

/* --- types ------------------------------------------------------------------------------------ */

static bool is_null(const json_t *v)
{
    return json_is_null(v);
}
static bool is_boolean(const json_t *v)
{
    return json_is_boolean(v);
}
static bool is_object(const json_t *v)
{
    return json_is_object(v) && !pith_json_marked_text(v);
}
static bool is_array(const json_t *v)
{
    return json_is_array(v);
}
static bool is_string(const json_t *v)
{
    return json_is_string(v);
}
static bool is_number(const json_t *v)
{
    return pith_json_is_number(v);
}
static bool is_integer(const json_t *v)
{
    return pith_json_is_number(v) && floor(pith_json_number(v)) == pith_json_number(v);
}

static const struct {
    const char *name;
    bool (*is)(const json_t *v);
} types[] = {{"null", is_null},      {"boolean", is_boolean}, {"object", is_object},
             {"array", is_array},    {"string", is_string},   {"number", is_number},
             {"integer", is_integer}};

/* Whether the type has a name that there is; *fits: and the value is of it. */
static bool of_type(const json_t *name, const json_t *value, bool *fits)
{
    for (size_t i = 0; json_is_string(name) && i < PITH_COUNT(types); i++) {
        if (strcmp(types[i].name, json_string_value(name)) != 0) continue;
        *fits = *fits || types[i].is(value);
        return true;
    }
    return false;
}

static bool type_fits(const json_t *type, const json_t *value)
{
    bool fits = false;
    const json_t *name;
    size_t i;
    if (!json_is_array(type)) (void)of_type(type, value, &fits);
    json_array_foreach (type, i, name) (void)of_type(name, value, &fits);
    return fits;
}

static bool is_type(const json_t *type)
{
    bool fits = false;
    const json_t *name;
    size_t i;
    if (!json_is_array(type)) return of_type(type, NULL, &fits);
    json_array_foreach (type, i, name)
        if (!of_type(name, NULL, &fits)) return false;
    return json_array_size(type) > 0;
}

/* --- keys: what value they may have, and what they ask ---------------------------------------- */

static bool is_anything(const json_t *v)
{
    return v != NULL;
}
static bool is_list(const json_t *v)
{
    return json_array_size(v) > 0;
}
static bool is_names(const json_t *v)
{
    const json_t *name;
    size_t i;
    json_array_foreach (v, i, name)
        if (!json_is_string(name)) return false;
    return json_is_array(v);
}
static bool is_schemas(const json_t *v)
{
    const char *key;
    const json_t *s;
    json_object_foreach ((json_t *)(uintptr_t)v, key, s)
        if (pith_schema_lacks(s)) return false;
    return json_is_object(v);
}
static bool is_schema(const json_t *v)
{
    return !pith_schema_lacks(v);
}
static bool is_count(const json_t *v)
{
    return pith_json_is_integer(v) && pith_json_integer(v) >= 0;
}

static bool enum_fits(const json_t *list, const json_t *value)
{
    const json_t *one;
    size_t i;
    json_array_foreach (list, i, one)
        if (same(one, value)) return true;
    return false;
}

static bool properties_fit(const json_t *schemas, const json_t *value)
{
    const char *key;
    const json_t *schema, *own;
    json_object_foreach ((json_t *)(uintptr_t)schemas, key, schema) {
        own = json_object_get(value, key);
        if (own && !pith_schema_fits(schema, own)) return false;
    }
    return true;
}

static bool required_fit(const json_t *names, const json_t *value)
{
    const json_t *name;
    size_t i;
    if (!json_is_object(value)) return true;
    json_array_foreach (names, i, name)
        if (!json_object_get(value, json_string_value(name))) return false;
    return true;
}

static bool items_fit(const json_t *schema, const json_t *value)
{
    const json_t *item;
    size_t i;
    json_array_foreach (value, i, item)
        if (!pith_schema_fits(schema, item)) return false;
    return true;
}

/* A measure of what a key is about, within a bound; other values fit. */
static bool above(const json_t *least, const json_t *value)
{
    return !pith_json_is_number(value) || pith_json_number(value) >= pith_json_number(least);
}
static bool below(const json_t *most, const json_t *value)
{
    return !pith_json_is_number(value) || pith_json_number(value) <= pith_json_number(most);
}
static double characters(const json_t *text)
{
    return (double)pith_utf8_count(json_string_value(text), json_string_length(text));
}
static bool long_enough(const json_t *least, const json_t *value)
{
    return !json_is_string(value) || characters(value) >= pith_json_number(least);
}
static bool short_enough(const json_t *most, const json_t *value)
{
    return !json_is_string(value) || characters(value) <= pith_json_number(most);
}
static bool enough(const json_t *least, const json_t *value)
{
    return !json_is_array(value) || (json_int_t)json_array_size(value) >= pith_json_integer(least);
}
static bool few_enough(const json_t *most, const json_t *value)
{
    return !json_is_array(value) || (json_int_t)json_array_size(value) <= pith_json_integer(most);
}

static const struct {
    const char *name;
    bool (*may)(const json_t *key);
    bool (*fits)(const json_t *key, const json_t *value); /* NULL: says nothing by itself */
} keys[] = {{"type", is_type, type_fits},
            {"enum", is_list, enum_fits},
            {"const", is_anything, same},
            {"properties", is_schemas, properties_fit},
            {"required", is_names, required_fit},
            {"additionalProperties", is_boolean, NULL}, /* needs "properties" */
            {"items", is_schema, items_fit},
            {"minimum", is_number, above},
            {"maximum", is_number, below},
            {"minLength", is_count, long_enough},
            {"maxLength", is_count, short_enough},
            {"minItems", is_count, enough},
            {"maxItems", is_count, few_enough},
            {"title", is_string, NULL},
            {"description", is_string, NULL},
            {"$schema", is_string, NULL}};

const char *pith_schema_lacks(const json_t *schema)
{
    const char *key;
    const json_t *value;
    if (!json_is_object(schema)) return "schema";
    json_object_foreach ((json_t *)(uintptr_t)schema, key, value) {
        size_t i = 0;
        while (i < PITH_COUNT(keys) && strcmp(keys[i].name, key) != 0) i++;
        if (i == PITH_COUNT(keys) || !keys[i].may(value)) return key;
    }
    return NULL;
}

/* Names that "properties" has not, where no others may be. */
static bool has_others(const json_t *schema, const json_t *value)
{
    const json_t *known = json_object_get(schema, "properties");
    const char *name;
    const json_t *own;
    if (!json_is_false(json_object_get(schema, "additionalProperties"))) return false;
    json_object_foreach ((json_t *)(uintptr_t)value, name, own)
        if (!json_object_get(known, name)) return true;
    return false;
}

bool pith_schema_fits(const json_t *schema, const json_t *value)
{
    for (size_t i = 0; i < PITH_COUNT(keys); i++) {
        const json_t *key = json_object_get(schema, keys[i].name);
        if (key && keys[i].fits && !keys[i].fits(key, value)) return false;
    }
    return !has_others(schema, value);
}
