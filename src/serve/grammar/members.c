/* Objects and arrays as rules. Properties come in the order of the schema, those that it does not
 * name behind them; a space may stand behind each colon and comma. */
#include "base/mem.h"
#include "serve/grammar/chars.h"
#include "serve/grammar/rules.h"

#include <string.h>

/* Patterns of properties in one schema, at most: each set of them is a kind of names. */
enum { MOST_PATTERNS = 6 };

/* An object that is being written: nodes before a name, by how many members stand before it. Where
 * nothing counts them, all but none are one number. */
struct object {
    const json_t *flat;
    uint32_t *at; /* [last + 1] */
    size_t required, min, last;
    bool most;   /* no more members than `last` */
    bool others; /* a name that is open was written */
};

static void space(struct pith_net *n, uint32_t from, uint32_t to)
{
    pith_net_empty(n, from, to);
    pith_net_bytes(n, from, ' ', ' ', to);
}

/* From a comma on. */
static uint32_t behind_comma(struct pith_net *n, uint32_t from)
{
    const uint32_t comma = pith_net_add(n), next = pith_net_add(n);
    pith_net_bytes(n, from, ',', ',', comma);
    space(n, comma, next);
    return next;
}

/* Between a name's end and its value. */
static uint32_t behind_colon(struct pith_net *n, uint32_t from)
{
    const uint32_t colon = pith_net_add(n), next = pith_net_add(n);
    pith_net_bytes(n, from, ':', ':', colon);
    space(n, colon, next);
    return next;
}

/* The names that a schema of propertyNames allows. */
static enum pith_status names_allowed(struct pith_rules *r, const json_t *schema,
                                      struct pith_chars *out, struct pith_error *err)
{
    json_t *flat = NULL;
    PITH_TRY(pith_schema_flat(&r->schema, schema, &flat, err));
    const enum pith_status s = pith_rules_strings(r, flat, out, err);
    json_decref(flat);
    return s;
}

static enum pith_status matches(struct pith_rules *r, const char *pattern, const char *name,
                                bool *out, struct pith_error *err)
{
    struct pith_chars c = {0};
    PITH_TRY(pith_rules_pattern(r, pattern, &c, err));
    *out = pith_chars_has(&c, name);
    pith_chars_free(&c);
    return PITH_OK;
}

/* Adds `false` where the propertyNames of a layer do not allow a name. */
static enum pith_status refuse_name(struct pith_rules *r, const json_t *layer, const char *name,
                                    json_t *list, struct pith_error *err)
{
    const json_t *schema = json_object_get(layer, "propertyNames");
    struct pith_chars allowed = {0};
    if (!schema) return PITH_OK;
    PITH_TRY(names_allowed(r, schema, &allowed, err));
    if (!pith_chars_has(&allowed, name)) json_array_append_new(list, json_false());
    pith_chars_free(&allowed);
    return PITH_OK;
}

/* Adds what a layer says of the property of a name. */
static enum pith_status add_member(struct pith_rules *r, const json_t *layer, const char *name,
                                   json_t *list, struct pith_error *err)
{
    json_t *own = json_object_get(json_object_get(layer, "properties"), name),
           *others = json_object_get(layer, "additionalProperties"), *schema;
    const char *pattern;
    bool found = own != NULL;
    if (own) json_array_append(list, own);
    json_object_foreach (json_object_get(layer, "patternProperties"), pattern, schema) {
        bool match;
        PITH_TRY(matches(r, pattern, name, &match, err));
        if (match) json_array_append(list, schema);
        found = found || match;
    }
    if (!found && others) json_array_append(list, others);
    return refuse_name(r, layer, name, list, err);
}

enum pith_status pith_rules_member(struct pith_rules *r, const json_t *flat, const char *name,
                                   json_t **out, struct pith_error *err)
{
    const json_t *layers = json_object_get(flat, "layers");
    json_t *list = json_array();
    enum pith_status s = list ? PITH_OK : pith_fail_nomem(err, "schema");
    for (size_t i = 0; i < json_array_size(layers) && s == PITH_OK; i++)
        s = add_member(r, json_array_get(layers, i), name, list, err);
    if (s == PITH_OK) *out = list;
    else json_decref(list);
    return s;
}

static bool is_required(const json_t *flat, const char *name)
{
    const json_t *names = json_object_get(flat, "required");
    for (size_t i = 0; i < json_array_size(names); i++)
        if (strcmp(json_string_value(json_array_get(names, i)), name) == 0) return true;
    return false;
}

/* Adds the names that propertyNames of a layer list. */
static enum pith_status add_listed(struct pith_rules *r, const json_t *layer, json_t *names,
                                   struct pith_error *err)
{
    const json_t *schema = json_object_get(layer, "propertyNames");
    json_t *flat = NULL;
    if (!schema) return PITH_OK;
    PITH_TRY(pith_schema_flat(&r->schema, schema, &flat, err));
    const json_t *values = json_object_get(flat, "enum");
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *name = json_array_get(values, i);
        if (pith_schema_is_word(name))
            json_object_set_new(names, json_string_value(name), json_null());
    }
    json_decref(flat);
    return PITH_OK;
}

/* All names that the schema has, in order: null for each; listed: those of propertyNames too. */
static enum pith_status names_of(struct pith_rules *r, const json_t *flat, bool listed,
                                 json_t *names, struct pith_error *err)
{
    const json_t *layers = json_object_get(flat, "layers"),
                 *required = json_object_get(flat, "required");
    json_t *schema;
    const char *name;
    for (size_t i = 0; i < json_array_size(layers); i++)
        json_object_foreach (json_object_get(json_array_get(layers, i), "properties"), name, schema)
            json_object_set_new(names, name, json_null());
    for (size_t i = 0; i < json_array_size(required); i++)
        json_object_set_new(names, json_string_value(json_array_get(required, i)), json_null());
    for (size_t i = 0; i < json_array_size(layers) && listed; i++)
        PITH_TRY(add_listed(r, json_array_get(layers, i), names, err));
    return PITH_OK;
}

/* Goes on by one member, which leads from `start` to `end`: from each number of members to the
 * next, behind whose node the names that follow stand (to). */
static void add_member_ways(struct pith_rules *r, const struct object *o, uint32_t start,
                            uint32_t end, const uint32_t *to)
{
    struct pith_net *n = r->net;
    const bool counts = o->last > 1 || o->most;
    uint32_t rule = 0;
    if (counts) { /* written once, as a rule */
        rule = pith_net_add_rule(n);
        if (n->failed != PITH_OK) return;
        pith_net_empty(n, n->rule[rule].start, start);
        pith_net_empty(n, end, n->rule[rule].final);
    }
    for (size_t i = 0; i <= o->last && n->failed == PITH_OK; i++) {
        const size_t next = i == o->last ? i : i + 1;
        if (i == o->last && o->most) break;
        const uint32_t from = i ? behind_comma(n, o->at[i]) : o->at[i];
        if (counts) {
            pith_net_call(n, from, rule, to[next]);
        } else {
            pith_net_empty(n, from, start);
            if (i == 0) pith_net_empty(n, end, to[next]);
        }
    }
}

/* A property by its name; o goes on behind it. */
static enum pith_status add_named(struct pith_rules *r, struct object *o, const char *name,
                                  struct pith_error *err)
{
    struct pith_net *n = r->net;
    struct pith_str text = {0};
    json_t *list = NULL, *key = json_string(name);
    uint32_t rule = 0, *to = pith_alloc(o->last + 1, sizeof *to);
    enum pith_status s = key && to ? pith_schema_spend(&r->schema, o->required + o->last, err)
                                   : pith_fail_nomem(err, "schema");
    if (s == PITH_OK) s = pith_rules_member(r, o->flat, name, &list, err);
    if (s == PITH_OK) s = pith_rules_of(r, list, &rule, err);
    if (s == PITH_OK) {
        const uint32_t start = pith_net_add(n), colon = pith_net_add(n), end = pith_net_add(n);
        const bool may_lack = !is_required(o->flat, name);
        pith_json_dump(key, JSON_COMPACT | JSON_ENCODE_ANY, &text);
        if (text.failed) n->failed = PITH_NOMEM;
        pith_net_text(n, start, pith_str_text(&text), text.len, colon);
        pith_net_call(n, behind_colon(n, colon), rule, end);
        for (size_t i = 0; i <= o->last; i++) to[i] = pith_net_add(n);
        add_member_ways(r, o, start, end, to);
        for (size_t i = 0; i <= o->last && may_lack; i++) pith_net_empty(n, o->at[i], to[i]);
        memcpy(o->at, to, (o->last + 1) * sizeof *to);
    }
    json_decref(list);
    json_decref(key);
    pith_free(to);
    pith_str_free(&text);
    return s;
}

/* --- names that the schema does not have ------------------------------------------------------ */

struct patterns {
    const char *text[MOST_PATTERNS];
    struct pith_chars chars[MOST_PATTERNS];
    size_t count;
};

static enum pith_status find_patterns(struct pith_rules *r, const json_t *flat, struct patterns *p,
                                      struct pith_error *err)
{
    const json_t *layers = json_object_get(flat, "layers");
    const char *pattern;
    json_t *schema;
    for (size_t i = 0; i < json_array_size(layers); i++)
        json_object_foreach (json_object_get(json_array_get(layers, i), "patternProperties"),
                             pattern, schema) {
            size_t k = 0;
            while (k < p->count && strcmp(p->text[k], pattern) != 0) k++;
            if (k < p->count) continue;
            if (k == MOST_PATTERNS)
                return pith_fail(err, PITH_LIMIT, "schema: more than %d \"patternProperties\"",
                                 MOST_PATTERNS);
            p->text[p->count++] = pattern;
            PITH_TRY(pith_rules_pattern(r, pattern, &p->chars[k], err));
        }
    return PITH_OK;
}

/* The schemas of names that match just the patterns of a set. */
static json_t *schemas_of(const json_t *flat, const struct patterns *p, unsigned chosen)
{
    const json_t *layers = json_object_get(flat, "layers");
    json_t *list = json_array();
    for (size_t i = 0; i < json_array_size(layers) && list; i++) {
        const json_t *layer = json_array_get(layers, i);
        bool found = false;
        for (size_t k = 0; k < p->count; k++) {
            json_t *own = json_object_get(json_object_get(layer, "patternProperties"), p->text[k]);
            if (!own || !(chosen >> k & 1)) continue;
            json_array_append(list, own);
            found = true;
        }
        json_t *others = json_object_get(layer, "additionalProperties");
        if (!found && others) json_array_append(list, others);
    }
    return list;
}

/* Whether an object has the members that its schema names and no others: unless a layer says what
 * others are, naming some closes it. */
static bool is_closed(const json_t *flat)
{
    const json_t *layers = json_object_get(flat, "layers");
    bool names = false;
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *layer = json_array_get(layers, i);
        if (json_object_get(layer, "additionalProperties")) return false;
        names = names || json_object_get(layer, "properties") ||
                json_object_get(layer, "patternProperties");
    }
    return names;
}

/* Of names, those that the propertyNames of each layer allow. */
static enum pith_status allowed_names(struct pith_rules *r, const json_t *flat,
                                      struct pith_chars *names, struct pith_error *err)
{
    const json_t *layers = json_object_get(flat, "layers");
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *schema = json_object_get(json_array_get(layers, i), "propertyNames");
        struct pith_chars allowed = {0};
        if (!schema) continue;
        enum pith_status s = names_allowed(r, schema, &allowed, err);
        if (s == PITH_OK) s = pith_chars_sift(names, &allowed, true, err);
        pith_chars_free(&allowed);
        PITH_TRY(s);
    }
    return PITH_OK;
}

/* Names but those of the schema that match just the patterns of a set. */
static enum pith_status other_names(const json_t *named, const struct patterns *p, unsigned chosen,
                                    struct pith_chars *out, struct pith_error *err)
{
    const size_t count = json_object_size(named);
    const char **word = pith_alloc(count, sizeof *word);
    struct pith_chars known = {0};
    const char *name;
    json_t *value;
    size_t n = 0;
    if (!word) return pith_fail_nomem(err, "schema");
    json_object_foreach ((json_t *)named, name, value) word[n++] = name;
    enum pith_status s = pith_chars_length(0, PITH_CHARS_NO_LIMIT, out, err);
    if (s == PITH_OK && n) s = pith_chars_words(word, n, &known, err);
    if (s == PITH_OK && n) s = pith_chars_sift(out, &known, false, err);
    for (size_t k = 0; k < p->count && s == PITH_OK; k++)
        s = pith_chars_sift(out, &p->chars[k], chosen >> k & 1, err);
    pith_chars_free(&known);
    pith_free(word);
    return s;
}

/* Properties of other names, any number of them, each of a set's kind. */
static enum pith_status add_others(struct pith_rules *r, struct object *o, const json_t *named,
                                   const struct patterns *p, unsigned chosen,
                                   struct pith_error *err)
{
    struct pith_net *n = r->net;
    struct pith_chars names = {0};
    uint32_t rule = 0;
    json_t *list = schemas_of(o->flat, p, chosen), *flat = NULL;
    enum pith_status s = list ? pith_schema_flat_all(&r->schema, NULL, list, &flat, err)
                              : pith_fail_nomem(err, "schema");
    const bool possible = s == PITH_OK && pith_schema_types(flat) != 0;
    if (possible) s = other_names(named, p, chosen, &names, err);
    if (possible && s == PITH_OK) s = allowed_names(r, o->flat, &names, err);
    if (possible && s == PITH_OK && pith_chars_any(&names)) {
        s = pith_rules_of(r, list, &rule, err);
        const uint32_t start = pith_net_add(n), first = pith_net_add(n), last = pith_net_add(n),
                       colon = pith_net_add(n), end = pith_net_add(n);
        pith_net_bytes(n, start, '"', '"', first);
        pith_net_chars(n, first, &names, true, last);
        pith_net_bytes(n, last, '"', '"', colon);
        pith_net_call(n, behind_colon(n, colon), rule, end);
        add_member_ways(r, o, start, end, o->at);
        o->others = true;
    }
    pith_chars_free(&names);
    json_decref(list);
    json_decref(flat);
    return s;
}

/* What counts the members of an object: numbers that its names keep anyway do not. only: it has no
 * others than these names. */
static enum pith_status start_object(struct pith_rules *r, struct object *o, const json_t *names,
                                     bool only, struct pith_error *err)
{
    const json_t *most = json_object_get(o->flat, "maxProperties");
    const size_t max = (size_t)json_integer_value(most);
    if (o->min <= o->required) o->min = 0;
    o->most = most && (!only || max < json_object_size(names));
    o->last = o->min > 1 ? o->min : 1;
    if (o->most) o->last = max;
    if (o->most && o->min > max) o->min = max + 1; /* never reached */
    PITH_TRY(pith_schema_spend(&r->schema, o->last, err));
    if (o->last > PITH_NET_MOST)
        return pith_fail(err, PITH_LIMIT, "schema: \"%sProperties\" is too large",
                         o->most ? "max" : "min");
    o->at = pith_alloc(o->last + 1, sizeof *o->at);
    if (!o->at) return pith_fail_nomem(err, "schema");
    for (size_t i = 0; i <= o->last; i++) o->at[i] = pith_net_add(r->net);
    return PITH_OK;
}

/* Names that are open may come twice, so that of many it is unknown how many differ. */
static enum pith_status end_object(struct pith_rules *r, const struct object *o,
                                   const struct pith_net_rule *at, struct pith_error *err)
{
    if (o->others && o->min > o->required + 1)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "schema: \"minProperties\" of more than what is required and one more, "
                         "with names that are not listed, is not supported");
    for (size_t i = o->min; i <= o->last; i++)
        pith_net_bytes(r->net, o->at[i], '}', '}', at->final);
    return PITH_OK;
}

enum pith_status pith_rules_object(struct pith_rules *r, const json_t *flat,
                                   const struct pith_net_rule *at, struct pith_error *err)
{
    struct object o = {.flat = flat};
    struct patterns p = {.count = 0};
    json_t *names = json_object(), *value;
    const char *name;
    o.required = json_array_size(json_object_get(flat, "required"));
    o.min = (size_t)json_integer_value(json_object_get(flat, "minProperties"));
    const bool closed = is_closed(flat), listed = !closed && o.min > o.required + 1;
    enum pith_status s = names ? find_patterns(r, flat, &p, err) : pith_fail_nomem(err, "schema");
    if (s == PITH_OK) s = names_of(r, flat, listed, names, err);
    if (s == PITH_OK) s = start_object(r, &o, names, closed && p.count == 0, err);
    if (s == PITH_OK) pith_net_bytes(r->net, at->start, '{', '{', o.at[0]);
    if (s == PITH_OK)
        json_object_foreach (names, name, value) {
            s = add_named(r, &o, name, err);
            if (s != PITH_OK) break;
        }
    for (unsigned chosen = closed; s == PITH_OK && chosen < 1u << p.count; chosen++)
        s = add_others(r, &o, names, &p, chosen, err);
    if (s == PITH_OK) s = end_object(r, &o, at, err);
    for (size_t k = 0; k < p.count; k++) pith_chars_free(&p.chars[k]);
    pith_free(o.at);
    json_decref(names);
    return s;
}

/* --- arrays ----------------------------------------------------------------------------------- */

/* The schemas of item i; beyond all that are named one by one: of the others. */
static json_t *schemas_of_item(const json_t *flat, size_t i)
{
    const json_t *tuples = json_object_get(flat, "tuples");
    json_t *list = json_array();
    for (size_t k = 0; k < json_array_size(tuples) && list; k++) {
        const json_t *tuple = json_array_get(tuples, k);
        json_t *own = json_array_get(json_object_get(tuple, "prefixItems"), i);
        if (!own) own = json_object_get(tuple, "items");
        if (own) json_array_append(list, own);
    }
    return list;
}

/* The rule of item i; *none: there can be no such item. */
static enum pith_status item_rule(struct pith_rules *r, const json_t *flat, size_t i, bool *none,
                                  uint32_t *rule, struct pith_error *err)
{
    json_t *list = schemas_of_item(flat, i), *item = NULL;
    enum pith_status s = list ? pith_schema_flat_all(&r->schema, NULL, list, &item, err)
                              : pith_fail_nomem(err, "schema");
    *none = s == PITH_OK && pith_schema_types(item) == 0;
    if (s == PITH_OK && !*none) s = pith_rules_of(r, list, rule, err);
    json_decref(list);
    json_decref(item);
    return s;
}

static size_t longest_prefix(const json_t *flat)
{
    const json_t *tuples = json_object_get(flat, "tuples");
    size_t longest = 0;
    for (size_t k = 0; k < json_array_size(tuples); k++) {
        const size_t n = json_array_size(json_object_get(json_array_get(tuples, k), "prefixItems"));
        if (n > longest) longest = n;
    }
    return longest;
}

/* Lists of different items, which are few values: a node is the set of those that are in it. */
static enum pith_status add_sets(struct pith_rules *r, const json_t *flat, const json_t *values,
                                 const struct pith_net_rule *at, struct pith_error *err)
{
    struct pith_net *n = r->net;
    const json_t *most = json_object_get(flat, "maxItems");
    const size_t min = (size_t)json_integer_value(json_object_get(flat, "minItems")),
                 max = most ? (size_t)json_integer_value(most) : SIZE_MAX,
                 count = json_array_size(values), sets = (size_t)1 << count;
    uint32_t rule[PITH_VALUES_MOST], *node = pith_zalloc(sets, sizeof *node);
    enum pith_status s = node ? pith_schema_spend(&r->schema, sets * count, err)
                              : pith_fail_nomem(err, "schema");
    for (size_t i = 0; i < count && s == PITH_OK; i++)
        s = pith_rules_value(r, json_array_get(values, i), &rule[i], err);
    for (size_t set = 0; set < sets && s == PITH_OK; set++) {
        size_t has = 0;
        for (size_t i = 0; i < count; i++) has += set >> i & 1;
        if (has > max || n->failed != PITH_OK) continue;
        if (!node[set]) node[set] = pith_net_add(n); /* of none: others lead to it */
        if (set == 0) pith_net_bytes(n, at->start, '[', '[', node[set]);
        if (has >= min) pith_net_bytes(n, node[set], ']', ']', at->final);
        if (has == max || has == count) continue;
        const uint32_t from = set ? behind_comma(n, node[set]) : node[set];
        for (size_t i = 0; i < count; i++) {
            uint32_t *to = &node[set | (size_t)1 << i];
            if (set >> i & 1) continue;
            if (!*to) *to = pith_net_add(n);
            pith_net_call(n, from, rule[i], *to);
        }
    }
    pith_free(node);
    return s;
}

/* Whether items have to differ and are few values, and such lists were added. */
static enum pith_status add_unique(struct pith_rules *r, const json_t *flat,
                                   const struct pith_net_rule *at, bool *done,
                                   struct pith_error *err)
{
    json_t *list = NULL, *item = NULL, *values = NULL;
    enum pith_status s = PITH_OK;
    if (!json_object_get(flat, "unique") || longest_prefix(flat)) return PITH_OK;
    list = schemas_of_item(flat, 0);
    values = json_array();
    if (!list || !values) s = pith_fail_nomem(err, "schema");
    if (s == PITH_OK) s = pith_schema_flat_all(&r->schema, NULL, list, &item, err);
    if (s == PITH_OK) s = pith_rules_values(r, item, values, done, err);
    if (s == PITH_OK && *done) s = add_sets(r, flat, values, at, err);
    json_decref(list);
    json_decref(item);
    json_decref(values);
    return s;
}

enum pith_status pith_rules_array(struct pith_rules *r, const json_t *flat,
                                  const struct pith_net_rule *at, struct pith_error *err)
{
    struct pith_net *n = r->net;
    bool done = false;
    PITH_TRY(add_unique(r, flat, at, &done, err));
    if (done) return PITH_OK;
    const json_t *most = json_object_get(flat, "maxItems");
    const size_t min = (size_t)json_integer_value(json_object_get(flat, "minItems")),
                 max = most ? (size_t)json_integer_value(most) : SIZE_MAX,
                 prefix = longest_prefix(flat);
    uint32_t here = pith_net_add(n), rule = 0;
    pith_net_bytes(n, at->start, '[', '[', here);
    for (size_t i = 0; n->failed == PITH_OK; i++) {
        bool none = false;
        if (i >= min) pith_net_bytes(n, here, ']', ']', at->final);
        if (i == max) break;
        if (i <= prefix) PITH_TRY(item_rule(r, flat, i, &none, &rule, err));
        if (none) break;
        const uint32_t next = pith_net_add(n);
        pith_net_call(n, i ? behind_comma(n, here) : here, rule, next);
        here = next;
        if (max == SIZE_MAX && i >= prefix && i + 1 >= min) {
            pith_net_bytes(n, here, ']', ']', at->final);
            pith_net_call(n, behind_comma(n, here), rule, here);
            break;
        }
    }
    return PITH_OK;
}
