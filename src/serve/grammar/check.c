/* Checking a schema where it stands, so that what is wrong can be named by its place. */
#include "serve/grammar/schema.h"

#include "base/mem.h"
#include "serve/grammar/chars.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum form {
    ANY,
    TEXT,
    BOOL,
    NUMBER,
    BOUND,
    COUNT,
    STEP,
    LIST,
    NAMES,
    TYPE,
    SCHEMA,
    SCHEMAS,
    MAP,
    ITEMS,
    PATTERN,
    PATTERNS,
    ID
};

static const struct {
    const char *name;
    enum form form;
} keywords[] = {
#define PITH_KEYWORD(name, form, use) {name, form},
#include "serve/grammar/keywords.def"
#undef PITH_KEYWORD
};

static const char *const types[] = {"null",   "boolean", "integer", "number",
                                    "string", "array",   "object"};

struct check {
    const json_t *root;
    struct pith_str place; /* pointer */
    json_t *seen;          /* references that were looked at */
    int depth;
    size_t states; /* of all patterns */
    struct pith_error *err;
};

/* States of all patterns together, at most: they are made to see that they can be. */
enum { MOST_STATES = 1 << 18 };

static enum pith_status check_schema(struct check *c, const json_t *schema);

static enum pith_status wrong(struct check *c, enum pith_status s, const char *what)
{
    return pith_fail(c->err, s, "schema, at \"%s\": %s", pith_str_text(&c->place), what);
}

static size_t enter(struct check *c, const char *key)
{
    const size_t before = c->place.len;
    pith_str_putc(&c->place, '/');
    for (; *key; key++) {
        if (*key == '~') pith_str_puts(&c->place, "~0");
        else if (*key == '/') pith_str_puts(&c->place, "~1");
        else pith_str_putc(&c->place, *key);
    }
    return before;
}

static void leave(struct check *c, size_t before)
{
    if (c->place.data) c->place.data[c->place.len = before] = 0;
}

static enum pith_status check_within(struct check *c, const char *key, const json_t *schema)
{
    const size_t before = enter(c, key);
    const enum pith_status s = check_schema(c, schema);
    leave(c, before);
    return s;
}

static enum pith_status check_list(struct check *c, const json_t *list)
{
    if (!json_is_array(list)) return wrong(c, PITH_FORMAT, "not a list of schemas");
    for (size_t i = 0; i < json_array_size(list); i++) {
        char key[32];
        snprintf(key, sizeof key, "%zu", i);
        PITH_TRY(check_within(c, key, json_array_get(list, i)));
    }
    return PITH_OK;
}

static enum pith_status check_pattern(struct check *c, const char *pattern)
{
    struct pith_chars chars = {0};
    struct pith_error err = {0};
    const enum pith_status s = pith_chars_pattern(pattern, &chars, &err);
    c->states += chars.states;
    pith_chars_free(&chars);
    if (c->states > MOST_STATES) return wrong(c, PITH_LIMIT, "the patterns have too many states");
    return s == PITH_OK ? s : wrong(c, s, err.text);
}

static enum pith_status check_map(struct check *c, const json_t *map, bool patterns)
{
    const char *key;
    json_t *value;
    if (!json_is_object(map)) return wrong(c, PITH_FORMAT, "not an object of schemas");
    json_object_foreach ((json_t *)map, key, value) {
        PITH_TRY(check_within(c, key, value));
        if (patterns) PITH_TRY(check_pattern(c, key));
    }
    return PITH_OK;
}

static enum pith_status check_names(struct check *c, const json_t *list)
{
    if (!json_is_array(list)) return wrong(c, PITH_FORMAT, "not a list of names");
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!json_is_string(json_array_get(list, i)))
            return wrong(c, PITH_FORMAT, "not a list of names");
    return PITH_OK;
}

static bool is_type(const json_t *name)
{
    for (size_t i = 0; i < PITH_COUNT(types) && json_is_string(name); i++)
        if (strcmp(json_string_value(name), types[i]) == 0) return true;
    return false;
}

static enum pith_status check_type(struct check *c, const json_t *value)
{
    bool ok = json_is_array(value) && json_array_size(value) > 0;
    for (size_t i = 0; i < json_array_size(value); i++)
        ok = ok && is_type(json_array_get(value, i));
    return ok || is_type(value) ? PITH_OK
                                : wrong(c, PITH_FORMAT, "not a type, nor a list of types");
}

static enum pith_status check_ref(struct check *c, const char *ref)
{
    if (ref[0] != '#' || (ref[1] && ref[1] != '/'))
        return wrong(c, PITH_UNSUPPORTED, "a reference other than a JSON pointer into the schema");
    if (json_object_get(c->seen, ref)) return PITH_OK;
    const json_t *to = pith_schema_ref(c->root, ref);
    if (!to) return wrong(c, PITH_FORMAT, "a reference to nothing");
    if (json_object_set_new(c->seen, ref, json_true()) != 0)
        return pith_fail_nomem(c->err, "schema");
    struct pith_str before = c->place;
    c->place = (struct pith_str){0};
    pith_str_puts(&c->place, ref + 1);
    const enum pith_status s = check_schema(c, to);
    pith_str_free(&c->place);
    c->place = before;
    return s;
}

static enum pith_status check_count(struct check *c, const json_t *value)
{
    const double n = json_is_number(value) ? json_number_value(value) : -1;
    if (n >= 0 && n < 4294967295.0 && n == (double)(uint32_t)n) return PITH_OK;
    return wrong(c, PITH_FORMAT, "not a number of things");
}

static enum pith_status check_text(struct check *c, const json_t *value, enum form form,
                                   const char *keyword)
{
    if (!json_is_string(value)) return wrong(c, PITH_FORMAT, "not a string");
    const char *text = json_string_value(value);
    if (form == PATTERN) return check_pattern(c, text);
    if (form == TEXT && strcmp(keyword, "$ref") == 0) return check_ref(c, text);
    return PITH_OK; /* of formats, those that are not known are notes */
}

static enum pith_status check_value(struct check *c, size_t keyword, const json_t *value)
{
    const enum form form = keywords[keyword].form;
    switch (form) {
    case ANY: return PITH_OK;
    case TEXT:
    case PATTERN: return check_text(c, value, form, keywords[keyword].name);
    case BOOL: return json_is_boolean(value) ? PITH_OK : wrong(c, PITH_FORMAT, "not true or false");
    case BOUND: /* true and false: of draft 4 */
    case NUMBER:
        if (form == BOUND && json_is_boolean(value)) return PITH_OK;
        return pith_json_is_number(value) ? PITH_OK : wrong(c, PITH_FORMAT, "not a number");
    case COUNT: return check_count(c, value);
    case STEP:
        if (pith_json_is_number(value) && json_number_value(value) > 0) return PITH_OK;
        return wrong(c, PITH_FORMAT, "not a number above 0");
    case LIST: return json_is_array(value) ? PITH_OK : wrong(c, PITH_FORMAT, "not a list");
    case NAMES: return check_names(c, value);
    case TYPE: return check_type(c, value);
    case SCHEMA: return check_schema(c, value);
    case SCHEMAS: return check_list(c, value);
    case MAP:
    case PATTERNS: return check_map(c, value, form == PATTERNS);
    case ITEMS: return json_is_array(value) ? check_list(c, value) : check_schema(c, value);
    case ID:
        if (c->depth > 1) return wrong(c, PITH_UNSUPPORTED, "an identifier within a schema");
        return PITH_OK;
    }
    return PITH_OK;
}

static enum pith_status check_keyword(struct check *c, const char *key, const json_t *value)
{
    size_t i = 0;
    while (i < PITH_COUNT(keywords) && strcmp(keywords[i].name, key) != 0) i++;
    const size_t before = enter(c, key);
    enum pith_status s = PITH_OK;
    if (i < PITH_COUNT(keywords)) s = check_value(c, i, value);
    else if (strncmp(key, "x-", 2) != 0)
        s = pith_fail(c->err, PITH_UNSUPPORTED,
                      "schema, at \"%s\": the keyword \"%s\" is not "
                      "supported",
                      pith_str_text(&c->place), key);
    leave(c, before);
    return s;
}

static enum pith_status check_schema(struct check *c, const json_t *schema)
{
    const char *key;
    json_t *value;
    if (json_is_boolean(schema)) return PITH_OK;
    if (!json_is_object(schema) || pith_json_marked_text(schema))
        return wrong(c, PITH_FORMAT, "not a schema");
    if (++c->depth > PITH_SCHEMA_DEPTH) return wrong(c, PITH_LIMIT, "schemas are nested too deep");
    json_object_foreach ((json_t *)schema, key, value) {
        PITH_TRY(check_keyword(c, key, value));
    }
    c->depth--;
    return c->place.failed ? pith_fail_nomem(c->err, "schema") : PITH_OK;
}

/* Names and patterns become C's strings; strings that are values do not. */
static bool has_nul(const json_t *j, bool values)
{
    const char *key;
    size_t size, i;
    json_t *value;
    if (json_is_string(j) && !values) return !pith_schema_is_word(j);
    json_object_keylen_foreach ((json_t *)(uintptr_t)j, key, size, value) {
        const bool within = values || strcmp(key, "enum") == 0 || strcmp(key, "const") == 0;
        if (memchr(key, '\0', size) || has_nul(value, within)) return true;
    }
    json_array_foreach (j, i, value)
        if (has_nul(value, values)) return true;
    return false;
}

enum pith_status pith_schema_check(const json_t *root, struct pith_error *err)
{
    struct check c = {.root = root, .seen = json_object(), .err = err};
    if (has_nul(root, false)) {
        json_decref(c.seen);
        return pith_fail(err, PITH_UNSUPPORTED, "schema: \\u0000 in a name or a string");
    }
    const enum pith_status s = c.seen ? check_schema(&c, root) : pith_fail_nomem(err, "schema");
    pith_str_free(&c.place);
    json_decref(c.seen);
    return s;
}

/* One name of a JSON pointer, with ~0, ~1 and %xx read; false when it is too long. */
static bool read_name(const char **at, char *out, size_t size)
{
    size_t n = 0;
    const char *p = *at;
    for (; *p && *p != '/'; p++) {
        char c = *p;
        unsigned code;
        if (c == '~' && (p[1] == '0' || p[1] == '1')) c = *++p == '0' ? '~' : '/';
        else if (c == '%' && p[1] && p[2] && sscanf(p + 1, "%2x", &code) == 1) {
            c = (char)code;
            p += 2;
            if (c == '~' && (p[1] == '0' || p[1] == '1')) c = *++p == '0' ? '~' : '/';
        }
        if (n + 1 == size) return false;
        out[n++] = c;
    }
    out[n] = 0;
    *at = p;
    return true;
}

const json_t *pith_schema_ref(const json_t *root, const char *ref)
{
    const json_t *at = root;
    const char *p = ref + (*ref == '#');
    while (at && *p == '/') {
        char name[512];
        p++;
        if (!read_name(&p, name, sizeof name)) return NULL;
        if (json_is_array(at)) {
            char *end;
            const unsigned long i = strtoul(name, &end, 10);
            at = *name && !*end ? json_array_get(at, i) : NULL;
        } else {
            at = json_object_get(at, name);
        }
    }
    return *p ? NULL : at;
}

bool pith_schema_format(const char *name, const char **expression)
{
    static const struct {
        const char *name, *expression;
    } formats[] = {
#define PITH_FORMAT_RE(name, expression) {name, expression},
#include "serve/grammar/formats.def"
#undef PITH_FORMAT_RE
    };
    for (size_t i = 0; i < PITH_COUNT(formats); i++)
        if (strcmp(formats[i].name, name) == 0) {
            *expression = formats[i].expression;
            return true;
        }
    return false;
}
