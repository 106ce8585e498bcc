#include "serve/grammar/rules.h"

#include "base/mem.h"
#include "serve/grammar/multiple.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- scalars ---------------------------------------------------------------------------------- */

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

/* The step of a list of them. */
static enum pith_status step_of(struct pith_rules *r, const json_t *list,
                                struct pith_number_set *of, struct pith_error *err)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        struct pith_number_step one;
        PITH_TRY(pith_step_read(json_array_get(list, i), &one, err));
        PITH_TRY(pith_step_both(&of->step, &one, err));
    }
    if (!of->step.units) return PITH_OK;
    if (!pith_multiples_fit(of))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "schema: a \"multipleOf\" that leaves too many rests");
    return pith_schema_spend(&r->schema, 4096, err);
}

/* Numbers but those that do not hold: what lies between these, one by one. */
static enum pith_status numbers_but(struct pith_rules *r, const json_t *flat,
                                    const struct pith_number_set *of,
                                    const struct pith_net_rule *at, struct pith_error *err)
{
    const json_t *except = json_object_get(flat, "except");
    const struct pith_bound end = of->hi;
    struct pith_number_set part = *of;
    for (;;) {
        struct pith_bound next = {.set = false};
        for (size_t i = 0; i < json_array_size(except); i++) {
            const json_t *value = json_array_get(except, i);
            struct pith_bound b;
            if (!json_is_number(value)) continue;
            PITH_TRY(pith_schema_spend(&r->schema, 1, err));
            PITH_TRY(pith_bound_read(value, true, &b, err));
            const bool below = part.lo.set && pith_bound_compare(&b, &part.lo) <= 0,
                       above = end.set && pith_bound_compare(&b, &end) > 0;
            if (b.huge || below || above) continue;
            if (!next.set || pith_bound_compare(&b, &next) < 0) next = b;
        }
        part.hi = next.set ? next : end;
        pith_net_number(r->net, at->start, &part, at->final);
        if (!next.set || r->net->failed != PITH_OK) return PITH_OK;
        part.lo = next;
    }
}

static enum pith_status rules_number(struct pith_rules *r, const json_t *flat,
                                     const struct pith_net_rule *at, struct pith_error *err)
{
    struct pith_number_set of = {.integer = !(pith_schema_types(flat) & PITH_TYPE_FRACTION)};
    struct pith_bound *lo = &of.lo, *hi = &of.hi;
    if (!(pith_schema_types(flat) & PITH_TYPE_INTEGER))
        return pith_fail(err, PITH_UNSUPPORTED, "schema: \"not\" of \"integer\" is not supported");
    PITH_TRY(bound_of(json_object_get(flat, "minimum"), -1, lo, err));
    PITH_TRY(bound_of(json_object_get(flat, "maximum"), 1, hi, err));
    if (hi->huge && hi->set && !hi->negative) hi->set = false;
    if (lo->huge && lo->set && lo->negative) lo->set = false;
    PITH_TRY(step_of(r, json_object_get(flat, "multipleOf"), &of, err));
    return numbers_but(r, flat, &of, at, err);
}

/* --- values ----------------------------------------------------------------------------------- */

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

static void add_value(struct pith_rules *r, const json_t *value, const struct pith_net_rule *at)
{
    struct pith_str text = {0};
    dump(value, &text);
    if (text.failed) r->net->failed = PITH_NOMEM;
    else pith_net_text(r->net, at->start, text.data, text.len, at->final);
    pith_str_free(&text);
}

static enum pith_status add_values(struct pith_rules *r, const json_t *flat,
                                   const struct pith_net_rule *at, struct pith_error *err)
{
    const json_t *values = json_object_get(flat, "enum");
    for (size_t i = 0; i < json_array_size(values); i++) {
        const json_t *value = json_array_get(values, i);
        bool holds;
        PITH_TRY(pith_schema_spend(&r->schema, i, err)); /* it is looked for */
        PITH_TRY(pith_rules_holds(r, flat, value, &holds, err));
        if (holds) add_value(r, value, at);
    }
    return PITH_OK;
}

enum pith_status pith_rules_value(struct pith_rules *r, const json_t *value, uint32_t *rule,
                                  struct pith_error *err)
{
    *rule = pith_net_add_rule(r->net);
    if (r->net->failed != PITH_OK) return PITH_OK;
    const struct pith_net_rule at = r->net->rule[*rule];
    add_value(r, value, &at);
    return pith_schema_spend(&r->schema, 1, err);
}

/* --- rules ------------------------------------------------------------------------------------ */

static enum pith_status rule_of_flat(struct pith_rules *r, const json_t *flat, uint32_t *rule,
                                     struct pith_error *err);

/* One of each list of alternatives holds: a rule for each of the first list's, which has the others
 * still before it. */
static enum pith_status add_alternatives(struct pith_rules *r, const json_t *flat,
                                         const struct pith_net_rule *at, struct pith_error *err)
{
    const json_t *any = json_object_get(flat, "any"), *first = json_array_get(any, 0);
    json_t *rest = pith_schema_rest(flat);
    enum pith_status s = rest ? PITH_OK : pith_fail_nomem(err, "schema");
    for (size_t i = 0; i < json_array_size(first) && s == PITH_OK; i++) {
        json_t *both = NULL;
        uint32_t rule = 0;
        s = pith_schema_flat_with(&r->schema, rest, json_array_get(first, i), &both, err);
        if (s == PITH_OK) s = rule_of_flat(r, both, &rule, err);
        if (s == PITH_OK) pith_net_call(r->net, at->start, rule, at->final);
        json_decref(both);
    }
    json_decref(rest);
    return s;
}

/* null, true and false, but those that do not hold. */
static void add_words(struct pith_rules *r, const json_t *flat, const struct pith_net_rule *at)
{
    const json_t *except = json_object_get(flat, "except");
    const struct {
        json_t *value;
        int type;
        const char *text;
    } words[] = {{json_null(), PITH_TYPE_NULL, "null"},
                 {json_true(), PITH_TYPE_BOOL, "true"},
                 {json_false(), PITH_TYPE_BOOL, "false"}};
    for (size_t i = 0; i < PITH_COUNT(words); i++)
        if (words[i].type & pith_schema_types(flat) && !pith_schema_lists(except, words[i].value))
            pith_net_text(r->net, at->start, words[i].text, strlen(words[i].text), at->final);
}

static enum pith_status write_rule(struct pith_rules *r, const json_t *flat,
                                   const struct pith_net_rule *at, struct pith_error *err)
{
    const json_t *except = json_object_get(flat, "except");
    const int types = pith_schema_types(flat), parts = PITH_TYPE_ARRAY | PITH_TYPE_OBJECT;
    if (json_array_size(json_object_get(flat, "any"))) return add_alternatives(r, flat, at, err);
    if (json_object_get(flat, "enum")) return add_values(r, flat, at, err);
    for (size_t i = 0; i < json_array_size(except); i++)
        if (pith_schema_type_of(json_array_get(except, i)) & types & parts)
            return pith_fail(err, PITH_UNSUPPORTED,
                             "schema: \"not\" of a list or an object is not supported");
    add_words(r, flat, at);
    if (types & (PITH_TYPE_INTEGER | PITH_TYPE_FRACTION)) PITH_TRY(rules_number(r, flat, at, err));
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
