/* Answers that are calls of functions between marks, or else of another form. */
#include "serve/grammar/build.h"

#include "base/json.h"

#include <string.h>

static enum pith_status wrong(struct pith_error *err, const char *key)
{
    return pith_fail(err, PITH_FORMAT, "calls: '%s' is missing, or not what it must be", key);
}

/* The other form: {"kind", "text"}. */
static enum pith_status build_else(struct pith_net *n, const json_t *other, uint32_t *rule,
                                   struct pith_error *err)
{
    static const struct {
        const char *name;
        enum pith_constraint kind;
    } kinds[] = {{"json", PITH_JSON}, {"schema", PITH_SCHEMA}, {"expression", PITH_EXPRESSION}};
    const char *name = json_string_value(json_object_get(other, "kind"));
    for (size_t i = 0; name && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(name, kinds[i].name) == 0)
            return pith_grammar_build(n, kinds[i].kind,
                                      json_string_value(json_object_get(other, "text")), rule, err);
    return wrong(err, "else");
}

static void add_text(struct pith_net *n, uint32_t from, const char *text, uint32_t to)
{
    const size_t size = text ? strlen(text) : 0;
    if (size > 0) pith_net_text(n, from, text, size, to);
    else pith_net_empty(n, from, to);
}

static enum pith_status build(struct pith_net *n, const json_t *j, uint32_t *root,
                              struct pith_error *err)
{
    const json_t *other = json_object_get(j, "else");
    const char *call = json_string_value(json_object_get(j, "call")),
               *open = json_string_value(json_object_get(j, "open")),
               *close = json_string_value(json_object_get(j, "close"));
    uint32_t one = 0, instead = 0;
    if (!call) return wrong(err, "call");
    PITH_TRY(pith_grammar_build(n, PITH_SCHEMA, call, &one, err));
    if (other) PITH_TRY(build_else(n, other, &instead, err));
    *root = pith_net_add_rule(n);
    if (n->failed != PITH_OK) return PITH_OK; /* reported when the network is finished */
    const uint32_t start = n->rule[*root].start, final = n->rule[*root].final;
    const uint32_t opened = pith_net_add(n), called = pith_net_add(n), closed = pith_net_add(n);
    add_text(n, start, open, opened);
    pith_net_call(n, opened, one, called);
    add_text(n, called, close, closed);
    pith_net_empty(n, closed, final);
    if (json_is_true(json_object_get(j, "many"))) {
        const uint32_t next = pith_net_add(n);
        pith_net_text(n, closed, "\n", 1, next);
        add_text(n, next, open, opened);
    }
    if (other) pith_net_call(n, start, instead, final);
    return PITH_OK;
}

enum pith_status pith_grammar_calls(struct pith_net *n, const char *text, uint32_t *root,
                                    struct pith_error *err)
{
    json_t *j = NULL;
    PITH_TRY(pith_json_parse(text, strlen(text), "calls", &j, err));
    const enum pith_status s = build(n, j, root, err);
    json_decref(j);
    return s;
}
