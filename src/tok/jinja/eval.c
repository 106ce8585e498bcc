/* Expressions. */
#include "tok/jinja/print.h"
#include "tok/jinja/run.h"
#include "tok/jinja/text.h"

#include <string.h>

typedef const struct pith_jnode node;

static struct pith_jv look_up(struct pith_jrun *r, const struct pith_jstr *name)
{
    for (const struct pith_jscope *s = r->scope; s; s = s->around)
        for (const struct pith_jvariable *v = s->first; v; v = v->next)
            if (v->name == name ||
                (v->name->len == name->len && memcmp(v->name->s, name->s, name->len) == 0))
                return v->value;
    const struct pith_jrow *row = pith_jglobal_row(name);
    if (!row)
        return pith_jundefined(r, "'%.*s' is undefined", (int)(name->len < 80 ? name->len : 80),
                               name->s);
    struct pith_jcallable *c = pith_jtake(r, 1, sizeof *c);
    if (c) *c = (struct pith_jcallable){row, {.kind = PITH_J_MISSING}};
    return (struct pith_jv){.kind = PITH_J_CALLABLE, .u.call = c};
}

static struct pith_jv list_of(struct pith_jrun *r, node *chain, enum pith_jkind kind)
{
    const struct pith_jv l = pith_jlist_new(r, kind);
    for (node *n = chain; n && r->status == PITH_OK; n = n->next)
        pith_jlist_add(r, l.u.list, pith_jeval(r, n));
    return l;
}

static struct pith_jv dict_of(struct pith_jrun *r, node *chain)
{
    const struct pith_jv d = pith_jdict_new(r, PITH_J_DICT);
    for (node *n = chain; n && n->next && r->status == PITH_OK; n = n->next->next) {
        const struct pith_jv key = pith_jeval(r, n), value = pith_jeval(r, n->next);
        if (r->status == PITH_OK) pith_jdict_set(r, d.u.dict, key, value);
    }
    return d;
}

/* A slice's bound: *at, `missing` when there is none. */
static bool bound(struct pith_jrun *r, node *n, int64_t missing, int64_t *at)
{
    const struct pith_jv v = n ? pith_jeval(r, n) : pith_jnone();
    *at = missing;
    if (v.kind == PITH_J_NONE) return r->status == PITH_OK;
    if (!pith_jinteger(v, at))
        (void)pith_jfail(r, "slice indices must be integers or None or have an __index__ method");
    return r->status == PITH_OK;
}

static int64_t within(int64_t at, int64_t n, int64_t low, int64_t high)
{
    if (at < 0) at = at < -n ? -1 : at + n;
    return at < low ? low : at > high ? high : at;
}

/* Items number from, from + step, ... below (above) `to` of n. */
struct range {
    int64_t from, to, step;
};

static bool range_of(struct pith_jrun *r, node *s, int64_t n, struct range *out)
{
    int64_t from, to, step;
    const int64_t none = INT64_MIN;
    if (!bound(r, s->c, 1, &step) || !bound(r, s->a, none, &from) || !bound(r, s->b, none, &to))
        return false;
    if (step == 0) {
        (void)pith_jfail(r, "slice step cannot be zero");
        return false;
    }
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    from = from == none ? (step < 0 ? high : low) : within(from, n, low, high);
    to = to == none ? (step < 0 ? low : high) : within(to, n, low, high);
    if (step > n) step = n + 1;
    if (step < -n) step = -n - 1;
    *out = (struct range){from, to, step};
    return true;
}

static struct pith_jv slice_text(struct pith_jrun *r, const struct pith_jstr *s, node *slice)
{
    struct range g;
    if (!pith_jstep(r, s->len / 32) || !range_of(r, slice, (int64_t)pith_jchars(s), &g))
        return pith_jnone();
    if (g.step == 1) {
        const size_t from = pith_joffset(s, (size_t)g.from);
        const size_t to = g.to > g.from ? pith_joffset(s, (size_t)g.to) : from;
        return pith_jslice(r, s, from, to - from);
    }
    const struct pith_jlist *c = pith_jitems(r, (struct pith_jv){.kind = PITH_J_STRING, .u.s = s});
    struct pith_jbuf b = {.r = r};
    for (int64_t i = g.from; c && (g.step > 0 ? i < g.to : i > g.to); i += g.step)
        pith_jbuf_str(&b, c->item[i].u.s);
    return pith_jbuf_value(&b);
}

static struct pith_jv slice(struct pith_jrun *r, struct pith_jv of, node *n)
{
    struct range g;
    if (of.kind == PITH_J_UNDEFINED) return pith_jmisused(r, of);
    if (of.kind == PITH_J_STRING) return slice_text(r, of.u.s, n);
    if (!(of.kind >= PITH_J_LIST && of.kind <= PITH_J_RANGE))
        return pith_jundefined(r, "'%s' object is not subscriptable", pith_jtype(of));
    const struct pith_jv l = pith_jlist_new(r, of.kind == PITH_J_TUPLE ? of.kind : PITH_J_LIST);
    if (!range_of(r, n, (int64_t)of.u.list->count, &g)) return l;
    for (int64_t i = g.from; r->status == PITH_OK && (g.step > 0 ? i < g.to : i > g.to);
         i += g.step)
        pith_jlist_add(r, l.u.list, of.u.list->item[i]);
    return l;
}

static struct pith_jv item(struct pith_jrun *r, node *n)
{
    const struct pith_jv of = pith_jeval(r, n->a);
    if (n->b->type == PITH_JN_SLICE) return slice(r, of, n->b);
    const struct pith_jv key = pith_jeval(r, n->b);
    return r->status == PITH_OK ? pith_jitem(r, of, key) : key;
}

/* Adds what *list and **dict contain to the arguments. */
static void spread(struct pith_jrun *r, node *n, struct pith_jlist *pos, struct pith_jdict *named)
{
    const struct pith_jv v = pith_jeval(r, n->a);
    if (r->status != PITH_OK) return;
    if (n->type == PITH_JN_STAR) {
        const struct pith_jlist *l = pith_jitems(r, v);
        for (size_t i = 0; l && i < l->count; i++) pith_jlist_add(r, pos, l->item[i]);
    } else if (v.kind == PITH_J_DICT) {
        for (size_t i = 0; i < v.u.dict->count; i++)
            pith_jdict_set(r, named, v.u.dict->pair[i].key, v.u.dict->pair[i].value);
    } else (void)pith_jfail(r, "argument after ** must be a mapping, not %s", pith_jtype(v));
}

bool pith_jarguments(struct pith_jrun *r, node *chain, struct pith_jargs *out)
{
    *out = (struct pith_jargs){0};
    if (!chain) return r->status == PITH_OK;
    const struct pith_jv pos = pith_jlist_new(r, PITH_J_LIST),
                         named = pith_jdict_new(r, PITH_J_DICT);
    for (node *n = chain; n && r->status == PITH_OK; n = n->next) {
        if (n->type == PITH_JN_ARG) pith_jlist_add(r, pos.u.list, pith_jeval(r, n->a));
        else if (n->type == PITH_JN_NAMED)
            pith_jdict_set(r, named.u.dict, (struct pith_jv){.kind = PITH_J_STRING, .u.s = n->name},
                           pith_jeval(r, n->a));
        else spread(r, n, pos.u.list, named.u.dict);
    }
    if (r->status != PITH_OK) return false;
    *out = (struct pith_jargs){pos.u.list->item, pos.u.list->count,
                               named.u.dict->count ? named.u.dict : NULL};
    return true;
}

static struct pith_jv call(struct pith_jrun *r, node *n)
{
    struct pith_jargs a;
    const struct pith_jv callee = pith_jeval(r, n->a);
    if (!pith_jarguments(r, n->b, &a)) return callee;
    r->line = n->line;
    return pith_jcall(r, callee, &a);
}

static bool compares(struct pith_jrun *r, int op, struct pith_jv a, struct pith_jv b)
{
    switch (op) {
    case PITH_JOP('=', '='): return pith_jequal(r, a, b);
    case PITH_JOP('!', '='): return !pith_jequal(r, a, b);
    case PITH_JOP('<', '='): return pith_jcompare(r, a, b) <= 0;
    case PITH_JOP('>', '='): return pith_jcompare(r, a, b) >= 0;
    case '<': return pith_jcompare(r, a, b) < 0;
    case '>': return pith_jcompare(r, a, b) > 0;
    case PITH_JOP_IN: return pith_jcontains(r, b, a);
    default: return !pith_jcontains(r, b, a);
    }
}

static struct pith_jv compare(struct pith_jrun *r, node *n)
{
    struct pith_jv left = pith_jeval(r, n->a);
    bool holds = true;
    for (node *o = n->b; o && holds && r->status == PITH_OK; o = o->next) {
        const struct pith_jv right = pith_jeval(r, o->a);
        if (r->status != PITH_OK) break;
        holds = compares(r, o->op, left, right);
        left = right;
    }
    return pith_jbool(holds);
}

static struct pith_jv sign(struct pith_jrun *r, node *n)
{
    const struct pith_jv v = pith_jeval(r, n->a);
    int64_t i;
    if (r->status != PITH_OK) return v;
    const bool minus = n->type == PITH_JN_NEG;
    if (pith_jinteger(v, &i)) {
        if (minus && i == INT64_MIN) return pith_jfail(r, "a number does not fit into 64 bits");
        return pith_jint(minus ? -i : i);
    }
    if (v.kind == PITH_J_FLOAT) return pith_jfloat(minus ? -v.u.d : v.u.d);
    if (v.kind == PITH_J_UNDEFINED) return pith_jmisused(r, v);
    return pith_jfail(r, "bad operand type for unary %c: '%s'", minus ? '-' : '+', pith_jtype(v));
}

static struct pith_jv concat(struct pith_jrun *r, node *chain)
{
    struct pith_jbuf b = {.r = r};
    for (node *n = chain; n && r->status == PITH_OK; n = n->next) pith_jprint(&b, pith_jeval(r, n));
    return pith_jbuf_value(&b);
}

static struct pith_jv filter(struct pith_jrun *r, node *n, struct pith_jv of)
{
    struct pith_jargs a;
    if (!pith_jarguments(r, n->b, &a)) return of;
    r->line = n->line;
    return pith_jfilter(r, n->name, of, &a);
}

struct pith_jv pith_jfiltered(struct pith_jrun *r, node *n, struct pith_jv text)
{
    if (!n) return text;
    if (!pith_jdeeper(r)) return text;
    text = pith_jfiltered(r, n->a, text);
    r->depth--;
    return r->status == PITH_OK ? filter(r, n, text) : text;
}

static struct pith_jv test(struct pith_jrun *r, node *n)
{
    struct pith_jargs a;
    const struct pith_jv of = pith_jeval(r, n->a);
    if (!pith_jarguments(r, n->b, &a)) return of;
    r->line = n->line;
    return pith_jbool(pith_jtest(r, n->name, of, &a));
}

static struct pith_jv choose(struct pith_jrun *r, node *n)
{
    const bool yes = pith_jtrue(pith_jeval(r, n->a));
    if (yes) return pith_jeval(r, n->b);
    if (n->c) return pith_jeval(r, n->c);
    return pith_jundefined(r,
                           "the inline if-expression on line %d evaluated to false and no else "
                           "section was defined.",
                           n->line);
}

static struct pith_jv member(struct pith_jrun *r, node *n)
{
    const struct pith_jv of = pith_jeval(r, n->a);
    r->line = n->line;
    return r->status == PITH_OK ? pith_jattr(r, of, n->name) : of;
}

static struct pith_jv evaluate(struct pith_jrun *r, node *n)
{
    struct pith_jv v;
    switch (n->type) {
    case PITH_JN_CONST: return n->value;
    case PITH_JN_NAME: return look_up(r, n->name);
    case PITH_JN_LIST: return list_of(r, n->a, PITH_J_LIST);
    case PITH_JN_TUPLE: return list_of(r, n->a, PITH_J_TUPLE);
    case PITH_JN_DICT: return dict_of(r, n->a);
    case PITH_JN_ATTR: return member(r, n);
    case PITH_JN_ITEM: return item(r, n);
    case PITH_JN_CALL: return call(r, n);
    case PITH_JN_FILTER: return filter(r, n, pith_jeval(r, n->a));
    case PITH_JN_TEST: return test(r, n);
    case PITH_JN_NEG:
    case PITH_JN_POS: return sign(r, n);
    case PITH_JN_NOT: return pith_jbool(!pith_jtrue(pith_jeval(r, n->a)));
    case PITH_JN_BINARY:
        v = pith_jeval(r, n->a);
        return pith_jbinary(r, n->op, v, pith_jeval(r, n->b));
    case PITH_JN_COMPARE: return compare(r, n);
    case PITH_JN_AND: return pith_jtrue(v = pith_jeval(r, n->a)) ? pith_jeval(r, n->b) : v;
    case PITH_JN_OR: return pith_jtrue(v = pith_jeval(r, n->a)) ? v : pith_jeval(r, n->b);
    case PITH_JN_CHOICE: return choose(r, n);
    case PITH_JN_CONCAT: return concat(r, n->a);
    default: return pith_jfail(r, "no expression");
    }
}

struct pith_jv pith_jeval(struct pith_jrun *r, node *n)
{
    struct pith_jv v = {.kind = PITH_J_UNDEFINED};
    if (!n || !pith_jstep(r, 1)) return v;
    if (!pith_jdeeper(r)) return v;
    r->line = n->line;
    v = evaluate(r, n);
    r->depth--;
    return v;
}
