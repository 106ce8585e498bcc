/* obj.name, obj[key] and slices, as the sandbox of jinja2 finds them. */
#include "tok/jinja/run.h"
#include "tok/unicode/utf8.h"

#include <string.h>

enum { SHOWN = 80 };

/* What a value is called where something of it is not found. */
static struct pith_jv not_there(struct pith_jrun *r, struct pith_jv obj, struct pith_jv key)
{
    const bool none = obj.kind == PITH_J_NONE;
    const char *type = none ? "None" : pith_jtype(obj), *object = none ? "" : " object";
    if (key.kind == PITH_J_STRING)
        return pith_jundefined(r, "'%s%s' has no attribute '%.*s'", type, object,
                               (int)(key.u.s->len < SHOWN ? key.u.s->len : SHOWN), key.u.s->s);
    if (key.kind == PITH_J_INT)
        return pith_jundefined(r, "%s%s has no element %lld", type, object, (long long)key.u.i);
    return pith_jundefined(r, "%s%s has no element of that kind", type, object);
}

struct pith_jv pith_jmisused(struct pith_jrun *r, struct pith_jv v)
{
    if (v.kind == PITH_J_UNDEFINED && v.u.s)
        return pith_jfail(r, "%.*s", (int)v.u.s->len, v.u.s->s);
    return pith_jfail(r, "a value is undefined");
}

static struct pith_jv neighbour(struct pith_jrun *r, const struct pith_jloop *l, bool before)
{
    if (before && l->index == 0) return pith_jundefined(r, "there is no previous item");
    if (!before && l->index + 1 >= l->items->count)
        return pith_jundefined(r, "there is no next item");
    return l->items->item[before ? l->index - 1 : l->index + 1];
}

static struct pith_jv of_loop(struct pith_jrun *r, struct pith_jv obj, const struct pith_jstr *name)
{
    const struct pith_jloop *l = obj.u.loop;
    const int64_t i = (int64_t)l->index, n = (int64_t)l->items->count;
    if (pith_jis(name, "index")) return pith_jint(i + 1);
    if (pith_jis(name, "index0")) return pith_jint(i);
    if (pith_jis(name, "revindex")) return pith_jint(n - i);
    if (pith_jis(name, "revindex0")) return pith_jint(n - i - 1);
    if (pith_jis(name, "first")) return pith_jbool(i == 0);
    if (pith_jis(name, "last")) return pith_jbool(i + 1 == n);
    if (pith_jis(name, "length")) return pith_jint(n);
    if (pith_jis(name, "depth")) return pith_jint(1); /* of recursive loops */
    if (pith_jis(name, "depth0")) return pith_jint(0);
    if (pith_jis(name, "previtem")) return neighbour(r, l, true);
    if (pith_jis(name, "nextitem")) return neighbour(r, l, false);
    return not_there(r, obj, (struct pith_jv){.kind = PITH_J_STRING, .u.s = name});
}

/* A method, a loop's or a namespace's member: what Python has as an attribute. */
static bool attribute(struct pith_jrun *r, struct pith_jv obj, const struct pith_jstr *name,
                      struct pith_jv *out)
{
    const struct pith_jrow *row = pith_jmethod_row(obj, name);
    if (row) {
        struct pith_jcallable *c = pith_jtake(r, 1, sizeof *c);
        if (c) *c = (struct pith_jcallable){row, obj};
        *out = (struct pith_jv){.kind = PITH_J_CALLABLE, .u.call = c};
        return true;
    }
    if (obj.kind == PITH_J_NAMESPACE) {
        const struct pith_jpair *p =
            pith_jdict_find(r, obj.u.dict, (struct pith_jv){.kind = PITH_J_STRING, .u.s = name});
        if (p) *out = p->value;
        return p != NULL;
    }
    if (obj.kind != PITH_J_LOOP) return false;
    *out = of_loop(r, obj, name);
    return true;
}

struct pith_jv pith_jattr(struct pith_jrun *r, struct pith_jv obj, const struct pith_jstr *name)
{
    struct pith_jv v;
    const struct pith_jv key = {.kind = PITH_J_STRING, .u.s = name};
    if (obj.kind == PITH_J_UNDEFINED) return pith_jmisused(r, obj);
    if (attribute(r, obj, name, &v)) return v;
    if (obj.kind == PITH_J_DICT) {
        const struct pith_jpair *p = pith_jdict_find(r, obj.u.dict, key);
        if (p) return p->value;
    }
    return not_there(r, obj, key);
}

struct pith_jv pith_jitem(struct pith_jrun *r, struct pith_jv obj, struct pith_jv key)
{
    struct pith_jv v;
    int64_t i;
    if (obj.kind == PITH_J_UNDEFINED) return pith_jmisused(r, obj);
    if (obj.kind == PITH_J_DICT && key.kind != PITH_J_LIST && key.kind != PITH_J_DICT) {
        const struct pith_jpair *p = pith_jdict_find(r, obj.u.dict, key);
        if (p) return p->value;
    }
    if (obj.kind >= PITH_J_LIST && obj.kind <= PITH_J_RANGE && pith_jinteger(key, &i)) {
        const int64_t n = (int64_t)obj.u.list->count;
        if (i < 0) i += n;
        if (i >= 0 && i < n) return obj.u.list->item[i];
    }
    if (obj.kind == PITH_J_STRING && pith_jinteger(key, &i)) {
        if (!pith_jstep(r, obj.u.s->len / 64)) return key;
        const int64_t n = (int64_t)pith_jchars(obj.u.s);
        if (i < 0) i += n;
        if (i >= 0 && i < n) {
            const size_t at = pith_joffset(obj.u.s, (size_t)i);
            return pith_jslice(r, obj.u.s, at, pith_utf8_len(obj.u.s->s[at]));
        }
    }
    if (key.kind == PITH_J_STRING && attribute(r, obj, key.u.s, &v)) return v;
    return not_there(r, obj, key);
}

struct pith_jv pith_jpath(struct pith_jrun *r, struct pith_jv obj, struct pith_jv path)
{
    if (path.kind != PITH_J_STRING) return pith_jitem(r, obj, path);
    const struct pith_jstr *s = path.u.s;
    for (size_t from = 0, to; from <= s->len && r->status == PITH_OK; from = to + 1) {
        int64_t number = 0;
        to = from;
        while (to < s->len && s->s[to] != '.') to++;
        bool digits = to > from && to - from < 10;
        for (size_t i = from; i < to && digits; i++) {
            digits = s->s[i] >= '0' && s->s[i] <= '9';
            number = number * 10 + (s->s[i] - '0');
        }
        obj = pith_jitem(r, obj, digits ? pith_jint(number) : pith_jslice(r, s, from, to - from));
    }
    return obj;
}
