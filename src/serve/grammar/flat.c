/* Schemas as flat lists of what has to hold at once. */
#include "serve/grammar/schema.h"

#include "base/mem.h"

#include <string.h>

/* How deep members are compared to distinguish schemas. */
enum { MOST_COMPARED = 8 };

struct flattening {
    struct pith_schema *job;
    json_t *out;
    int depth;
    bool trusts; /* parts of a oneOf are not compared: that they were, or will be */
    bool failed; /* memory is out */
    struct pith_error *err;
};

static const struct {
    const char *name;
    int bits;
} types[] = {{"null", PITH_TYPE_NULL},       {"boolean", PITH_TYPE_BOOL},
             {"integer", PITH_TYPE_INTEGER}, {"number", PITH_TYPE_INTEGER | PITH_TYPE_FRACTION},
             {"string", PITH_TYPE_STRING},   {"array", PITH_TYPE_ARRAY},
             {"object", PITH_TYPE_OBJECT}};

static int bits_of(const json_t *name)
{
    for (size_t i = 0; i < PITH_COUNT(types) && json_is_string(name); i++)
        if (strcmp(types[i].name, json_string_value(name)) == 0) return types[i].bits;
    return 0;
}

int pith_schema_types(const json_t *flat)
{
    const json_t *bits = json_object_get(flat, "types");
    return bits ? (int)json_integer_value(bits) : PITH_TYPE_ALL;
}

int pith_schema_type_of(const json_t *value)
{
    if (pith_json_marked_text(value)) /* of NaN and the infinities no JSON can be written */
        return pith_json_is_integer(value) ? PITH_TYPE_INTEGER : 0;
    switch (json_typeof(value)) {
    case JSON_NULL: return PITH_TYPE_NULL;
    case JSON_TRUE:
    case JSON_FALSE: return PITH_TYPE_BOOL;
    case JSON_INTEGER: return PITH_TYPE_INTEGER;
    case JSON_REAL: {
        const double v = json_real_value(value);
        return v < 9e15 && v > -9e15 && v == (double)(long long)v ? PITH_TYPE_INTEGER
                                                                  : PITH_TYPE_FRACTION;
    }
    case JSON_STRING: return PITH_TYPE_STRING;
    case JSON_ARRAY: return PITH_TYPE_ARRAY;
    case JSON_OBJECT: return PITH_TYPE_OBJECT;
    }
    return 0;
}

enum pith_status pith_schema_spend(struct pith_schema *job, size_t size, struct pith_error *err)
{
    enum { A_STEP = 32 };
    job->steps += 1 + size / A_STEP;
    if (job->steps <= PITH_SCHEMA_STEPS) return PITH_OK;
    return pith_fail(err, PITH_LIMIT, "schema: what it says takes too much work");
}

static void set(struct flattening *f, const char *key, json_t *value)
{
    if (!value || json_object_set_new(f->out, key, value) != 0) f->failed = true;
}

/* The list under a key, made when it is not there; NULL when memory is out. */
static json_t *list_of(struct flattening *f, const char *key)
{
    json_t *list = json_object_get(f->out, key);
    if (list) return list;
    set(f, key, json_array());
    return json_object_get(f->out, key);
}

/* Adds to a list what it does not have; takes the reference. */
static void add_once(struct flattening *f, const char *key, json_t *value)
{
    json_t *list = list_of(f, key);
    if (!value || !list) f->failed = true;
    f->job->steps += json_array_size(list) / 16;
    for (size_t i = 0; i < json_array_size(list) && value; i++)
        if (json_equal(json_array_get(list, i), value)) {
            json_decref(value);
            return;
        }
    if (json_array_append_new(list, value) != 0) f->failed = true;
}

static void take_types(struct flattening *f, int bits)
{
    set(f, "types", json_integer(pith_schema_types(f->out) & bits));
}

static void take_type(struct flattening *f, const json_t *value, bool nullable)
{
    int bits = nullable ? PITH_TYPE_NULL : 0;
    if (json_is_string(value)) bits |= bits_of(value);
    for (size_t i = 0; i < json_array_size(value); i++) bits |= bits_of(json_array_get(value, i));
    take_types(f, bits);
}

/* JSON Schema holds 1 and 1.0 for equal. */
static bool is_same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b) && (json_is_real(a) || json_is_real(b)))
        return json_number_value(a) == json_number_value(b);
    return json_equal(a, b);
}

bool pith_schema_lists(const json_t *list, const json_t *value)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (is_same(json_array_get(list, i), value)) return true;
    return false;
}

bool pith_schema_is_word(const json_t *value)
{
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
}

static void take_values(struct flattening *f, const json_t *list)
{
    const json_t *old = json_object_get(f->out, "enum");
    json_t *both = json_array();
    for (size_t i = 0; i < json_array_size(list) && both; i++) {
        if (pith_schema_spend(f->job, json_array_size(both) + json_array_size(old), NULL) !=
            PITH_OK)
            break; /* reported by the next schema, or at the end */
        json_t *value = json_array_get(list, i);
        if (pith_schema_lists(both, value) || (old && !pith_schema_lists(old, value))) continue;
        if (json_array_append(both, value) != 0) f->failed = true;
    }
    set(f, "enum", both);
}

static void take_value(struct flattening *f, json_t *value)
{
    json_t *list = json_array();
    if (!list || json_array_append(list, value) != 0) f->failed = true;
    else take_values(f, list);
    json_decref(list);
}

/* Of characters, items and members that no answer has so many of: 2147483647 is how some programs
 * write that there is no limit. */
enum { NO_ANSWER_HAS = 1 << 24 };

/* A count: the larger of two that are least, the smaller of two that are most. */
static void take_count(struct flattening *f, const char *key, const json_t *value, bool least)
{
    const json_int_t n = (json_int_t)json_number_value(value);
    if (!least && n >= NO_ANSWER_HAS) return;
    const json_t *old = json_object_get(f->out, key);
    if (!old || (least ? n > json_integer_value(old) : n < json_integer_value(old)))
        set(f, key, json_integer(n));
}

/* Members of a schema that belong together, under their names or others. */
static void take_together(struct flattening *f, const char *list, const json_t *schema,
                          const char *const names[][2])
{
    json_t *layer = json_object();
    for (size_t i = 0; names[i][0] && layer; i++) {
        json_t *value = json_object_get(schema, names[i][0]);
        if (value && json_object_set(layer, names[i][1], value) != 0) f->failed = true;
    }
    if (layer && json_object_size(layer) == 0) json_decref(layer);
    else add_once(f, list, layer);
}

static void take_layers(struct flattening *f, const json_t *schema)
{
    static const char *const object[][2] = {{"properties", "properties"},
                                            {"patternProperties", "patternProperties"},
                                            {"additionalProperties", "additionalProperties"},
                                            {"propertyNames", "propertyNames"},
                                            {NULL, NULL}};
    static const char *const array[][2] = {
        {"prefixItems", "prefixItems"}, {"items", "items"}, {NULL, NULL}};
    static const char *const old_array[][2] = {
        {"items", "prefixItems"}, {"additionalItems", "items"}, {NULL, NULL}};
    const bool old = json_is_array(json_object_get(schema, "items"));
    take_together(f, "layers", schema, object);
    take_together(f, "tuples", schema, old ? old_array : array);
}

static enum pith_status take_schema(struct flattening *f, const json_t *schema);

static enum pith_status take_one_of(struct flattening *f, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list) && !f->trusts; i++)
        for (size_t k = 0; k < i; k++) {
            bool apart;
            PITH_TRY(pith_schema_disjoint(f->job, json_array_get(list, i), json_array_get(list, k),
                                          &apart, f->err));
            if (!apart)
                return pith_fail(f->err, PITH_UNSUPPORTED,
                                 "schema: parts %zu and %zu of a \"oneOf\" may hold at once: that "
                                 "is not supported; \"anyOf\" is",
                                 k, i);
        }
    return PITH_OK;
}

/* A keyword with a plain value; false: it is none of these. */
static bool take_plain(struct flattening *f, const char *key, json_t *value, const json_t *schema)
{
    static const char *const counts[] = {"minItems", "minLength", "minProperties",
                                         "maxItems", "maxLength", "maxProperties"};
    static const struct {
        const char *keyword, *key, *other; /* other: of draft 4, true: it is exclusive */
    } bounds[] = {{"minimum", "minimum", "exclusiveMinimum"},
                  {"exclusiveMinimum", "minimum", NULL},
                  {"maximum", "maximum", "exclusiveMaximum"},
                  {"exclusiveMaximum", "maximum", NULL}};
    for (size_t i = 0; i < PITH_COUNT(counts); i++)
        if (strcmp(key, counts[i]) == 0) {
            take_count(f, key, value, i < PITH_COUNT(counts) / 2);
            return true;
        }
    for (size_t i = 0; i < PITH_COUNT(bounds); i++)
        if (strcmp(key, bounds[i].keyword) == 0) {
            const char *other = bounds[i].other;
            const bool exclusive = !other || json_is_true(json_object_get(schema, other));
            if (pith_json_is_number(value))
                add_once(f, bounds[i].key, json_pack("[O, b]", value, exclusive));
            return true;
        }
    if (strcmp(key, "type") == 0)
        take_type(f, value, json_is_true(json_object_get(schema, "nullable")));
    else if (strcmp(key, "enum") == 0) take_values(f, value);
    else if (strcmp(key, "const") == 0) take_value(f, value);
    else if (strcmp(key, "pattern") == 0 || strcmp(key, "format") == 0 ||
             strcmp(key, "multipleOf") == 0)
        add_once(f, key, json_incref(value));
    else if (strcmp(key, "uniqueItems") == 0 && json_is_true(value)) set(f, "unique", json_true());
    else return false;
    return true;
}

static enum pith_status not_supported(struct flattening *f, const char *keyword)
{
    return pith_fail(f->err, PITH_UNSUPPORTED, "schema: \"not\" of \"%s\" is not supported",
                     keyword);
}

/* What a flat schema says of values of its types; PITH_UNSUPPORTED when it is more than which
 * strings they are. */
static enum pith_status strings_alone(struct flattening *f, const json_t *flat, bool *strings)
{
    static const struct {
        const char *key;
        int bits;          /* types that it is about */
        const char *lacks; /* the keyword of which "not" is not supported; NULL: it is */
    } keys[] = {{"pattern", PITH_TYPE_STRING, NULL},
                {"minLength", PITH_TYPE_STRING, NULL},
                {"maxLength", PITH_TYPE_STRING, NULL},
                {"format", PITH_TYPE_STRING, "format"},
                {"minimum", PITH_TYPE_INTEGER, "minimum"},
                {"maximum", PITH_TYPE_INTEGER, "maximum"},
                {"multipleOf", PITH_TYPE_INTEGER, "multipleOf"},
                {"tuples", PITH_TYPE_ARRAY, "items"},
                {"minItems", PITH_TYPE_ARRAY, "minItems"},
                {"maxItems", PITH_TYPE_ARRAY, "maxItems"},
                {"unique", PITH_TYPE_ARRAY, "uniqueItems"},
                {"layers", PITH_TYPE_OBJECT, "properties"},
                {"required", PITH_TYPE_OBJECT, "required"},
                {"minProperties", PITH_TYPE_OBJECT, "minProperties"},
                {"maxProperties", PITH_TYPE_OBJECT, "maxProperties"},
                {"any", PITH_TYPE_ALL, "anyOf"},
                {"except", PITH_TYPE_ALL, "not"},
                {"unlike", PITH_TYPE_ALL, "not"}};
    const int bits = pith_schema_types(flat);
    for (size_t i = 0; i < PITH_COUNT(keys); i++) {
        if (!(keys[i].bits & bits) || !json_object_get(flat, keys[i].key)) continue;
        if (keys[i].lacks) return not_supported(f, keys[i].lacks);
        *strings = true;
    }
    return PITH_OK;
}

/* Takes away the values of a list that have one of some types. */
static enum pith_status leave_out(struct flattening *f, const json_t *values, int bits)
{
    for (size_t i = 0; i < json_array_size(values); i++) {
        json_t *value = json_array_get(values, i);
        PITH_TRY(pith_schema_spend(f->job, 0, f->err)); /* add_once counts what it compares */
        if (pith_schema_type_of(value) & bits) add_once(f, "except", json_incref(value));
    }
    return PITH_OK;
}

static enum pith_status take_not_flat(struct flattening *f, json_t *flat)
{
    const json_t *values = json_object_get(flat, "enum");
    const int bits = pith_schema_types(flat);
    bool strings = false;
    PITH_TRY(strings_alone(f, flat, &strings));
    if (values && strings) return not_supported(f, "enum");
    if (values) return leave_out(f, values, bits);
    if (strings) add_once(f, "unlike", json_incref(flat));
    take_types(f, PITH_TYPE_ALL & ~(strings ? bits & ~PITH_TYPE_STRING : bits));
    return PITH_OK;
}

/* What does not hold for a schema: known values, types, or strings; or one of several such. */
static enum pith_status take_not(struct flattening *f, const json_t *schema)
{
    const json_t *any = json_object_get(schema, "anyOf"), *twice = json_object_get(schema, "not");
    const bool alone = json_object_size(schema) == 1;
    if (++f->depth > PITH_SCHEMA_DEPTH)
        return pith_fail(f->err, PITH_FORMAT,
                         "schema: a part refers to itself and to nothing else");
    enum pith_status s = PITH_OK;
    if (alone && twice) {
        s = take_schema(f, twice);
    } else if (alone && any) {
        for (size_t i = 0; i < json_array_size(any) && s == PITH_OK; i++)
            s = take_not(f, json_array_get(any, i));
    } else {
        struct flattening of = *f;
        of.out = json_object();
        s = of.out ? take_schema(&of, schema) : pith_fail_nomem(f->err, "schema");
        if (s == PITH_OK) s = take_not_flat(f, of.out);
        json_decref(of.out);
    }
    f->depth--;
    return s;
}

static enum pith_status take_keyword(struct flattening *f, const char *key, json_t *value,
                                     const json_t *schema)
{
    if (take_plain(f, key, value, schema)) return PITH_OK;
    if (strcmp(key, "$ref") == 0) {
        const json_t *to = pith_schema_ref(f->job->root, json_string_value(value));
        return to ? take_schema(f, to) : PITH_OK;
    }
    if (strcmp(key, "not") == 0) return take_not(f, value);
    if (strcmp(key, "oneOf") == 0) PITH_TRY(take_one_of(f, value));
    if (strcmp(key, "oneOf") == 0 || strcmp(key, "anyOf") == 0)
        add_once(f, "any", json_incref(value));
    for (size_t i = 0; strcmp(key, "required") == 0 && i < json_array_size(value); i++) {
        PITH_TRY(pith_schema_spend(f->job, 0, f->err));
        add_once(f, "required", json_incref(json_array_get(value, i)));
    }
    for (size_t i = 0; strcmp(key, "allOf") == 0 && i < json_array_size(value); i++)
        PITH_TRY(take_schema(f, json_array_get(value, i)));
    return PITH_OK;
}

static enum pith_status take_schema(struct flattening *f, const json_t *schema)
{
    const char *key;
    json_t *value;
    if (json_is_false(schema)) take_types(f, 0);
    if (!json_is_object(schema)) return PITH_OK;
    PITH_TRY(pith_schema_spend(f->job, 0, f->err));
    if (++f->depth > PITH_SCHEMA_DEPTH)
        return pith_fail(f->err, PITH_FORMAT,
                         "schema: a part refers to itself and to nothing else");
    take_layers(f, schema); /* first: they give the order of properties */
    json_object_foreach ((json_t *)schema, key, value) {
        PITH_TRY(take_keyword(f, key, value, schema));
    }
    f->depth--;
    PITH_TRY(pith_schema_spend(f->job, 0, f->err));
    return f->failed ? pith_fail_nomem(f->err, "schema") : PITH_OK;
}

/* What f has so far, all schemas of a list (or NULL) and one more (or NULL). Takes f.out, which is
 * NULL when memory is out. */
static enum pith_status flatten(struct flattening f, const json_t *list, const json_t *schema,
                                json_t **out)
{
    enum pith_status s = f.out ? PITH_OK : pith_fail_nomem(f.err, "schema");
    for (size_t i = 0; i < json_array_size(list) && s == PITH_OK; i++)
        s = take_schema(&f, json_array_get(list, i));
    if (schema && s == PITH_OK) s = take_schema(&f, schema);
    if (s == PITH_OK && f.failed) s = pith_fail_nomem(f.err, "schema");
    if (s == PITH_OK) *out = f.out;
    else json_decref(f.out);
    return s;
}

static json_t *begin(const json_t *flat)
{
    return flat ? json_deep_copy(flat) : json_object();
}

enum pith_status pith_schema_flat_all(struct pith_schema *job, const json_t *flat,
                                      const json_t *list, json_t **out, struct pith_error *err)
{
    const struct flattening f = {.job = job, .out = begin(flat), .err = err};
    return flatten(f, list, NULL, out);
}

enum pith_status pith_schema_flat_with(struct pith_schema *job, const json_t *flat,
                                       const json_t *schema, json_t **out, struct pith_error *err)
{
    const struct flattening f = {.job = job, .out = begin(flat), .err = err};
    return flatten(f, NULL, schema, out);
}

enum pith_status pith_schema_flat(struct pith_schema *job, const json_t *schema, json_t **out,
                                  struct pith_error *err)
{
    return pith_schema_flat_with(job, NULL, schema, out, err);
}

json_t *pith_schema_rest(const json_t *flat)
{
    json_t *rest = json_deep_copy(flat), *lists = json_object_get(rest, "any");
    if (json_array_size(lists) > 1) json_array_remove(lists, 0);
    else json_object_del(rest, "any");
    return rest;
}

/* --- distinct schemas ------------------------------------------------------------------------- */

/* The flat form of a list of schemas (or NULL) and one more (or NULL), for comparing. */
static enum pith_status trusting(struct pith_schema *job, const json_t *list, const json_t *schema,
                                 json_t **out, struct pith_error *err)
{
    const struct flattening f = {.job = job, .out = json_object(), .trusts = true, .err = err};
    return flatten(f, list, schema, out);
}

/* Types that a flat schema can have, its alternatives looked at. */
static enum pith_status types_within(struct pith_schema *job, const json_t *flat, int depth,
                                     int *out, struct pith_error *err)
{
    const json_t *any = json_object_get(flat, "any"), *values = json_object_get(flat, "enum");
    int bits = pith_schema_types(flat), of_values = 0;
    for (size_t i = 0; i < json_array_size(any) && depth < MOST_COMPARED; i++) {
        const json_t *list = json_array_get(any, i);
        int all = 0;
        for (size_t k = 0; k < json_array_size(list); k++) {
            json_t *part;
            int some = 0;
            PITH_TRY(trusting(job, NULL, json_array_get(list, k), &part, err));
            const enum pith_status s = types_within(job, part, depth + 1, &some, err);
            json_decref(part);
            PITH_TRY(s);
            all |= some;
        }
        bits &= all;
    }
    for (size_t i = 0; i < json_array_size(values); i++)
        of_values |= pith_schema_type_of(json_array_get(values, i));
    *out = values ? bits & of_values : bits;
    return PITH_OK;
}

/* The schemas that layers give a property, as a new list. */
static json_t *member_schemas(const json_t *flat, const char *name)
{
    const json_t *layers = json_object_get(flat, "layers");
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(layers) && list; i++) {
        json_t *s = json_object_get(json_object_get(json_array_get(layers, i), "properties"), name);
        if (s) json_array_append(list, s);
    }
    return list;
}

static enum pith_status apart(struct pith_schema *job, const json_t *a, const json_t *b, int depth,
                              bool *out, struct pith_error *err);

static enum pith_status members_apart(struct pith_schema *job, const json_t *a, const json_t *b,
                                      int depth, bool *out, struct pith_error *err)
{
    const json_t *names = json_object_get(a, "required"), *others = json_object_get(b, "required");
    enum pith_status s = PITH_OK;
    for (size_t i = 0; i < json_array_size(names) && !*out && s == PITH_OK; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        if (!pith_schema_lists(others, json_array_get(names, i))) continue;
        json_t *x = member_schemas(a, name), *y = member_schemas(b, name), *p = NULL, *q = NULL;
        s = x && y ? PITH_OK : pith_fail_nomem(err, "schema");
        if (s == PITH_OK) s = trusting(job, x, NULL, &p, err);
        if (s == PITH_OK) s = trusting(job, y, NULL, &q, err);
        if (s == PITH_OK) s = apart(job, p, q, depth + 1, out, err);
        json_decref(x);
        json_decref(y);
        json_decref(p);
        json_decref(q);
    }
    return s;
}

/* Whether a schema takes away all values of a list. */
static bool excluded(const json_t *values, const json_t *flat)
{
    const json_t *except = json_object_get(flat, "except");
    for (size_t i = 0; i < json_array_size(values) && except; i++)
        if (!pith_schema_lists(except, json_array_get(values, i))) return false;
    return values && except;
}

static enum pith_status apart(struct pith_schema *job, const json_t *a, const json_t *b, int depth,
                              bool *out, struct pith_error *err)
{
    const json_t *x = json_object_get(a, "enum"), *y = json_object_get(b, "enum");
    int of_a, of_b;
    PITH_TRY(types_within(job, a, 0, &of_a, err));
    PITH_TRY(types_within(job, b, 0, &of_b, err));
    *out = (of_a & of_b) == 0;
    if (*out || depth == MOST_COMPARED) return PITH_OK;
    if (x && y) {
        *out = true;
        for (size_t i = 0; i < json_array_size(x); i++)
            if (pith_schema_lists(y, json_array_get(x, i))) *out = false;
        return PITH_OK;
    }
    if (excluded(x, b) || excluded(y, a)) *out = true;
    if (*out || (of_a & of_b) != PITH_TYPE_OBJECT) return PITH_OK;
    return members_apart(job, a, b, depth, out, err);
}

enum pith_status pith_schema_disjoint(struct pith_schema *job, const json_t *a, const json_t *b,
                                      bool *out, struct pith_error *err)
{
    json_t *x = NULL, *y = NULL;
    enum pith_status s = trusting(job, NULL, a, &x, err);
    if (s == PITH_OK) s = trusting(job, NULL, b, &y, err);
    if (s == PITH_OK) s = apart(job, x, y, 0, out, err);
    json_decref(x);
    json_decref(y);
    return s;
}
