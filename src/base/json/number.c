/* Numbers that jansson's types do not hold: see json.h. */
#include "base/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In no UTF-8, so in no name that was read. */
#define MARK "\xff"

static const char *const odd[PITH_JSON_ODD_COUNT] = {
    [PITH_JSON_NAN] = "NaN",
    [PITH_JSON_INFINITY] = "Infinity",
    [PITH_JSON_MINUS_INFINITY] = "-Infinity",
};

const char *pith_json_odd_text(enum pith_json_odd which)
{
    return odd[which];
}

json_t *pith_json_marked(const char *text, size_t size)
{
    json_t *j = json_object(), *value = json_stringn_nocheck(text, size);
    if (j && json_object_setn_new_nocheck(j, MARK, 1, value) == 0) return j;
    if (!j) json_decref(value);
    json_decref(j);
    return NULL;
}

const char *pith_json_marked_text(const json_t *json)
{
    return json_is_object(json) ? json_string_value(json_object_getn(json, MARK, 1)) : NULL;
}

/* The text of an integer, NULL for others. */
static const char *big(const json_t *json)
{
    const char *text = pith_json_marked_text(json);
    return text && strpbrk(text, "NI") ? NULL : text;
}

bool pith_json_is_number(const json_t *json)
{
    return json_is_number(json) || pith_json_marked_text(json);
}

bool pith_json_is_integer(const json_t *json)
{
    return json_is_integer(json) || big(json);
}

int64_t pith_json_integer(const json_t *json)
{
    const char *text = big(json);
    if (text) return text[0] == '-' ? INT64_MIN : INT64_MAX;
    return json_integer_value(json);
}

double pith_json_number(const json_t *json)
{
    const char *text = pith_json_marked_text(json);
    if (!text) return json_number_value(json);
    if (text == strpbrk(text, "N")) return (double)NAN;
    return strtod(text, NULL);
}
