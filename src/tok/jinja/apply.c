/* Filters, tests, methods and functions by name: rows of tables, and their arguments. */
#include "tok/jinja/functions.h"

#include "base/mem.h"

#include <string.h>

enum { MOST_PARAMS = 6 };

#define JINJA_ROW(name, fn, params, needed) {name, fn, params, needed},
static const struct pith_jrow filters[] = {
#include "tok/jinja/filters.def"
};
static const struct pith_jrow tests[] = {
#include "tok/jinja/tests.def"
};
/* Functions that every template has. */
static const struct pith_jrow globals[] = {
    {"dict", pith_jg_dict, "*", 0},
    {"namespace", pith_jg_namespace, "*", 0},
    {"raise_exception", pith_jg_raise, "message", 1},
    {"range", pith_jg_range, "*", 1},
    {"strftime_now", pith_jg_strftime, "format", 1},
};
static const struct pith_jrow of_str[] = {
#include "tok/jinja/str_methods.def"
};
/* transformers' sandbox refuses those that change a list, llama.cpp has them. */
static const struct pith_jrow of_list[] = {
    {"append", pith_jm_append, "object", 1},   {"copy", pith_jf_list, "", 0},
    {"count", pith_jm_list_count, "value", 1}, {"extend", pith_jm_extend, "iterable", 1},
    {"index", pith_jm_list_index, "value", 1}, {"insert", pith_jm_insert, "index,object", 2},
    {"pop", pith_jm_pop, "index", 0},
};
static const struct pith_jrow of_dict[] = {
    {"copy", pith_jm_dict_copy, "", 0},
    {"get", pith_jm_get, "key,default", 1},
    {"items", pith_jm_items, "", 0},
    {"keys", pith_jm_keys, "", 0},
    {"pop", pith_jm_dict_pop, "key,default", 1},
    {"setdefault", pith_jm_setdefault, "key,default", 1},
    {"update", pith_jm_update, "*", 0},
    {"values", pith_jm_values, "", 0},
};
static const struct pith_jrow of_loop[] = {
    {"changed", pith_jm_changed, "*", 0},
    {"cycle", pith_jm_cycle, "*", 1},
};
#undef JINJA_ROW

static const struct pith_jrow *find(const struct pith_jrow *row, size_t count,
                                    const struct pith_jstr *name)
{
    for (size_t i = 0; i < count; i++)
        if (pith_jis(name, row[i].name)) return &row[i];
    return NULL;
}

const struct pith_jrow *pith_jfilter_row(const struct pith_jstr *name)
{
    return find(filters, PITH_COUNT(filters), name);
}

const struct pith_jrow *pith_jtest_row(const struct pith_jstr *name)
{
    return find(tests, PITH_COUNT(tests), name);
}

const struct pith_jrow *pith_jglobal_row(const struct pith_jstr *name)
{
    return find(globals, PITH_COUNT(globals), name);
}

const struct pith_jrow *pith_jmethod_row(struct pith_jv of, const struct pith_jstr *name)
{
    switch (of.kind) {
    case PITH_J_STRING: return find(of_str, PITH_COUNT(of_str), name);
    case PITH_J_LIST: return find(of_list, PITH_COUNT(of_list), name);
    case PITH_J_DICT: return find(of_dict, PITH_COUNT(of_dict), name);
    case PITH_J_LOOP: return find(of_loop, PITH_COUNT(of_loop), name);
    default: return NULL;
    }
}

/* Which parameter has that name, -1: none. */
static int param_at(const char *params, const struct pith_jstr *name)
{
    int at = 0;
    for (const char *p = params; *p; at++) {
        const size_t n = strcspn(p, ",");
        if (name->len == n && memcmp(name->s, p, n) == 0) return at;
        p += n + (p[n] == ',');
    }
    return -1;
}

static size_t param_count(const char *params)
{
    size_t n = *params != '\0';
    for (; *params; params++) n += *params == ',';
    return n;
}

struct pith_jv pith_japply(struct pith_jrun *r, const struct pith_jrow *row, struct pith_jv self,
                           const struct pith_jargs *a)
{
    struct pith_jv arg[MOST_PARAMS] = {{.kind = PITH_J_MISSING}};
    if (!pith_jstep(r, 1)) return self;
    if (row->params[0] == '*') {
        if (a->count < row->needed) return pith_jfail(r, "%s: an argument is missing", row->name);
        return row->fn(r, self, a);
    }
    const size_t count = param_count(row->params);
    if (a->count > count)
        return pith_jfail(r, "%s takes at most %zu arguments (%zu given)", row->name, count,
                          a->count);
    for (size_t i = 0; i < a->count; i++) arg[i] = a->pos[i];
    for (size_t i = 0; a->named && i < a->named->count; i++) {
        const struct pith_jv key = a->named->pair[i].key;
        const int at = key.kind == PITH_J_STRING ? param_at(row->params, key.u.s) : -1;
        if (at < 0 || arg[at].kind != PITH_J_MISSING)
            return pith_jfail(r, "%s got an unexpected keyword argument '%.*s'", row->name,
                              key.kind == PITH_J_STRING ? (int)key.u.s->len : 0,
                              key.kind == PITH_J_STRING ? key.u.s->s : "");
        arg[at] = a->named->pair[i].value;
    }
    for (size_t i = 0; i < row->needed; i++)
        if (arg[i].kind == PITH_J_MISSING)
            return pith_jfail(r, "%s: argument %zu is missing", row->name, i + 1);
    return row->fn(r, self, &(struct pith_jargs){arg, count, NULL});
}

static int shown(const struct pith_jstr *s)
{
    return s->len < 80 ? (int)s->len : 80;
}

struct pith_jv pith_jfilter(struct pith_jrun *r, const struct pith_jstr *name, struct pith_jv of,
                            const struct pith_jargs *a)
{
    const struct pith_jrow *row = pith_jfilter_row(name);
    if (!row) return pith_jfail(r, "No filter named '%.*s'.", shown(name), name->s);
    return pith_japply(r, row, of, a);
}

bool pith_jtest(struct pith_jrun *r, const struct pith_jstr *name, struct pith_jv of,
                const struct pith_jargs *a)
{
    const struct pith_jrow *row = pith_jtest_row(name);
    if (!row) {
        (void)pith_jfail(r, "No test named '%.*s'.", shown(name), name->s);
        return false;
    }
    return pith_jtrue(pith_japply(r, row, of, a));
}

int64_t pith_jcount(struct pith_jrun *r, struct pith_jv v, int64_t missing)
{
    int64_t n = missing;
    if (v.kind == PITH_J_MISSING || v.kind == PITH_J_NONE || pith_jinteger(v, &n)) return n;
    (void)pith_jfail(r, "'%s' object cannot be interpreted as an integer", pith_jtype(v));
    return missing;
}

const struct pith_jstr *pith_jtext_of(struct pith_jrun *r, struct pith_jv v)
{
    if (v.kind == PITH_J_STRING) return v.u.s;
    if (v.kind == PITH_J_UNDEFINED) (void)pith_jmisused(r, v);
    else if (v.kind != PITH_J_MISSING && v.kind != PITH_J_NONE)
        (void)pith_jfail(r, "must be str, not %s", pith_jtype(v));
    return NULL;
}
