/* The JSON of a report: what has a key. */
#include "report/report.h"

/* A value as it stands in a tree, a new reference; NULL when memory is out. */
static json_t *value_of(const struct pith_report *r, const struct pith_report_item *n)
{
    switch (n->value.kind) {
    case PITH_VALUE_WHOLE: return json_integer((json_int_t)n->value.whole);
    case PITH_VALUE_REAL:
    case PITH_VALUE_SHARE: return pith_json_finite(n->value.real);
    case PITH_VALUE_TEXT: return pith_json_name(pith_report_at(r, n->text));
    case PITH_VALUE_YES: return json_boolean(n->value.whole != 0);
    case PITH_VALUE_TREE: return json_incref(n->value.tree);
    default: return json_null();
    }
}

/* Sets a member, or appends to a list. */
static void put(json_t **to, const char *key, json_t *value)
{
    if (json_is_array(*to)) pith_json_add(to, value);
    else pith_json_set(to, key, value);
}

static json_t *build(const struct pith_report *r, size_t *at, bool list)
{
    json_t *all = list ? json_array() : json_object();
    for (; *at < r->count && r->item[*at].kind != PITH_REPORT_CLOSE; ++*at) {
        const struct pith_report_item *n = &r->item[*at];
        const char *key = pith_report_at(r, n->key);
        if (!key) continue; /* text alone */
        if (n->kind == PITH_REPORT_ROW) {
            put(&all, key, value_of(r, n));
        } else {
            ++*at;
            put(&all, key, build(r, at, n->kind == PITH_REPORT_LIST));
        }
    }
    return all;
}

json_t *pith_report_tree(const struct pith_report *r)
{
    size_t at = 0;
    return !r || r->failed ? NULL : build(r, &at, r->listed);
}
