#include "serve/grammar_rules.h"

#include "base/mem.h"
#include "serve/grammar_number.h"

#include <stdio.h>
#include <stdlib.h>

/* --- scalars -------------------------------------------------------------------------------------
 */

/* The strongest of a list of bounds; sign -1: of lower ones, 1: of upper ones. */
static enum pith_status bound_of(const json_t *list, int sign, struct pith_bound *out,
                                 struct pith_error *err)
{
    *out = (struct pith_bound){.set = false};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);
        struct pith_bound b;
        PITH_TRY(pith_bound_read(json_array_get(pair, 0), json_is_true(json_array_get(pair, 1)), &b,
                                 err));
        struct pith_bound x = b, y = *out;
        x.exclusive = y.exclusive = false;
        const int c = pith_bound_compare(&x, &y) * sign;
        if (!out->set || c < 0 || (c == 0 && b.exclusive)) *out = b;
    }
    return PITH_OK;
}

enum pith_status pith_rules_number(struct pith_rules *r, const json_t *flat,
                                   const struct pith_net_rule *at, struct pith_error *err)
{
    struct pith_bound lo, hi;
    PITH_TRY(bound_of(json_object_get(flat, "minimum"), -1, &lo, err));
    PITH_TRY(bound_of(json_object_get(flat, "maximum"), 1, &hi, err));
    if (hi.huge && hi.set && !hi.negative) hi.set = false;
    if (lo.huge && lo.set && lo.negative) lo.set = false;
    const bool integer = !(pith_schema_types(flat) & PITH_TYPE_FRACTION);
    pith_net_number(r->net, at->start, integer, &lo, &hi, at->final);
    return PITH_OK;
}

/* --- values --------------------------------------------------------------------------------------
 */

static void dump_real(double value, struct pith_str *out)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    pith_str_puts(out, text);
}

/* A value as it is written: without spaces, numbers in their shortest form. */
static void dump(const json_t *value, struct pith_str *out)
{
    const char *key;
    json_t *member;
    size_t n = 0;
    if (pith_json_marked_text(value)) {
        pith_str_puts(out, pith_json_marked_text(value));
        return;
    }
    switch (json_typeof(value)) {
    case JSON_REAL: dump_real(json_real_value(value), out); return;
    case JSON_ARRAY:
        pith_str_putc(out, '[');
        for (; n < json_array_size(value); n++) {
            if (n) pith_str_putc(out, ',');
            dump(json_array_get(value, n), out);
        }
        pith_str_putc(out, ']');
        return;
    case JSON_OBJECT:
        pith_str_putc(out, '{');
        json_object_foreach ((json_t *)value, key, member) {
            json_t *name = json_string(key);
            if (n++) pith_str_putc(out, ',');
            pith_json_dump(name, JSON_COMPACT | JSON_ENCODE_ANY, out);
            if (!name) out->failed = true;
            json_decref(name);
            pith_str_putc(out, ':');
            dump(member, out);
        }
        pith_str_putc(out, '}');
        return;
    default: pith_json_dump(value, JSON_COMPACT | JSON_ENCODE_ANY, out);
    }
}

static enum pith_status add_values(struct pith_rules *r, const json_t *flat,
                                   const struct pith_net_rule *at, struct pith_error *err)
{
    const json_t *values = json_object_get(flat, "enum");
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *value = json_array_get(values, i);
        struct pith_str text = {0};
        bool holds;
        PITH_TRY(pith_schema_spend(&r->schema, i, err)); /* it is looked for */
        PITH_TRY(pith_rules_holds(r, flat, value, &holds, err));
        if (!holds) continue;
        dump(value, &text);
        if (text.failed) r->net->failed = PITH_NOMEM;
        else pith_net_text(r->net, at->start, text.data, text.len, at->final);
        pith_str_free(&text);
    }
    return PITH_OK;
}

/* --- rules ---------------------------------------------------------------------------------------
 */

static enum pith_status rule_of_flat(struct pith_rules *r, const json_t *flat, uint32_t *rule,
                                     struct pith_error *err);

/* One of each list of alternatives holds: a rule for each of the first list's, which has the others
 * still before it. */
static enum pith_status add_alternatives(struct pith_rules *r, const json_t *flat,
                                         const struct pith_net_rule *at, struct pith_error *err)
{
    const json_t *any = json_object_get(flat, "any"), *first = json_array_get(any, 0);
    json_t *rest = json_deep_copy(flat);
    json_t *lists = json_object_get(rest, "any");
    enum pith_status s = rest ? PITH_OK : pith_fail_nomem(err, "schema");
    if (json_array_size(lists) > 1) json_array_remove(lists, 0);
    else json_object_del(rest, "any");
    for (size_t i = 0; i < json_array_size(first) && s == PITH_OK; i++) {
        json_t *one = json_pack("[O]", json_array_get(first, i)), *both = NULL;
        uint32_t rule = 0;
        s = one ? pith_schema_flat_all(&r->schema, rest, one, &both, err)
                : pith_fail_nomem(err, "schema");
        if (s == PITH_OK) s = rule_of_flat(r, both, &rule, err);
        if (s == PITH_OK) pith_net_call(r->net, at->start, rule, at->final);
        json_decref(one);
        json_decref(both);
    }
    json_decref(rest);
    return s;
}

static enum pith_status write_rule(struct pith_rules *r, const json_t *flat,
                                   const struct pith_net_rule *at, struct pith_error *err)
{
    const int types = pith_schema_types(flat);
    if (json_array_size(json_object_get(flat, "any"))) return add_alternatives(r, flat, at, err);
    if (json_object_get(flat, "enum")) return add_values(r, flat, at, err);
    if (types & PITH_TYPE_NULL) pith_net_text(r->net, at->start, "null", 4, at->final);
    if (types & PITH_TYPE_BOOL) {
        pith_net_text(r->net, at->start, "true", 4, at->final);
        pith_net_text(r->net, at->start, "false", 5, at->final);
    }
    if (types & PITH_TYPE_INTEGER) PITH_TRY(pith_rules_number(r, flat, at, err));
    if (types & PITH_TYPE_STRING) PITH_TRY(pith_rules_string(r, flat, at, err));
    if (types & PITH_TYPE_ARRAY) PITH_TRY(pith_rules_array(r, flat, at, err));
    return types & PITH_TYPE_OBJECT ? pith_rules_object(r, flat, at, err) : PITH_OK;
}

static enum pith_status rule_of_flat(struct pith_rules *r, const json_t *flat, uint32_t *rule,
                                     struct pith_error *err)
{
    struct pith_str text = {0};
    pith_json_dump(flat, JSON_COMPACT, &text);
    const json_t *known = text.failed ? NULL : json_object_get(r->known, pith_str_text(&text));
    enum pith_status s = text.failed ? pith_fail_nomem(err, "schema") : PITH_OK;
    if (s == PITH_OK) s = pith_schema_spend(&r->schema, text.len * 8, err); /* copied, compared */
    if (s == PITH_OK && known) {
        *rule = (uint32_t)json_integer_value(known);
    } else if (s == PITH_OK) {
        *rule = pith_net_add_rule(r->net);
        if (json_object_set_new(r->known, text.data, json_integer(*rule)) != 0)
            s = pith_fail_nomem(err, "schema");
        else if (++r->depth > PITH_SCHEMA_DEPTH)
            s = pith_fail(err, PITH_LIMIT, "schema: it is nested too deep");
        else if (r->net->failed == PITH_OK) {
            const struct pith_net_rule at = r->net->rule[*rule];
            s = write_rule(r, flat, &at, err);
        }
        r->depth--;
    }
    pith_str_free(&text);
    return s;
}

enum pith_status pith_rules_of(struct pith_rules *r, const json_t *list, uint32_t *rule,
                               struct pith_error *err)
{
    json_t *flat = NULL;
    PITH_TRY(pith_schema_flat_all(&r->schema, NULL, list, &flat, err));
    const enum pith_status s = rule_of_flat(r, flat, rule, err);
    json_decref(flat);
    return s;
}
