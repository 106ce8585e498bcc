/* Filters of several values. */
#include "tok/jinja/functions.h"
#include "tok/jinja/print.h"
#include "tok/jinja/text.h"

#include <string.h>

#define GIVEN(i) (a->pos[i].kind != PITH_J_MISSING)
#define TRUTH(i) (GIVEN(i) && pith_jtrue(a->pos[i]))

JINJA_FN(pith_jf_list)
{
    (void)a;
    struct pith_jlist *l = pith_jitems(r, self);
    return l ? (struct pith_jv){.kind = PITH_J_LIST, .u.list = l} : self;
}

JINJA_FN(pith_jf_items)
{
    static const struct pith_jargs none;
    (void)a;
    if (self.kind == PITH_J_UNDEFINED) return pith_jlist_new(r, PITH_J_ITERATOR);
    if (self.kind != PITH_J_DICT) return pith_jfail(r, "Can only get item pairs from a mapping.");
    struct pith_jv v = pith_jm_items(r, self, &none);
    if (v.kind == PITH_J_VIEW) v.kind = PITH_J_ITERATOR;
    return v;
}

JINJA_FN(pith_jf_join)
{
    static const struct pith_jstr empty = {.s = ""};
    const struct pith_jv d = GIVEN(0) ? pith_jstring(r, a->pos[0]) : pith_jnone();
    struct pith_jlist *l = pith_jitems(r, self);
    for (size_t i = 0; l && i < l->count && r->status == PITH_OK; i++) {
        if (GIVEN(1)) l->item[i] = pith_jpath(r, l->item[i], a->pos[1]);
        l->item[i] = pith_jstring(r, l->item[i]);
    }
    if (!l || r->status != PITH_OK) return self;
    return pith_jjoin(r, d.kind == PITH_J_STRING ? d.u.s : &empty, l);
}

JINJA_FN(pith_jf_reverse)
{
    (void)a;
    struct pith_jlist *l = pith_jitems(r, self);
    struct pith_jbuf b = {.r = r};
    for (size_t i = 0, j = l ? l->count : 0; i + 1 < j; i++) {
        const struct pith_jv v = l->item[i];
        l->item[i] = l->item[--j];
        l->item[j] = v;
    }
    if (!l) return self;
    if (self.kind != PITH_J_STRING) return (struct pith_jv){.kind = PITH_J_ITERATOR, .u.list = l};
    for (size_t i = 0; i < l->count; i++) pith_jbuf_str(&b, l->item[i].u.s);
    return pith_jbuf_value(&b);
}

/* ---- map, select, reject ---- */

/* The arguments behind the first n. */
static struct pith_jargs behind(const struct pith_jargs *a, size_t n)
{
    return (struct pith_jargs){n ? a->pos + n : a->pos, a->count - n, a->named};
}

static struct pith_jv mapped(struct pith_jrun *r, struct pith_jv v, const struct pith_jargs *a)
{
    const struct pith_jpair *attribute = pith_jdict_get(r, a->named, "attribute");
    const struct pith_jpair *otherwise = pith_jdict_get(r, a->named, "default");
    if (a->count) {
        const struct pith_jargs rest = behind(a, 1);
        const struct pith_jstr *name = pith_jtext_of(r, a->pos[0]);
        return name ? pith_jfilter(r, name, v, &rest) : v;
    }
    if (!attribute) return pith_jfail(r, "map requires a filter argument");
    const struct pith_jv found = pith_jpath(r, v, attribute->value);
    return found.kind == PITH_J_UNDEFINED && otherwise ? otherwise->value : found;
}

JINJA_FN(pith_jf_map)
{
    if (!pith_jtrue(self)) return pith_jlist_new(r, PITH_J_ITERATOR); /* None too, as in jinja2 */
    struct pith_jlist *l = pith_jitems(r, self);
    for (size_t i = 0; l && i < l->count && r->status == PITH_OK; i++)
        l->item[i] = mapped(r, l->item[i], a);
    return l ? (struct pith_jv){.kind = PITH_J_ITERATOR, .u.list = l} : self;
}

/* Those items of which a test (of an attribute: `by`) says `keep`; without a test: their truth. */
static struct pith_jv sifted(struct pith_jrun *r, struct pith_jv of, const struct pith_jargs *a,
                             bool by, bool keep)
{
    if (!pith_jtrue(of)) return pith_jlist_new(r, PITH_J_ITERATOR);
    struct pith_jlist *l = pith_jitems(r, of);
    size_t count = 0;
    if (by && a->count == 0) return pith_jfail(r, "Missing parameter for attribute name");
    const struct pith_jargs own = behind(a, by), rest = behind(&own, own.count > 0);
    const struct pith_jstr *name = own.count ? pith_jtext_of(r, own.pos[0]) : NULL;
    for (size_t i = 0; l && i < l->count && r->status == PITH_OK; i++) {
        const struct pith_jv v = by ? pith_jpath(r, l->item[i], a->pos[0]) : l->item[i];
        if (r->status != PITH_OK) break;
        const bool yes = name ? pith_jtest(r, name, v, &rest) : pith_jtrue(v);
        if (yes == keep) l->item[count++] = l->item[i];
    }
    if (!l) return of;
    l->count = count;
    return (struct pith_jv){.kind = PITH_J_ITERATOR, .u.list = l};
}

JINJA_FN(pith_jf_select)
{
    return sifted(r, self, a, false, true);
}

JINJA_FN(pith_jf_reject)
{
    return sifted(r, self, a, false, false);
}

JINJA_FN(pith_jf_selectattr)
{
    return sifted(r, self, a, true, true);
}

JINJA_FN(pith_jf_rejectattr)
{
    return sifted(r, self, a, true, false);
}

/* ---- order ---- */

/* Sorts values in place by keys of the same number, stably; `reverse`: the largest first. */
static void jsort(struct pith_jrun *r, struct pith_jv *item, struct pith_jv *key, size_t count,
                  bool reverse)
{
    struct pith_jpair *from = pith_jtake(r, count + 1, sizeof *from);
    struct pith_jpair *to = pith_jtake(r, count + 1, sizeof *to);
    if (!from || !to) return;
    for (size_t i = 0; i < count; i++) from[i] = (struct pith_jpair){key[i], item[i]};
    for (size_t width = 1; width < count && r->status == PITH_OK; width *= 2) {
        for (size_t at = 0; at < count; at += 2 * width) {
            const size_t middle = at + width < count ? at + width : count;
            const size_t end = middle + width < count ? middle + width : count;
            size_t i = at, j = middle;
            for (size_t k = at; k < end; k++) {
                bool left = j == end;
                if (i < middle && j < end) {
                    const int order = pith_jcompare(r, from[i].key, from[j].key);
                    left = reverse ? order >= 0 : order <= 0;
                }
                to[k] = left ? from[i++] : from[j++];
            }
        }
        struct pith_jpair *other = from;
        from = to;
        to = other;
    }
    for (size_t i = 0; i < count; i++) item[i] = from[i].value;
}

/* What is compared of a value: an attribute of it, in lower case unless case matters. */
static struct pith_jv key_of(struct pith_jrun *r, struct pith_jv v, struct pith_jv attribute,
                             bool cased)
{
    if (attribute.kind != PITH_J_MISSING && attribute.kind != PITH_J_NONE)
        v = pith_jpath(r, v, attribute);
    return v.kind == PITH_J_STRING && !cased ? pith_jcased(r, v.u.s, PITH_J_LOWER) : v;
}

static struct pith_jv *keys_of(struct pith_jrun *r, const struct pith_jlist *l,
                               struct pith_jv attribute, bool cased)
{
    struct pith_jv *key = l ? pith_jtake(r, l->count + 1, sizeof *key) : NULL;
    for (size_t i = 0; key && i < l->count && r->status == PITH_OK; i++)
        key[i] = key_of(r, l->item[i], attribute, cased);
    return r->status == PITH_OK ? key : NULL;
}

JINJA_FN(pith_jf_sort)
{
    struct pith_jlist *l = pith_jitems(r, self);
    struct pith_jv *key = keys_of(r, l, a->pos[2], TRUTH(1));
    if (!key) return self;
    jsort(r, l->item, key, l->count, TRUTH(0));
    return (struct pith_jv){.kind = PITH_J_LIST, .u.list = l};
}

JINJA_FN(pith_jf_dictsort)
{
    static const struct pith_jargs none;
    const struct pith_jstr *by = pith_jtext_of(r, a->pos[1]);
    if (self.kind != PITH_J_DICT)
        return self.kind == PITH_J_UNDEFINED
                   ? pith_jmisused(r, self)
                   : pith_jfail(r, "'%s' object has no attribute 'items'", pith_jtype(self));
    if (by && !pith_jis(by, "key") && !pith_jis(by, "value"))
        return pith_jfail(r, "You can only sort by either \"key\" or \"value\"");
    const struct pith_jv pairs = pith_jm_items(r, self, &none);
    struct pith_jlist *l = r->status == PITH_OK ? pith_jitems(r, pairs) : NULL;
    struct pith_jv *key = keys_of(r, l, pith_jint(by && pith_jis(by, "value")), TRUTH(0));
    if (!key) return self;
    jsort(r, l->item, key, l->count, TRUTH(2));
    return (struct pith_jv){.kind = PITH_J_LIST, .u.list = l};
}

static struct pith_jv extreme(struct pith_jrun *r, struct pith_jv of, const struct pith_jargs *a,
                              int sign)
{
    struct pith_jlist *l = pith_jitems(r, of);
    struct pith_jv *key = keys_of(r, l, a->pos[1], TRUTH(0));
    size_t best = 0;
    if (!key) return of;
    if (l->count == 0) return pith_jundefined(r, "No aggregated item, sequence was empty.");
    for (size_t i = 1; i < l->count && r->status == PITH_OK; i++)
        if (sign * pith_jcompare(r, key[i], key[best]) > 0) best = i;
    return l->item[best];
}

JINJA_FN(pith_jf_max)
{
    return extreme(r, self, a, 1);
}

JINJA_FN(pith_jf_min)
{
    return extreme(r, self, a, -1);
}

JINJA_FN(pith_jf_unique)
{
    struct pith_jlist *l = pith_jitems(r, self);
    struct pith_jv *key = keys_of(r, l, a->pos[1], TRUTH(0));
    size_t count = 0;
    for (size_t i = 0; key && i < l->count && r->status == PITH_OK; i++) {
        size_t j = 0;
        while (j < count && !pith_jequal(r, key[j], key[i])) j++;
        if (j < count) continue;
        key[count] = key[i];
        l->item[count++] = l->item[i];
    }
    if (!key) return self;
    l->count = count;
    return (struct pith_jv){.kind = PITH_J_ITERATOR, .u.list = l};
}

JINJA_FN(pith_jf_sum)
{
    const struct pith_jlist *l = pith_jitems(r, self);
    struct pith_jv sum = GIVEN(1) ? a->pos[1] : pith_jint(0);
    const bool by = GIVEN(0) && a->pos[0].kind != PITH_J_NONE;
    for (size_t i = 0; l && i < l->count && r->status == PITH_OK; i++)
        sum = pith_jbinary(r, '+', sum, by ? pith_jpath(r, l->item[i], a->pos[0]) : l->item[i]);
    return sum;
}
