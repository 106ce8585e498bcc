/* Functions that every template has. */
#include "tok/jinja/functions.h"
#include "tok/jinja/print.h"

#include <string.h>
#include <time.h>

enum { MOST_RANGE = 100000, MOST_DATE = 4096 };

/* dict(other, a=1, ...): with members of another dict, or pairs, and named ones. */
static struct pith_jv collect(struct pith_jrun *r, enum pith_jkind kind, const struct pith_jargs *a)
{
    const struct pith_jv d = pith_jdict_new(r, kind);
    if (a->count > 1) return pith_jfail(r, "dict expected at most 1 argument, got %zu", a->count);
    if (a->count) pith_jm_update(r, d, &(struct pith_jargs){a->pos, a->count, NULL});
    for (size_t i = 0; a->named && i < a->named->count && r->status == PITH_OK; i++)
        pith_jdict_set(r, d.u.dict, a->named->pair[i].key, a->named->pair[i].value);
    return d;
}

JINJA_FN(pith_jg_dict)
{
    (void)self;
    return collect(r, PITH_J_DICT, a);
}

JINJA_FN(pith_jg_namespace)
{
    (void)self;
    return collect(r, PITH_J_NAMESPACE, a);
}

JINJA_FN(pith_jg_raise)
{
    (void)self;
    const struct pith_jv s = pith_jstring(r, a->pos[0]);
    if (r->status != PITH_OK) return s;
    return pith_jfail(r, "%.*s", s.u.s->len < 800 ? (int)s.u.s->len : 800, s.u.s->s);
}

JINJA_FN(pith_jg_range)
{
    (void)self;
    int64_t v[3] = {0, 0, 1};
    const struct pith_jv l = pith_jlist_new(r, PITH_J_RANGE);
    if (a->count > 3) return pith_jfail(r, "range expected at most 3 arguments, got %zu", a->count);
    for (size_t i = 0; i < a->count; i++)
        if (!pith_jinteger(a->pos[i], &v[i]))
            return pith_jfail(r, "'%s' object cannot be interpreted as an integer",
                              pith_jtype(a->pos[i]));
    if (a->count == 1) v[1] = v[0], v[0] = 0;
    if (v[2] == 0) return pith_jfail(r, "range() arg 3 must not be zero");
    const double count = ((double)v[1] - (double)v[0]) / (double)v[2];
    if (count > MOST_RANGE)
        return pith_jfail(r, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                          MOST_RANGE);
    for (int64_t i = v[0]; (v[2] > 0 ? i < v[1] : i > v[1]) && r->status == PITH_OK;) {
        pith_jlist_add(r, l.u.list, pith_jint(i));
        if (__builtin_add_overflow(i, v[2], &i)) break;
    }
    return l;
}

/* One conversion at a time, so that none is the C library's alone and none writes without end. */
JINJA_FN(pith_jg_strftime)
{
    (void)self;
    const struct pith_jstr *f = pith_jtext_of(r, a->pos[0]);
    const time_t now = (time_t)r->now;
    struct pith_jbuf b = {.r = r};
    struct tm tm;
    if (!f || !localtime_r(&now, &tm)) return pith_jfail(r, "strftime_now: no time or no format");
    if (f->len > MOST_DATE) return pith_jfail(r, "strftime_now: the format is too long");
    for (size_t i = 0; i < f->len && r->status == PITH_OK; i++) {
        char text[128], conversion[4] = {'%', 0};
        const size_t flag = f->s[i] == '%' && i + 2 < f->len && strchr("-_0^#", f->s[i + 1]);
        const char c = f->s[i] == '%' && i + 1 + flag < f->len ? f->s[i + 1 + flag] : '\0';
        if (!c || !strchr("aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyYzZ%", c)) {
            pith_jbuf_part(&b, f, i, 1);
            continue;
        }
        memcpy(conversion + 1, f->s + i + 1, 1 + flag);
        const size_t n = strftime(text, sizeof text, conversion, &tm);
        pith_jbuf_add(&b, text, n, false);
        i += 1 + flag;
    }
    return pith_jbuf_value(&b);
}
