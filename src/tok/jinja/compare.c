/* Truth, equality, order and length of values, as Python has them. */
#include "tok/jinja/text.h"

#include "tok/unicode/utf8.h"

#include <math.h>
#include <string.h>

double pith_jreal(struct pith_jv v)
{
    return v.kind == PITH_J_FLOAT ? v.u.d : v.kind == PITH_J_BOOL ? (double)v.u.b : (double)v.u.i;
}

bool pith_jinteger(struct pith_jv v, int64_t *out)
{
    if (v.kind == PITH_J_BOOL) *out = v.u.b;
    else if (v.kind == PITH_J_INT) *out = v.u.i;
    else return false;
    return true;
}

const char *pith_jtype(struct pith_jv v)
{
    static const char *const names[] = {
        [PITH_J_MISSING] = "Undefined", [PITH_J_UNDEFINED] = "Undefined",
        [PITH_J_NONE] = "NoneType",     [PITH_J_BOOL] = "bool",
        [PITH_J_INT] = "int",           [PITH_J_FLOAT] = "float",
        [PITH_J_BIG] = "int",           [PITH_J_STRING] = "str",        [PITH_J_LIST] = "list",
        [PITH_J_TUPLE] = "tuple",       [PITH_J_RANGE] = "range",
        [PITH_J_VIEW] = "dict_view",    [PITH_J_ITERATOR] = "generator",
        [PITH_J_DICT] = "dict",         [PITH_J_NAMESPACE] = "TemplateNamespace",
        [PITH_J_LOOP] = "LoopContext",  [PITH_J_MACRO] = "Macro",
        [PITH_J_CALLABLE] = "function",
    };
    if (v.kind == PITH_J_VIEW && v.u.list->view) return v.u.list->view;
    return v.kind == PITH_J_STRING && v.u.s->safe ? "Markup" : names[v.kind];
}

bool pith_jtrue(struct pith_jv v)
{
    switch (v.kind) {
    case PITH_J_MISSING:
    case PITH_J_UNDEFINED:
    case PITH_J_NONE: return false;
    case PITH_J_BOOL: return v.u.b;
    case PITH_J_INT: return v.u.i != 0;
    case PITH_J_FLOAT: return v.u.d != 0;
    case PITH_J_STRING: return v.u.s->len > 0;
    case PITH_J_LIST:
    case PITH_J_TUPLE:
    case PITH_J_RANGE:
    case PITH_J_VIEW: return v.u.list->count > 0;
    case PITH_J_DICT: return v.u.dict->count > 0;
    case PITH_J_ITERATOR:
    case PITH_J_NAMESPACE:
    case PITH_J_LOOP:
    case PITH_J_MACRO:
    case PITH_J_CALLABLE:
    case PITH_J_BIG: return true;
    }
    return true;
}

static bool same_lists(struct pith_jrun *r, const struct pith_jlist *a, const struct pith_jlist *b)
{
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++)
        if (!pith_jequal(r, a->item[i], b->item[i])) return false;
    return true;
}

static bool same_dicts(struct pith_jrun *r, const struct pith_jdict *a, const struct pith_jdict *b)
{
    if (a->count != b->count) return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct pith_jpair *p = pith_jdict_find(r, b, a->pair[i].key);
        if (!p || !pith_jequal(r, a->pair[i].value, p->value)) return false;
    }
    return true;
}

static bool same(struct pith_jrun *r, struct pith_jv a, struct pith_jv b)
{
    int64_t i, j;
    if (pith_jinteger(a, &i) && pith_jinteger(b, &j)) return i == j;
    if (pith_jis_number(a) && pith_jis_number(b))
        return !(pith_jreal(a) < pith_jreal(b)) && !(pith_jreal(a) > pith_jreal(b));
    if (a.kind != b.kind) return false;
    switch (a.kind) {
    case PITH_J_BIG:
    case PITH_J_STRING:
        return a.u.s->len == b.u.s->len && memcmp(a.u.s->s, b.u.s->s, a.u.s->len) == 0;
    case PITH_J_LIST:
    case PITH_J_TUPLE:
    case PITH_J_RANGE: return same_lists(r, a.u.list, b.u.list);
    case PITH_J_DICT: return same_dicts(r, a.u.dict, b.u.dict);
    case PITH_J_MISSING:
    case PITH_J_UNDEFINED:
    case PITH_J_NONE: return true;
    default: return (const void *)a.u.list == (const void *)b.u.list;
    }
}

bool pith_jequal(struct pith_jrun *r, struct pith_jv a, struct pith_jv b)
{
    if (!pith_jstep(r, 1) || !pith_jdeeper(r)) return false;
    const bool equal = same(r, a, b);
    r->depth--;
    return equal;
}

static int text_order(const struct pith_jstr *a, const struct pith_jstr *b)
{
    const size_t n = a->len < b->len ? a->len : b->len;
    const int order = n ? memcmp(a->s, b->s, n) : 0; /* UTF-8 sorts as code points do */
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

static int list_order(struct pith_jrun *r, const struct pith_jlist *a, const struct pith_jlist *b)
{
    for (size_t i = 0; i < a->count && i < b->count; i++)
        if (!pith_jequal(r, a->item[i], b->item[i]))
            return pith_jcompare(r, a->item[i], b->item[i]);
    return (a->count > b->count) - (a->count < b->count);
}

int pith_jcompare(struct pith_jrun *r, struct pith_jv a, struct pith_jv b)
{
    int64_t i, j;
    int order = 0;
    if (!pith_jstep(r, 1) || !pith_jdeeper(r)) return 0;
    if (pith_jinteger(a, &i) && pith_jinteger(b, &j)) order = (i > j) - (i < j);
    else if (pith_jis_number(a) && pith_jis_number(b))
        order = (pith_jreal(a) > pith_jreal(b)) - (pith_jreal(a) < pith_jreal(b));
    else if (a.kind == PITH_J_STRING && b.kind == PITH_J_STRING) order = text_order(a.u.s, b.u.s);
    else if (a.kind == b.kind && (a.kind == PITH_J_LIST || a.kind == PITH_J_TUPLE))
        order = list_order(r, a.u.list, b.u.list);
    else if (a.kind == PITH_J_UNDEFINED && a.u.s)
        (void)pith_jfail(r, "%.*s", (int)a.u.s->len, a.u.s->s);
    else if (b.kind == PITH_J_UNDEFINED && b.u.s)
        (void)pith_jfail(r, "%.*s", (int)b.u.s->len, b.u.s->s);
    else
        (void)pith_jfail(r, "'<' not supported between instances of '%s' and '%s'", pith_jtype(a),
                         pith_jtype(b));
    r->depth--;
    return order;
}

bool pith_jcontains(struct pith_jrun *r, struct pith_jv in, struct pith_jv what)
{
    if (in.kind == PITH_J_STRING) {
        if (what.kind != PITH_J_STRING) {
            (void)pith_jfail(r, "'in <string>' requires string as left operand, not %s",
                             pith_jtype(what));
            return false;
        }
        return pith_jstep(r, in.u.s->len / 16) &&
               pith_jfind(r, in.u.s, what.u.s, 0, false) != SIZE_MAX;
    }
    if (in.kind == PITH_J_DICT) {
        if (what.kind == PITH_J_LIST || what.kind == PITH_J_DICT)
            (void)pith_jfail(r, "unhashable type: '%s'", pith_jtype(what));
        return pith_jdict_find(r, in.u.dict, what) != NULL;
    }
    if (in.kind == PITH_J_UNDEFINED) return false;
    if (!pith_jis_list(in)) {
        (void)pith_jfail(r, "argument of type '%s' is not iterable", pith_jtype(in));
        return false;
    }
    for (size_t i = 0; i < in.u.list->count && r->status == PITH_OK; i++)
        if (pith_jequal(r, in.u.list->item[i], what)) return true;
    return false;
}

int64_t pith_jlength(struct pith_jrun *r, struct pith_jv v)
{
    if (v.kind == PITH_J_STRING) return (int64_t)pith_jchars(v.u.s);
    if (v.kind == PITH_J_DICT) return (int64_t)v.u.dict->count;
    if (pith_jis_list(v) && v.kind != PITH_J_ITERATOR) return (int64_t)v.u.list->count;
    if (v.kind == PITH_J_UNDEFINED) return 0;
    (void)pith_jfail(r, "object of type '%s' has no len()", pith_jtype(v));
    return -1;
}

static void text_items(struct pith_jrun *r, const struct pith_jstr *s, struct pith_jlist *out)
{
    for (size_t i = 0, n; i < s->len && r->status == PITH_OK; i += n) {
        n = pith_utf8_len(s->s[i]);
        if (!pith_jlist_add(r, out, pith_jslice(r, s, i, n))) return;
    }
}

struct pith_jlist *pith_jitems(struct pith_jrun *r, struct pith_jv v)
{
    const struct pith_jv l = pith_jlist_new(r, PITH_J_LIST);
    if (r->status != PITH_OK) return NULL;
    if (pith_jis_list(v)) {
        for (size_t i = 0; i < v.u.list->count; i++)
            if (!pith_jlist_add(r, l.u.list, v.u.list->item[i])) return NULL;
        if (v.kind == PITH_J_ITERATOR) v.u.list->count = 0;
    } else if (v.kind == PITH_J_DICT) {
        for (size_t i = 0; i < v.u.dict->count; i++)
            if (!pith_jlist_add(r, l.u.list, v.u.dict->pair[i].key)) return NULL;
    } else if (v.kind == PITH_J_STRING) {
        text_items(r, v.u.s, l.u.list);
    } else if (v.kind != PITH_J_UNDEFINED) {
        (void)pith_jfail(r, "'%s' object is not iterable", pith_jtype(v));
    }
    return r->status == PITH_OK ? l.u.list : NULL;
}
