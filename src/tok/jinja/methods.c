/* Methods of lists, of dicts and of the variable loop. */
#include "tok/jinja/functions.h"

#include <string.h>

#define GIVEN(i) (a->pos[i].kind != PITH_J_MISSING)
#define LIST (self.u.list)
#define DICT (self.u.dict)

JINJA_FN(pith_jm_append)
{
    pith_jlist_add(r, LIST, a->pos[0]);
    return pith_jnone();
}

JINJA_FN(pith_jm_extend)
{
    const struct pith_jlist *l = pith_jitems(r, a->pos[0]);
    for (size_t i = 0; l && i < l->count && r->status == PITH_OK; i++)
        pith_jlist_add(r, LIST, l->item[i]);
    return pith_jnone();
}

JINJA_FN(pith_jm_insert)
{
    int64_t at = pith_jcount(r, a->pos[0], 0);
    const int64_t n = (int64_t)LIST->count;
    if (at < 0) at = at < -n ? 0 : at + n;
    if (at > n) at = n;
    if (!pith_jlist_add(r, LIST, a->pos[1])) return pith_jnone();
    memmove(LIST->item + at + 1, LIST->item + at, (size_t)(n - at) * sizeof *LIST->item);
    LIST->item[at] = a->pos[1];
    return pith_jnone();
}

JINJA_FN(pith_jm_pop)
{
    const int64_t n = (int64_t)LIST->count;
    int64_t at = pith_jcount(r, a->pos[0], -1);
    if (n == 0) return pith_jfail(r, "pop from empty list");
    if (at < 0) at += n;
    if (at < 0 || at >= n) return pith_jfail(r, "pop index out of range");
    const struct pith_jv v = LIST->item[at];
    memmove(LIST->item + at, LIST->item + at + 1, (size_t)(n - at - 1) * sizeof v);
    LIST->count--;
    return v;
}

JINJA_FN(pith_jm_list_count)
{
    int64_t n = 0;
    for (size_t i = 0; i < LIST->count && r->status == PITH_OK; i++)
        n += pith_jequal(r, LIST->item[i], a->pos[0]);
    return pith_jint(n);
}

JINJA_FN(pith_jm_list_index)
{
    for (size_t i = 0; i < LIST->count && r->status == PITH_OK; i++)
        if (pith_jequal(r, LIST->item[i], a->pos[0])) return pith_jint((int64_t)i);
    return pith_jfail(r, "the value is not in the list");
}

/* ---- dicts ---- */

enum part { KEYS, VALUES, ITEMS };

static struct pith_jv view(struct pith_jrun *r, struct pith_jv self, enum part part)
{
    static const char *const names[] = {"dict_keys", "dict_values", "dict_items"};
    const struct pith_jv l = pith_jlist_new(r, PITH_J_VIEW);
    if (r->status != PITH_OK) return l;
    l.u.list->view = names[part];
    for (size_t i = 0; i < DICT->count && r->status == PITH_OK; i++) {
        const struct pith_jpair p = DICT->pair[i];
        pith_jlist_add(r, l.u.list,
                       part == KEYS     ? p.key
                       : part == VALUES ? p.value
                                        : pith_jpair_of(r, p.key, p.value));
    }
    return l;
}

JINJA_FN(pith_jm_keys)
{
    (void)a;
    return view(r, self, KEYS);
}

JINJA_FN(pith_jm_values)
{
    (void)a;
    return view(r, self, VALUES);
}

JINJA_FN(pith_jm_items)
{
    (void)a;
    return view(r, self, ITEMS);
}

JINJA_FN(pith_jm_get)
{
    const struct pith_jpair *p = pith_jdict_find(r, DICT, a->pos[0]);
    return p ? p->value : GIVEN(1) ? a->pos[1] : pith_jnone();
}

JINJA_FN(pith_jm_setdefault)
{
    const struct pith_jpair *p = pith_jdict_find(r, DICT, a->pos[0]);
    const struct pith_jv v = GIVEN(1) ? a->pos[1] : pith_jnone();
    if (p) return p->value;
    pith_jdict_set(r, DICT, a->pos[0], v);
    return v;
}

JINJA_FN(pith_jm_dict_pop)
{
    struct pith_jpair *p = pith_jdict_find(r, DICT, a->pos[0]);
    if (!p) return GIVEN(1) ? a->pos[1] : pith_jfail(r, "the key is not in the dict");
    const struct pith_jv v = p->value;
    memmove(p, p + 1, (size_t)(DICT->pair + DICT->count - p - 1) * sizeof *p);
    DICT->count--;
    return v;
}

/* Adds the members of a dict, or pairs. */
static void merge(struct pith_jrun *r, struct pith_jdict *d, struct pith_jv from)
{
    if (from.kind == PITH_J_DICT || from.kind == PITH_J_NAMESPACE) {
        for (size_t i = 0; i < from.u.dict->count && r->status == PITH_OK; i++)
            pith_jdict_set(r, d, from.u.dict->pair[i].key, from.u.dict->pair[i].value);
        return;
    }
    const struct pith_jlist *l = pith_jitems(r, from);
    for (size_t i = 0; l && i < l->count && r->status == PITH_OK; i++) {
        const struct pith_jlist *pair = pith_jitems(r, l->item[i]);
        if (pair && pair->count == 2) pith_jdict_set(r, d, pair->item[0], pair->item[1]);
        else (void)pith_jfail(r, "dictionary update sequence element #%zu has not length 2", i);
    }
}

JINJA_FN(pith_jm_update)
{
    for (size_t i = 0; i < a->count && r->status == PITH_OK; i++) merge(r, DICT, a->pos[i]);
    for (size_t i = 0; a->named && i < a->named->count && r->status == PITH_OK; i++)
        pith_jdict_set(r, DICT, a->named->pair[i].key, a->named->pair[i].value);
    return pith_jnone();
}

JINJA_FN(pith_jm_dict_copy)
{
    (void)a;
    const struct pith_jv d = pith_jdict_new(r, PITH_J_DICT);
    if (r->status == PITH_OK) merge(r, d.u.dict, self);
    return d;
}

/* ---- loop ---- */

JINJA_FN(pith_jm_cycle)
{
    (void)r;
    return a->pos[self.u.loop->index % a->count];
}

JINJA_FN(pith_jm_changed)
{
    struct pith_jv all = pith_jlist_new(r, PITH_J_TUPLE);
    for (size_t i = 0; i < a->count && r->status == PITH_OK; i++)
        pith_jlist_add(r, all.u.list, a->pos[i]);
    const struct pith_jv before = self.u.loop->changed;
    self.u.loop->changed = all;
    return pith_jbool(before.kind == PITH_J_MISSING || !pith_jequal(r, before, all));
}
