/* Flat schemas that few values satisfy, as the list of these. */
#include "serve/grammar/number.h"
#include "serve/grammar/rules.h"

/* How deep alternatives are looked into. */
enum { MOST_DEPTH = 8 };

struct finding {
    struct pith_rules *r;
    json_t *values;
    int depth;
    bool few;
    struct pith_error *err;
};

/* A value, which may be there; takes the reference. */
static enum pith_status add(struct finding *f, const json_t *flat, json_t *value)
{
    bool holds = false;
    enum pith_status s = value ? pith_rules_holds(f->r, flat, value, &holds, f->err)
                               : pith_fail_nomem(f->err, "schema");
    if (s == PITH_OK && holds && !pith_schema_lists(f->values, value) &&
        json_array_append(f->values, value) != 0)
        s = pith_fail_nomem(f->err, "schema");
    json_decref(value);
    if (json_array_size(f->values) > PITH_VALUES_MOST) f->few = false;
    return s;
}

/* Whole numbers between two bounds that are near each other. */
static enum pith_status add_numbers(struct finding *f, const json_t *flat)
{
    const json_t *lows = json_object_get(flat, "minimum"),
                 *highs = json_object_get(flat, "maximum");
    const json_t *first = json_array_get(json_array_get(lows, 0), 0),
                 *last = json_array_get(json_array_get(highs, 0), 0);
    const double lo = json_number_value(first), hi = json_number_value(last);
    f->few = f->few && json_is_number(first) && json_is_number(last) &&
             !(pith_schema_types(flat) & PITH_TYPE_FRACTION) &&
             lo > -1e15 && hi < 1e15 && hi - lo <= 2 * PITH_VALUES_MOST;
    if (!f->few) return PITH_OK;
    for (json_int_t n = (json_int_t)lo - 1; n <= (json_int_t)hi + 1 && f->few; n++)
        PITH_TRY(add(f, flat, json_integer(n)));
    return PITH_OK;
}

static enum pith_status find(struct finding *f, const json_t *flat);

static enum pith_status find_alternatives(struct finding *f, const json_t *flat)
{
    const json_t *first = json_array_get(json_object_get(flat, "any"), 0);
    json_t *rest = pith_schema_rest(flat);
    enum pith_status s = rest ? PITH_OK : pith_fail_nomem(f->err, "schema");
    for (size_t i = 0; i < json_array_size(first) && f->few && s == PITH_OK; i++) {
        json_t *both = NULL;
        s = pith_schema_flat_with(&f->r->schema, rest, json_array_get(first, i), &both, f->err);
        if (s == PITH_OK) s = find(f, both);
        json_decref(both);
    }
    json_decref(rest);
    return s;
}

static enum pith_status find(struct finding *f, const json_t *flat)
{
    const int types = pith_schema_types(flat),
              plain = PITH_TYPE_NULL | PITH_TYPE_BOOL | PITH_TYPE_INTEGER | PITH_TYPE_FRACTION;
    const json_t *values = json_object_get(flat, "enum");
    enum pith_status s = PITH_OK;
    if (f->depth == MOST_DEPTH) f->few = false;
    if (!f->few) return PITH_OK;
    if (json_array_size(json_object_get(flat, "any"))) {
        f->depth++;
        s = find_alternatives(f, flat);
        f->depth--;
        return s;
    }
    for (size_t i = 0; i < json_array_size(values) && f->few && s == PITH_OK; i++)
        s = add(f, flat, json_incref(json_array_get(values, i)));
    if (values || s != PITH_OK) return s;
    if (types & ~plain) f->few = false;
    if (f->few && types & PITH_TYPE_NULL) s = add(f, flat, json_null());
    if (f->few && types & PITH_TYPE_BOOL && s == PITH_OK) s = add(f, flat, json_true());
    if (f->few && types & PITH_TYPE_BOOL && s == PITH_OK) s = add(f, flat, json_false());
    if (f->few && types & (PITH_TYPE_INTEGER | PITH_TYPE_FRACTION) && s == PITH_OK)
        s = add_numbers(f, flat);
    return s;
}

enum pith_status pith_rules_values(struct pith_rules *r, const json_t *flat, json_t *values,
                                   bool *few, struct pith_error *err)
{
    struct finding f = {.r = r, .values = values, .few = true, .err = err};
    PITH_TRY(find(&f, flat));
    *few = f.few;
    return PITH_OK;
}
