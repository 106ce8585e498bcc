#include "serve/grammar/build.h"

#include "serve/grammar/chars.h"
#include "serve/grammar/rules.h"

#include <string.h>

/* Bytes of a schema, or of an expression, at most. */
#define MOST_TEXT ((size_t)1 << 20)

/* A schema may be true or false. */
static enum pith_status read_schema(const char *text, json_t **out, struct pith_error *err)
{
    return pith_json_read(text, strlen(text), PITH_JSON_ANY, "schema", out, err);
}

static enum pith_status build_schema(struct pith_net *n, const char *text, uint32_t *root,
                                     struct pith_error *err)
{
    json_t *schema = NULL, *list = NULL;
    struct pith_rules r = {.net = n, .known = json_object()};
    enum pith_status s = r.known ? PITH_OK : pith_fail_nomem(err, "schema");
    if (s == PITH_OK) s = read_schema(text, &schema, err);
    if (s == PITH_OK) s = pith_schema_check(schema, err);
    r.schema.root = schema;
    list = schema ? json_pack("[O]", schema) : NULL;
    if (s == PITH_OK && !list) s = pith_fail_nomem(err, "schema");
    if (s == PITH_OK) s = pith_rules_of(&r, list, root, err);
    json_decref(list);
    json_decref(schema);
    json_decref(r.known);
    return s;
}

static enum pith_status build_expression(struct pith_net *n, const char *text, uint32_t *root,
                                         struct pith_error *err)
{
    struct pith_chars chars = {0};
    PITH_TRY(pith_chars_regex(text, false, &chars, err));
    *root = pith_net_add_rule(n);
    if (n->failed == PITH_OK)
        pith_net_chars(n, n->rule[*root].start, &chars, false, n->rule[*root].final);
    pith_chars_free(&chars);
    return PITH_OK;
}

enum pith_status pith_grammar_build(struct pith_net *n, enum pith_constraint kind, const char *text,
                                    uint32_t *root, struct pith_error *err)
{
    if (kind == PITH_JSON) return build_schema(n, "{\"type\":\"object\"}", root, err);
    if (!text) return pith_fail(err, PITH_ARG, "a constraint without its text");
    if (strlen(text) > MOST_TEXT)
        return pith_fail(err, PITH_LIMIT, "a constraint of more than %zu bytes", MOST_TEXT);
    if (kind == PITH_SCHEMA) return build_schema(n, text, root, err);
    if (kind == PITH_EXPRESSION) return build_expression(n, text, root, err);
    if (kind == PITH_CALLS) return pith_grammar_calls(n, text, root, err);
    return pith_fail(err, PITH_ARG, "no such constraint");
}
