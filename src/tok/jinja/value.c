#include "tok/jinja/value.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "tok/unicode/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK = 64 << 10, MOST_DEPTH = 600 };

struct pith_jchunk {
    struct pith_jchunk *before;
    size_t used, size;
    _Alignas(16) unsigned char room[];
};

/* count * size bytes aligned for anything, zeroed; NULL when there is no room. */
static void *jpool_take(struct pith_jpool *p, size_t count, size_t size)
{
    size_t n;
    if (!pith_mul_size(count, size, &n) || n > p->most) {
        p->full = true;
        return NULL;
    }
    n = (n + 15) & ~(size_t)15;
    if (!p->last || p->last->size - p->last->used < n) {
        size_t room = n > CHUNK ? n : CHUNK;
        if (room > p->most - p->used) room = n; /* the remainder */
        if (room > p->most - p->used) {
            p->full = true;
            return NULL;
        }
        struct pith_jchunk *c = pith_alloc(1, sizeof *c + room);
        if (!c) return NULL;
        *c = (struct pith_jchunk){p->last, 0, room};
        p->last = c;
        p->used += room;
    }
    void *at = p->last->room + p->last->used;
    p->last->used += n;
    memset(at, 0, n);
    return at;
}

void pith_jpool_free(struct pith_jpool *p)
{
    while (p->last) {
        struct pith_jchunk *before = p->last->before;
        pith_free(p->last);
        p->last = before;
    }
    p->used = 0;
}

struct pith_jv pith_jfail(struct pith_jrun *r, const char *fmt, ...)
{
    if (r->status == PITH_OK) {
        char text[900];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(text, sizeof text, fmt, ap);
        va_end(ap);
        r->status = pith_fail(r->err, PITH_FORMAT, "line %d: %s", r->line, text);
    }
    return (struct pith_jv){.kind = PITH_J_UNDEFINED};
}

struct pith_jv pith_jnomem(struct pith_jrun *r)
{
    if (r->status == PITH_OK && r->pool.full)
        r->status = pith_fail(r->err, PITH_LIMIT, "line %d: the template takes more than %zu MiB",
                              r->line, r->pool.most >> 20);
    else if (r->status == PITH_OK) r->status = pith_fail_nomem(r->err, "a chat template");
    return (struct pith_jv){.kind = PITH_J_UNDEFINED};
}

bool pith_jstep(struct pith_jrun *r, uint64_t n)
{
    if (r->status != PITH_OK) return false;
    r->steps += n;
    if (r->steps <= r->most_steps) return true;
    r->status = pith_fail(r->err, PITH_LIMIT, "line %d: the template takes more than %llu steps",
                          r->line, (unsigned long long)r->most_steps);
    return false;
}

bool pith_jdeeper(struct pith_jrun *r)
{
    if (r->status != PITH_OK) return false;
    r->depth++;
    if (r->depth <= MOST_DEPTH) return true;
    r->status = pith_fail(r->err, PITH_LIMIT, "line %d: maximum recursion depth exceeded", r->line);
    return false;
}

void *pith_jtake(struct pith_jrun *r, size_t count, size_t size)
{
    void *p = jpool_take(&r->pool, count, size);
    if (!p) (void)pith_jnomem(r);
    return p;
}

/* ---- text ---- */

static bool grow(struct pith_jbuf *b, size_t n)
{
    if (b->len + n <= b->cap && b->s) return true;
    size_t cap = b->cap * 2 > 64 ? b->cap * 2 : 64;
    if (cap < b->len + n) cap = b->len + n;
    char *s = pith_jtake(b->r, cap, 1);
    uint8_t *marks = b->marks && s ? pith_jtake(b->r, cap, 1) : NULL;
    if (!s || (b->marks && !marks)) return false;
    if (b->len) memcpy(s, b->s, b->len);
    if (b->marks) memcpy(marks, b->marks, b->len);
    b->s = s;
    b->marks = marks;
    b->cap = cap;
    return true;
}

void pith_jbuf_add(struct pith_jbuf *b, const char *s, size_t n, bool marked)
{
    if (b->r->status != PITH_OK || n == 0) return;
    if (!pith_jstep(b->r, n / 64) || !grow(b, n)) return;
    if (marked && !b->marks && !(b->marks = pith_jtake(b->r, b->cap, 1))) return;
    memcpy(b->s + b->len, s, n);
    if (b->marks) memset(b->marks + b->len, marked, n);
    b->len += n;
}

void pith_jbuf_puts(struct pith_jbuf *b, const char *s)
{
    pith_jbuf_add(b, s, strlen(s), false);
}

void pith_jbuf_part(struct pith_jbuf *b, const struct pith_jstr *s, size_t at, size_t n)
{
    const size_t before = b->len;
    pith_jbuf_add(b, s->s + at, n, s->marks || s->marked);
    if (s->marks && b->marks && b->len == before + n && n)
        memcpy(b->marks + before, s->marks + at, n);
}

void pith_jbuf_str(struct pith_jbuf *b, const struct pith_jstr *s)
{
    pith_jbuf_part(b, s, 0, s->len);
}

static struct pith_jv string_of(struct pith_jrun *r, struct pith_jstr text)
{
    struct pith_jstr *s = pith_jtake(r, 1, sizeof *s);
    if (!s) return (struct pith_jv){.kind = PITH_J_UNDEFINED};
    *s = text;
    return (struct pith_jv){.kind = PITH_J_STRING, .u.s = s};
}

struct pith_jv pith_jbuf_value(struct pith_jbuf *b)
{
    return string_of(b->r, (struct pith_jstr){b->s ? b->s : "", b->len, b->marks, false, false});
}

struct pith_jv pith_jtext(struct pith_jrun *r, const char *s, size_t n, bool marked)
{
    return string_of(r, (struct pith_jstr){s, n, NULL, marked, false});
}

struct pith_jv pith_jslice(struct pith_jrun *r, const struct pith_jstr *s, size_t at, size_t n)
{
    return string_of(
        r, (struct pith_jstr){s->s + at, n, s->marks ? s->marks + at : NULL, s->marked, s->safe});
}

struct pith_jv pith_jundefined(struct pith_jrun *r, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    struct pith_jbuf b = {.r = r};
    pith_jbuf_puts(&b, text);
    struct pith_jv v = pith_jbuf_value(&b);
    if (v.kind == PITH_J_STRING) v.kind = PITH_J_UNDEFINED;
    return v;
}

bool pith_jis(const struct pith_jstr *s, const char *text)
{
    return s->len == strlen(text) && memcmp(s->s, text, s->len) == 0;
}

size_t pith_jchars(const struct pith_jstr *s)
{
    return pith_utf8_count(s->s, s->len);
}

size_t pith_joffset(const struct pith_jstr *s, size_t at)
{
    size_t i = 0;
    for (; at > 0 && i < s->len; at--) i += pith_utf8_len(s->s[i]);
    return i;
}

/* ---- lists and dicts ---- */

struct pith_jv pith_jlist_new(struct pith_jrun *r, enum pith_jkind kind)
{
    struct pith_jlist *l = pith_jtake(r, 1, sizeof *l);
    if (!l) return (struct pith_jv){.kind = PITH_J_UNDEFINED};
    return (struct pith_jv){.kind = kind, .u.list = l};
}

struct pith_jv pith_jdict_new(struct pith_jrun *r, enum pith_jkind kind)
{
    struct pith_jdict *d = pith_jtake(r, 1, sizeof *d);
    if (!d) return (struct pith_jv){.kind = PITH_J_UNDEFINED};
    return (struct pith_jv){.kind = kind, .u.dict = d};
}

/* Room for one more of `size` bytes in an array of the pool. */
static bool more(struct pith_jrun *r, void **array, size_t count, size_t *cap, size_t size)
{
    if (count < *cap) return true;
    const size_t wanted = *cap ? *cap * 2 : 4;
    void *p = pith_jtake(r, wanted, size);
    if (!p) return false;
    if (count) memcpy(p, *array, count * size);
    *array = p;
    *cap = wanted;
    return true;
}

bool pith_jlist_add(struct pith_jrun *r, struct pith_jlist *l, struct pith_jv v)
{
    if (!pith_jstep(r, 1)) return false; /* after a failure there may be no list */
    void *item = l->item;
    if (!more(r, &item, l->count, &l->cap, sizeof v)) return false;
    l->item = item;
    l->item[l->count++] = v;
    return true;
}

struct pith_jv pith_jpair_of(struct pith_jrun *r, struct pith_jv a, struct pith_jv b)
{
    const struct pith_jv t = pith_jlist_new(r, PITH_J_TUPLE);
    if (r->status == PITH_OK && pith_jlist_add(r, t.u.list, a)) pith_jlist_add(r, t.u.list, b);
    return t;
}

struct pith_jpair *pith_jdict_find(struct pith_jrun *r, const struct pith_jdict *d,
                                   struct pith_jv key)
{
    for (size_t i = 0; pith_jstep(r, 1) && i < d->count; i++)
        if (pith_jequal(r, d->pair[i].key, key)) return &d->pair[i];
    return NULL;
}

struct pith_jpair *pith_jdict_get(struct pith_jrun *r, const struct pith_jdict *d, const char *name)
{
    for (size_t i = 0; d && pith_jstep(r, 1) && i < d->count; i++)
        if (d->pair[i].key.kind == PITH_J_STRING && pith_jis(d->pair[i].key.u.s, name))
            return &d->pair[i];
    return NULL;
}

bool pith_jdict_set(struct pith_jrun *r, struct pith_jdict *d, struct pith_jv key,
                    struct pith_jv value)
{
    if (r->status != PITH_OK) return false;
    if (key.kind == PITH_J_LIST || key.kind == PITH_J_DICT) {
        (void)pith_jfail(r, "unhashable type: '%s'", pith_jtype(key));
        return false;
    }
    struct pith_jpair *p = pith_jdict_find(r, d, key);
    if (p) {
        p->value = value;
        return true;
    }
    void *pair = d->pair;
    if (!more(r, &pair, d->count, &d->cap, sizeof *d->pair)) return false;
    d->pair = pair;
    d->pair[d->count++] = (struct pith_jpair){key, value};
    return true;
}

/* ---- JSON ---- */

static struct pith_jv json_text(struct pith_jrun *r, const char *s, size_t n, bool marked)
{
    char *copy = pith_jtake(r, n + 1, 1);
    if (!copy) return (struct pith_jv){.kind = PITH_J_UNDEFINED};
    memcpy(copy, s, n);
    return pith_jtext(r, copy, n, marked);
}

static struct pith_jv json_list(struct pith_jrun *r, const json_t *j, bool marked)
{
    const struct pith_jv l = pith_jlist_new(r, PITH_J_LIST);
    for (size_t i = 0; r->status == PITH_OK && i < json_array_size(j); i++)
        pith_jlist_add(r, l.u.list, pith_jfrom_json(r, json_array_get(j, i), marked));
    return l;
}

/* A plain word, as the roles of messages are: of these templates make "<|user|>". */
static bool is_role(const char *key, const json_t *value)
{
    const char *s = json_string_value(value);
    if (!s || strcmp(key, "role") != 0) return false;
    while ((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || *s == '_') s++;
    return (size_t)(s - json_string_value(value)) == json_string_length(value);
}

/* Keys of JSON are all different: none is looked for. */
static struct pith_jv json_dict(struct pith_jrun *r, const json_t *j, bool marked)
{
    const struct pith_jv v = pith_jdict_new(r, PITH_J_DICT);
    const char *key;
    size_t size;
    json_t *value;
    json_object_keylen_foreach ((json_t *)(uintptr_t)j, key, size, value) {
        if (r->status != PITH_OK) break;
        struct pith_jdict *d = v.u.dict;
        const struct pith_jv name = json_text(r, key, size, marked);
        const struct pith_jv member = pith_jfrom_json(r, value, marked && !is_role(key, value));
        void *pair = d->pair;
        if (!more(r, &pair, d->count, &d->cap, sizeof *d->pair)) break;
        d->pair = pair;
        d->pair[d->count++] = (struct pith_jpair){name, member};
    }
    return v;
}

/* A number that jansson has no type for. */
static struct pith_jv json_number(struct pith_jrun *r, const json_t *j)
{
    const char *text = pith_json_marked_text(j);
    if (!pith_json_is_integer(j)) return pith_jfloat(pith_json_number(j));
    struct pith_jv v = json_text(r, text, strlen(text), false);
    if (v.kind == PITH_J_STRING) v.kind = PITH_J_BIG;
    return v;
}

struct pith_jv pith_jfrom_json(struct pith_jrun *r, const json_t *j, bool marked)
{
    struct pith_jv v = pith_jnone();
    if (pith_json_marked_text(j)) return json_number(r, j);
    if (!pith_jdeeper(r)) return v;
    switch (json_typeof(j)) {
    case JSON_OBJECT: v = json_dict(r, j, marked); break;
    case JSON_ARRAY: v = json_list(r, j, marked); break;
    case JSON_STRING: v = json_text(r, json_string_value(j), json_string_length(j), marked); break;
    case JSON_INTEGER: v = pith_jint(json_integer_value(j)); break;
    case JSON_REAL: v = pith_jfloat(json_real_value(j)); break;
    case JSON_TRUE:
    case JSON_FALSE: v = pith_jbool(json_is_true(j)); break;
    case JSON_NULL: break;
    }
    r->depth--;
    return v;
}
