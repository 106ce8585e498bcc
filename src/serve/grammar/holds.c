/* Whether a given value holds for a flat schema: of the values of an enum, those stay that do. */
#include "serve/grammar/chars.h"
#include "serve/grammar/multiple.h"
#include "serve/grammar/rules.h"

#include "tok/unicode/utf8.h"

#include <string.h>

/* Within a bound of a list, on its side of it (sign -1: above it). */
static enum pith_status within(const json_t *list, int sign, const json_t *value, bool *out,
                               struct pith_error *err)
{
    struct pith_bound v;
    if (json_array_size(list)) PITH_TRY(pith_bound_read(value, false, &v, err));
    for (size_t i = 0; i < json_array_size(list) && *out; i++) {
        const json_t *pair = json_array_get(list, i);
        struct pith_bound b;
        PITH_TRY(pith_bound_read(json_array_get(pair, 0), false, &b, err));
        const int c = pith_bound_compare(&v, &b) * sign;
        *out = c < 0 || (c == 0 && !json_is_true(json_array_get(pair, 1)));
    }
    return PITH_OK;
}

/* A multiple of each of a list. */
static enum pith_status multiple(const json_t *list, const json_t *value, bool *out,
                                 struct pith_error *err)
{
    for (size_t i = 0; i < json_array_size(list) && *out; i++) {
        struct pith_bound v;
        struct pith_number_step step;
        PITH_TRY(pith_bound_read(value, false, &v, err));
        PITH_TRY(pith_step_read(json_array_get(list, i), &step, err));
        *out = pith_step_has(&step, &v);
    }
    return PITH_OK;
}

static enum pith_status list_holds(struct pith_rules *r, const json_t *list, const json_t *value,
                                   bool *out, struct pith_error *err)
{
    json_t *flat = NULL;
    PITH_TRY(pith_schema_flat_all(&r->schema, NULL, list, &flat, err));
    const enum pith_status s = pith_rules_holds(r, flat, value, out, err);
    json_decref(flat);
    return s;
}

static enum pith_status part_holds(struct pith_rules *r, const json_t *schema, const json_t *value,
                                   bool *out, struct pith_error *err)
{
    json_t *flat = NULL;
    PITH_TRY(pith_schema_flat(&r->schema, schema, &flat, err));
    const enum pith_status s = pith_rules_holds(r, flat, value, out, err);
    json_decref(flat);
    return s;
}

static enum pith_status object_holds(struct pith_rules *r, const json_t *flat, const json_t *value,
                                     bool *out, struct pith_error *err)
{
    const json_t *required = json_object_get(flat, "required");
    const char *name;
    json_t *member;
    const json_t *most = json_object_get(flat, "maxProperties");
    const json_int_t count = (json_int_t)json_object_size(value);
    *out = count >= json_integer_value(json_object_get(flat, "minProperties")) &&
           (!most || count <= json_integer_value(most));
    for (size_t i = 0; i < json_array_size(required); i++)
        if (!json_object_get(value, json_string_value(json_array_get(required, i)))) *out = false;
    json_object_foreach ((json_t *)value, name, member) {
        json_t *list;
        if (!*out) break;
        PITH_TRY(pith_rules_member(r, flat, name, &list, err));
        const enum pith_status s = list_holds(r, list, member, out, err);
        json_decref(list);
        PITH_TRY(s);
    }
    return PITH_OK;
}

/* Whether the items of a list differ. */
static enum pith_status all_differ(struct pith_rules *r, const json_t *list, bool *out,
                                   struct pith_error *err)
{
    json_t *seen = json_array();
    enum pith_status s = seen ? PITH_OK : pith_fail_nomem(err, "schema");
    for (size_t i = 0; i < json_array_size(list) && *out && s == PITH_OK; i++) {
        s = pith_schema_spend(&r->schema, i * 4, err);
        *out = !pith_schema_lists(seen, json_array_get(list, i));
        if (json_array_append(seen, json_array_get(list, i)) != 0)
            s = pith_fail_nomem(err, "schema");
    }
    json_decref(seen);
    return s;
}

static enum pith_status array_holds(struct pith_rules *r, const json_t *flat, const json_t *value,
                                    bool *out, struct pith_error *err)
{
    const json_t *tuples = json_object_get(flat, "tuples"),
                 *max = json_object_get(flat, "maxItems");
    const size_t n = json_array_size(value);
    *out = n >= (size_t)json_integer_value(json_object_get(flat, "minItems")) &&
           (!max || n <= (size_t)json_integer_value(max));
    if (json_object_get(flat, "unique")) PITH_TRY(all_differ(r, value, out, err));
    for (size_t k = 0; k < json_array_size(tuples); k++)
        for (size_t i = 0; i < n && *out; i++) {
            const json_t *tuple = json_array_get(tuples, k);
            const json_t *own = json_array_get(json_object_get(tuple, "prefixItems"), i);
            if (!own) own = json_object_get(tuple, "items");
            if (own) PITH_TRY(part_holds(r, own, json_array_get(value, i), out, err));
        }
    return PITH_OK;
}

enum pith_status pith_rules_holds(struct pith_rules *r, const json_t *flat, const json_t *value,
                                  bool *out, struct pith_error *err)
{
    const int type = pith_schema_type_of(value);
    const json_t *any = json_object_get(flat, "any"), *values = json_object_get(flat, "enum");
    *out = (type & pith_schema_types(flat)) != 0;
    for (size_t i = 0; i < json_array_size(any) && *out; i++) {
        const json_t *list = json_array_get(any, i);
        bool one = false;
        for (size_t k = 0; k < json_array_size(list) && !one; k++)
            PITH_TRY(part_holds(r, json_array_get(list, k), value, &one, err));
        *out = one;
    }
    bool listed = !values;
    for (size_t i = 0; i < json_array_size(values) && !listed; i++)
        listed = json_equal(json_array_get(values, i), value);
    *out = *out && listed && !pith_schema_lists(json_object_get(flat, "except"), value);
    if (!*out) return PITH_OK;
    if (type == PITH_TYPE_OBJECT) return object_holds(r, flat, value, out, err);
    if (type == PITH_TYPE_ARRAY) return array_holds(r, flat, value, out, err);
    if (type == PITH_TYPE_STRING) {
        struct pith_chars c = {0};
        PITH_TRY(pith_rules_chars(r, flat, &c, err));
        *out = pith_chars_has(&c, json_string_value(value));
        pith_chars_free(&c);
    }
    if (type & (PITH_TYPE_INTEGER | PITH_TYPE_FRACTION)) {
        PITH_TRY(within(json_object_get(flat, "minimum"), -1, value, out, err));
        PITH_TRY(within(json_object_get(flat, "maximum"), 1, value, out, err));
        PITH_TRY(multiple(json_object_get(flat, "multipleOf"), value, out, err));
    }
    return PITH_OK;
}
