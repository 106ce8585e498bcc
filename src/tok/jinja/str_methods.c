/* Methods of strings. */
#include "tok/jinja/functions.h"
#include "tok/jinja/text.h"
#include "tok/unicode/utf8.h"

#include <string.h>
#include <utf8proc.h>

#define SELF (self.u.s)
#define GIVEN(i) (a->pos[i].kind != PITH_J_MISSING)

/* A text that must be given; NULL and a failure when it is none. */
static const struct pith_jstr *needed(struct pith_jrun *r, struct pith_jv v)
{
    const struct pith_jstr *s = pith_jtext_of(r, v);
    if (!s) (void)pith_jfail(r, "must be str, not %s", pith_jtype(v));
    return s;
}

JINJA_FN(pith_jm_strip)
{
    return pith_jstrip(r, SELF, pith_jtext_of(r, a->pos[0]), true, true);
}

JINJA_FN(pith_jm_lstrip)
{
    return pith_jstrip(r, SELF, pith_jtext_of(r, a->pos[0]), true, false);
}

JINJA_FN(pith_jm_rstrip)
{
    return pith_jstrip(r, SELF, pith_jtext_of(r, a->pos[0]), false, true);
}

JINJA_FN(pith_jm_split)
{
    return pith_jsplit(r, SELF, pith_jtext_of(r, a->pos[0]), pith_jcount(r, a->pos[1], -1), false);
}

JINJA_FN(pith_jm_rsplit)
{
    return pith_jsplit(r, SELF, pith_jtext_of(r, a->pos[0]), pith_jcount(r, a->pos[1], -1), true);
}

JINJA_FN(pith_jm_splitlines)
{
    return pith_jlines(r, SELF, GIVEN(0) && pith_jtrue(a->pos[0]));
}

JINJA_FN(pith_jm_replace)
{
    const struct pith_jstr *from = needed(r, a->pos[0]), *to = needed(r, a->pos[1]);
    return from && to ? pith_jreplace(r, SELF, from, to, pith_jcount(r, a->pos[2], -1)) : self;
}

JINJA_FN(pith_jm_title)
{
    (void)a;
    return pith_jcased(r, SELF, PITH_J_TITLE);
}

static bool stands_at(const struct pith_jstr *s, const struct pith_jstr *what, bool end)
{
    return s->len >= what->len &&
           memcmp(end ? s->s + s->len - what->len : s->s, what->s, what->len) == 0;
}

static struct pith_jv stands(struct pith_jrun *r, struct pith_jv self, struct pith_jv what,
                             bool end)
{
    if (what.kind != PITH_J_TUPLE) {
        const struct pith_jstr *s = needed(r, what);
        return pith_jbool(s && stands_at(SELF, s, end));
    }
    bool any = false;
    for (size_t i = 0; i < what.u.list->count && !any; i++) {
        const struct pith_jstr *s = needed(r, what.u.list->item[i]);
        any = s && stands_at(SELF, s, end);
    }
    return pith_jbool(any);
}

JINJA_FN(pith_jm_startswith)
{
    return stands(r, self, a->pos[0], false);
}

JINJA_FN(pith_jm_endswith)
{
    return stands(r, self, a->pos[0], true);
}

JINJA_FN(pith_jm_removeprefix)
{
    const struct pith_jstr *s = needed(r, a->pos[0]);
    if (!s || !stands_at(SELF, s, false)) return self;
    return pith_jslice(r, SELF, s->len, SELF->len - s->len);
}

JINJA_FN(pith_jm_removesuffix)
{
    const struct pith_jstr *s = needed(r, a->pos[0]);
    if (!s || !stands_at(SELF, s, true)) return self;
    return pith_jslice(r, SELF, 0, SELF->len - s->len);
}

/* The number of the character at which a text is found, -1: none. */
static int64_t found_at(struct pith_jrun *r, struct pith_jv self, const struct pith_jargs *a,
                        bool last)
{
    const struct pith_jstr *what = needed(r, a->pos[0]);
    int64_t start = pith_jcount(r, a->pos[1], 0);
    if (!what || !pith_jstep(r, SELF->len / 16)) return -1;
    const int64_t chars = (int64_t)pith_jchars(SELF);
    if (start < 0) start = start < -chars ? 0 : start + chars;
    if (start > chars) return -1;
    const size_t at = pith_jfind(r, SELF, what, pith_joffset(SELF, (size_t)start), last);
    if (at == SIZE_MAX) return -1;
    return (int64_t)pith_jchars(&(struct pith_jstr){.s = SELF->s, .len = at});
}

JINJA_FN(pith_jm_find)
{
    return pith_jint(found_at(r, self, a, false));
}

JINJA_FN(pith_jm_rfind)
{
    return pith_jint(found_at(r, self, a, true));
}

JINJA_FN(pith_jm_index)
{
    const int64_t at = found_at(r, self, a, false);
    return at < 0 ? pith_jfail(r, "substring not found") : pith_jint(at);
}

JINJA_FN(pith_jm_count)
{
    const struct pith_jstr *what = needed(r, a->pos[0]);
    int64_t n = 0;
    if (!what) return self;
    if (what->len == 0) return pith_jint((int64_t)pith_jchars(SELF) + 1);
    for (size_t at = 0; pith_jstep(r, 1); at += what->len, n++) {
        at = pith_jfind(r, SELF, what, at, false);
        if (at == SIZE_MAX) break;
    }
    return pith_jint(n);
}

JINJA_FN(pith_jm_join)
{
    const struct pith_jlist *l = pith_jitems(r, a->pos[0]);
    return l ? pith_jjoin(r, SELF, l) : self;
}

JINJA_FN(pith_jm_format)
{
    const struct pith_jlist pos = {.item = (struct pith_jv *)(uintptr_t)a->pos, .count = a->count};
    return pith_jformat(r, SELF, &pos, a->named);
}

static struct pith_jv parted(struct pith_jrun *r, struct pith_jv self, struct pith_jv by, bool last)
{
    const struct pith_jstr *sep = needed(r, by);
    const struct pith_jv t = pith_jlist_new(r, PITH_J_TUPLE);
    if (!sep || r->status != PITH_OK) return t;
    if (sep->len == 0) return pith_jfail(r, "empty separator");
    const size_t at = pith_jfind(r, SELF, sep, 0, last);
    const size_t cut = at != SIZE_MAX ? at : last ? 0 : SELF->len;
    const size_t n = at != SIZE_MAX ? sep->len : 0;
    pith_jlist_add(r, t.u.list, pith_jslice(r, SELF, 0, cut));
    pith_jlist_add(r, t.u.list, pith_jslice(r, SELF, cut, n));
    pith_jlist_add(r, t.u.list, pith_jslice(r, SELF, cut + n, SELF->len - cut - n));
    return t;
}

JINJA_FN(pith_jm_partition)
{
    return parted(r, self, a->pos[0], false);
}

JINJA_FN(pith_jm_rpartition)
{
    return parted(r, self, a->pos[0], true);
}

static struct pith_jv padded(struct pith_jrun *r, struct pith_jv self, const struct pith_jargs *a,
                             bool before)
{
    const struct pith_jstr *fill = GIVEN(1) ? needed(r, a->pos[1]) : NULL;
    const int64_t pad = pith_jcount(r, a->pos[0], 0) - (int64_t)pith_jchars(SELF);
    struct pith_jbuf b = {.r = r};
    if (!before) pith_jbuf_str(&b, SELF);
    for (int64_t i = 0; i < pad && pith_jstep(r, 1); i++) {
        if (fill) pith_jbuf_str(&b, fill);
        else pith_jbuf_puts(&b, " ");
    }
    if (before) pith_jbuf_str(&b, SELF);
    return pith_jbuf_value(&b);
}

JINJA_FN(pith_jm_ljust)
{
    return padded(r, self, a, false);
}

JINJA_FN(pith_jm_rjust)
{
    return padded(r, self, a, true);
}

JINJA_FN(pith_jm_zfill)
{
    const int64_t pad = pith_jcount(r, a->pos[0], 0) - (int64_t)pith_jchars(SELF);
    const size_t sign = SELF->len && (SELF->s[0] == '-' || SELF->s[0] == '+');
    struct pith_jbuf b = {.r = r};
    pith_jbuf_part(&b, SELF, 0, sign);
    for (int64_t i = 0; i < pad && pith_jstep(r, 1); i++) pith_jbuf_puts(&b, "0");
    pith_jbuf_part(&b, SELF, sign, SELF->len - sign);
    return pith_jbuf_value(&b);
}

/* ---- what characters are ---- */

static bool in_categories(uint32_t cp, unsigned categories)
{
    return categories >> utf8proc_category((utf8proc_int32_t)cp) & 1;
}

#define CATEGORY(name) (1U << UTF8PROC_CATEGORY_##name)
#define LETTERS (CATEGORY(LU) | CATEGORY(LL) | CATEGORY(LT) | CATEGORY(LM) | CATEGORY(LO))
#define DIGITS CATEGORY(ND)

/* Whether there are characters, and all of them of these categories. */
static struct pith_jv all_in(const struct pith_jstr *s, unsigned categories)
{
    for (size_t i = 0; i < s->len; i += pith_utf8_len(s->s[i]))
        if (!in_categories(pith_utf8_get(s->s + i), categories)) return pith_jbool(false);
    return pith_jbool(s->len > 0);
}

/* Whether some letter has that case and none another. */
static struct pith_jv all_cased(const struct pith_jstr *s, unsigned category)
{
    bool any = false;
    for (size_t i = 0; i < s->len; i += pith_utf8_len(s->s[i])) {
        const uint32_t cp = pith_utf8_get(s->s + i);
        if (in_categories(cp, category)) any = true;
        else if (in_categories(cp, CATEGORY(LU) | CATEGORY(LL) | CATEGORY(LT)))
            return pith_jbool(false);
    }
    return pith_jbool(any);
}

JINJA_FN(pith_jm_isalpha)
{
    (void)r, (void)a;
    return all_in(SELF, LETTERS);
}

JINJA_FN(pith_jm_isdigit)
{
    (void)r, (void)a;
    return all_in(SELF, DIGITS);
}

JINJA_FN(pith_jm_isalnum)
{
    (void)r, (void)a;
    return all_in(SELF, LETTERS | DIGITS | CATEGORY(NO));
}

JINJA_FN(pith_jm_isspace)
{
    (void)r, (void)a;
    return pith_jbool(SELF->len && pith_jblank(SELF->s, SELF->len) == SELF->len);
}

JINJA_FN(pith_jm_islower)
{
    (void)r, (void)a;
    return all_cased(SELF, CATEGORY(LL));
}

JINJA_FN(pith_jm_isupper)
{
    (void)r, (void)a;
    return all_cased(SELF, CATEGORY(LU));
}
