/* Statements. */
#include "tok/jinja/print.h"
#include "tok/jinja/run.h"

#include <string.h>

typedef const struct pith_jnode node;
enum { GO_ON, BREAK, CONTINUE };

void pith_jset(struct pith_jrun *r, const struct pith_jstr *name, struct pith_jv value)
{
    struct pith_jvariable *v = r->scope->first;
    while (v && !(v->name->len == name->len && memcmp(v->name->s, name->s, name->len) == 0))
        v = v->next;
    if (!v && (v = pith_jtake(r, 1, sizeof *v)) != NULL) {
        *v = (struct pith_jvariable){name, value, r->scope->first};
        r->scope->first = v;
    }
    if (v) v->value = value;
}

static void set_named(struct pith_jrun *r, const char *name, struct pith_jv value)
{
    const struct pith_jv s = pith_jtext(r, name, strlen(name), false);
    if (r->status == PITH_OK) pith_jset(r, s.u.s, value);
}

static void set_member(struct pith_jrun *r, node *target, struct pith_jv value)
{
    node name = {.type = PITH_JN_NAME, .name = target->name, .line = target->line};
    const struct pith_jv of = pith_jeval(r, &name);
    const struct pith_jstr *key = target->value.u.s;
    if (r->status != PITH_OK) return;
    if (of.kind == PITH_J_UNDEFINED) (void)pith_jmisused(r, of);
    else if (of.kind != PITH_J_NAMESPACE)
        (void)pith_jfail(r, "cannot assign attribute on non-namespace object");
    else if (key->s[0] == '_')
        (void)pith_jfail(r,
                         "Chat templates cannot store underscore-prefixed attributes on a "
                         "namespace, but got '%.*s'. Please rename the attribute.",
                         (int)(key->len < 80 ? key->len : 80), key->s);
    else pith_jdict_set(r, of.u.dict, target->value, value);
}

static void assign(struct pith_jrun *r, node *target, struct pith_jv value)
{
    if (r->status != PITH_OK || !pith_jdeeper(r)) return;
    if (target->type == PITH_JN_NAME) {
        pith_jset(r, target->name, value);
    } else if (target->type == PITH_JN_NSREF) {
        set_member(r, target, value);
    } else {
        size_t wanted = 0, i = 0;
        for (node *n = target->a; n; n = n->next) wanted++;
        const struct pith_jlist *l = pith_jitems(r, value);
        if (l && l->count < wanted)
            (void)pith_jfail(r, "not enough values to unpack (expected %zu, got %zu)", wanted,
                             l->count);
        else if (l && l->count > wanted)
            (void)pith_jfail(r, "too many values to unpack (expected %zu)", wanted);
        for (node *n = target->a; l && n && r->status == PITH_OK; n = n->next)
            assign(r, n, l->item[i++]);
    }
    r->depth--;
}

/* A scope inside the present one; NULL after a failure. */
static struct pith_jscope *open_scope(struct pith_jrun *r, struct pith_jscope *around)
{
    struct pith_jscope *s = pith_jtake(r, 1, sizeof *s);
    if (s) s->around = around;
    return s;
}

/* Runs statements in a scope inside `around`, with what they print as a string. */
static struct pith_jv jcapture(struct pith_jrun *r, node *body, struct pith_jscope *scope)
{
    struct pith_jscope *const before = r->scope;
    struct pith_jbuf *const out = r->out;
    const int flow = r->flow;
    struct pith_jbuf b = {.r = r};
    r->scope = scope;
    r->out = &b;
    r->flow = GO_ON;
    pith_jexec(r, body);
    r->scope = before;
    r->out = out;
    r->flow = flow;
    return pith_jbuf_value(&b);
}

/* ---- loops ---- */

/* The items that a loop's condition lets through. */
static struct pith_jlist *chosen(struct pith_jrun *r, node *n, struct pith_jlist *items)
{
    struct pith_jscope *const around = r->scope;
    const struct pith_jv l = pith_jlist_new(r, PITH_J_LIST);
    for (size_t i = 0; i < items->count && r->status == PITH_OK; i++) {
        if (!(r->scope = open_scope(r, around))) break;
        assign(r, n->a, items->item[i]);
        if (pith_jtrue(pith_jeval(r, n->c)) && r->status == PITH_OK)
            pith_jlist_add(r, l.u.list, items->item[i]);
    }
    r->scope = around;
    return r->status == PITH_OK ? l.u.list : NULL;
}

static void run_items(struct pith_jrun *r, node *n, const struct pith_jlist *items)
{
    struct pith_jscope *const around = r->scope;
    struct pith_jloop *loop = pith_jtake(r, 1, sizeof *loop);
    if (!loop) return;
    *loop = (struct pith_jloop){items, 0, {.kind = PITH_J_MISSING}};
    for (; loop->index < items->count && r->status == PITH_OK; loop->index++) {
        if (!(r->scope = open_scope(r, around))) break;
        set_named(r, "loop", (struct pith_jv){.kind = PITH_J_LOOP, .u.loop = loop});
        assign(r, n->a, items->item[loop->index]);
        pith_jexec(r, n->d);
        const int flow = r->flow;
        r->flow = GO_ON;
        if (flow == BREAK) break;
    }
    r->scope = around;
}

static void run_for(struct pith_jrun *r, node *n)
{
    const struct pith_jv of = pith_jeval(r, n->b);
    struct pith_jlist *items = r->status == PITH_OK ? pith_jitems(r, of) : NULL;
    if (items && n->c) items = chosen(r, n, items);
    if (!items) return;
    if (items->count) {
        run_items(r, n, items);
        return;
    }
    struct pith_jscope *const around = r->scope;
    if ((r->scope = open_scope(r, around)) != NULL) pith_jexec(r, n->e);
    r->scope = around;
}

/* ---- macros ---- */

/* Whether a name is read somewhere in a tree. */
static bool mentions(node *n, const char *name)
{
    for (; n; n = n->next) {
        if (n->type == PITH_JN_NAME && pith_jis(n->name, name)) return true;
        if (mentions(n->a, name) || mentions(n->b, name) || mentions(n->c, name) ||
            mentions(n->d, name) || mentions(n->e, name))
            return true;
    }
    return false;
}

static struct pith_jv macro_of(struct pith_jrun *r, const struct pith_jstr *name, node *params,
                               node *body)
{
    struct pith_jmacro *m = pith_jtake(r, 1, sizeof *m);
    if (!m) return pith_jnone();
    *m = (struct pith_jmacro){
        name, params, body, r->scope, mentions(body, "varargs"), mentions(body, "kwargs")};
    return (struct pith_jv){.kind = PITH_J_MACRO, .u.macro = m};
}

static void take_rest(struct pith_jrun *r, const struct pith_jmacro *m, const struct pith_jargs *a,
                      size_t taken)
{
    const struct pith_jv rest = pith_jlist_new(r, PITH_J_TUPLE);
    for (size_t i = taken; i < a->count && r->status == PITH_OK; i++)
        pith_jlist_add(r, rest.u.list, a->pos[i]);
    if (m->rest) set_named(r, "varargs", rest);
    else if (taken < a->count)
        (void)pith_jfail(r, "macro '%.*s' takes not more than %zu argument(s)", (int)m->name->len,
                         m->name->s, taken);
}

static bool is_param(node *params, struct pith_jv name)
{
    for (; params; params = params->next)
        if (params->name->len == name.u.s->len &&
            memcmp(params->name->s, name.u.s->s, name.u.s->len) == 0)
            return true;
    return false;
}

static void take_named(struct pith_jrun *r, const struct pith_jmacro *m, const struct pith_jargs *a)
{
    const struct pith_jv rest = pith_jdict_new(r, PITH_J_DICT);
    for (size_t i = 0; a->named && i < a->named->count && r->status == PITH_OK; i++) {
        const struct pith_jpair p = a->named->pair[i];
        if (p.key.kind != PITH_J_STRING || is_param(m->params, p.key)) continue;
        if (pith_jis(p.key.u.s, "caller")) pith_jset(r, p.key.u.s, p.value);
        else if (m->named) pith_jdict_set(r, rest.u.dict, p.key, p.value);
        else
            (void)pith_jfail(r, "macro '%.*s' takes no keyword argument '%.*s'", (int)m->name->len,
                             m->name->s, (int)p.key.u.s->len, p.key.u.s->s);
    }
    if (m->named) set_named(r, "kwargs", rest);
}

/* Sets a macro's parameters in the scope that is opened for it. */
static void bind(struct pith_jrun *r, const struct pith_jmacro *m, const struct pith_jargs *a)
{
    size_t at = 0;
    for (node *p = m->params; p && r->status == PITH_OK; p = p->next) {
        const struct pith_jpair *named =
            a->named ? pith_jdict_find(r, a->named,
                                       (struct pith_jv){.kind = PITH_J_STRING, .u.s = p->name})
                     : NULL;
        struct pith_jv v;
        if (at < a->count) v = a->pos[at++];
        else if (named) v = named->value;
        else if (p->a) v = pith_jeval(r, p->a);
        else
            v = pith_jundefined(r, "parameter '%.*s' was not provided", (int)p->name->len,
                                p->name->s);
        if (r->status == PITH_OK) pith_jset(r, p->name, v);
    }
    if (r->status == PITH_OK) take_rest(r, m, a, at);
    if (r->status == PITH_OK) take_named(r, m, a);
}

static struct pith_jv call_macro(struct pith_jrun *r, const struct pith_jmacro *m,
                                 const struct pith_jargs *a)
{
    struct pith_jscope *const before = r->scope, *scope = open_scope(r, m->scope);
    const int line = r->line;
    struct pith_jv v = pith_jnone();
    if (!scope || !pith_jdeeper(r)) return v;
    r->scope = scope;
    bind(r, m, a);
    if (r->status == PITH_OK) v = jcapture(r, m->body, scope);
    r->scope = before;
    if (r->status == PITH_OK) r->line = line;
    r->depth--;
    return v;
}

struct pith_jv pith_jcall(struct pith_jrun *r, struct pith_jv callee, const struct pith_jargs *a)
{
    if (r->status != PITH_OK) return callee;
    if (callee.kind == PITH_J_MACRO) return call_macro(r, callee.u.macro, a);
    if (callee.kind == PITH_J_CALLABLE)
        return pith_japply(r, callee.u.call->row, callee.u.call->self, a);
    if (callee.kind == PITH_J_UNDEFINED) return pith_jmisused(r, callee);
    return pith_jfail(r, "'%s' object is not callable", pith_jtype(callee));
}

static void run_call_block(struct pith_jrun *r, node *n)
{
    struct pith_jargs a;
    const struct pith_jv callee = pith_jeval(r, n->b->a), name = pith_jtext(r, "caller", 6, false);
    if (!pith_jarguments(r, n->b->b, &a)) return;
    const struct pith_jv named = pith_jdict_new(r, PITH_J_DICT);
    for (size_t i = 0; a.named && i < a.named->count && r->status == PITH_OK; i++)
        pith_jdict_set(r, named.u.dict, a.named->pair[i].key, a.named->pair[i].value);
    const struct pith_jv caller = macro_of(r, name.u.s, n->a, n->c);
    if (r->status != PITH_OK || !pith_jdict_set(r, named.u.dict, name, caller)) return;
    a.named = named.u.dict;
    pith_jprint(r->out, pith_jcall(r, callee, &a));
}

/* ---- the rest ---- */

static void run_with(struct pith_jrun *r, node *n)
{
    struct pith_jscope *const around = r->scope, *scope = open_scope(r, around);
    for (node *set = n->a; scope && set && r->status == PITH_OK; set = set->next) {
        const struct pith_jv v = pith_jeval(r, set->b); /* sees what is around */
        r->scope = scope;
        assign(r, set->a, v);
        r->scope = around;
    }
    if (!scope || r->status != PITH_OK) return;
    r->scope = scope;
    pith_jexec(r, n->b);
    r->scope = around;
}

static void run_if(struct pith_jrun *r, node *n)
{
    bool yes;
    while (!(yes = pith_jtrue(pith_jeval(r, n->a))) && n->c && r->status == PITH_OK) n = n->c;
    pith_jexec(r, yes ? n->b : n->d);
}

static void run_capture(struct pith_jrun *r, node *n)
{
    const bool set = n->type == PITH_JN_SET_BLOCK;
    struct pith_jscope *scope = open_scope(r, r->scope);
    if (!scope) return;
    struct pith_jv v = jcapture(r, set ? n->c : n->b, scope);
    if (n->type != PITH_JN_SCOPED) v = pith_jfiltered(r, set ? n->b : n->a, v);
    if (r->status != PITH_OK) return;
    if (set) assign(r, n->a, v);
    else pith_jprint(r->out, v);
}

static void run_one(struct pith_jrun *r, node *n)
{
    switch (n->type) {
    case PITH_JN_TEXT: pith_jbuf_str(r->out, n->value.u.s); break;
    case PITH_JN_PRINT: pith_jprint(r->out, pith_jeval(r, n->a)); break;
    case PITH_JN_FOR: run_for(r, n); break;
    case PITH_JN_IF: run_if(r, n); break;
    case PITH_JN_SET: assign(r, n->a, pith_jeval(r, n->b)); break;
    case PITH_JN_MACRO: pith_jset(r, n->name, macro_of(r, n->name, n->a, n->b)); break;
    case PITH_JN_CALL_BLOCK: run_call_block(r, n); break;
    case PITH_JN_SET_BLOCK:
    case PITH_JN_FILTER_BLOCK:
    case PITH_JN_SCOPED: run_capture(r, n); break;
    case PITH_JN_WITH: run_with(r, n); break;
    case PITH_JN_BREAK: r->flow = BREAK; break;
    case PITH_JN_CONTINUE: r->flow = CONTINUE; break;
    default: (void)pith_jfail(r, "no statement"); break;
    }
}

void pith_jexec(struct pith_jrun *r, node *n)
{
    if (r->status != PITH_OK || !pith_jdeeper(r)) return;
    for (; n && r->flow == GO_ON && pith_jstep(r, 1); n = n->next) {
        r->line = n->line;
        run_one(r, n);
    }
    r->depth--;
}
