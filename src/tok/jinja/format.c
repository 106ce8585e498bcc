/* str % args and str.format(): what templates use of them. */
#include "tok/jinja/print.h"
#include "tok/jinja/run.h"
#include "tok/jinja/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_WIDTH = 1000 };

/* How one value is written. */
struct spec {
    char fill, align, kind; /* align: '<', '>', '^', or 0 for the kind's own */
    bool plus, alternate;
    int width, places; /* places < 0: none given */
};

static void add_padded(struct pith_jbuf *b, const struct spec *f, const struct pith_jstr *s,
                       char align)
{
    const int64_t pad = f->width - (int64_t)pith_jchars(s);
    const int64_t left = pad <= 0 ? 0 : align == '>' ? pad : align == '^' ? pad / 2 : 0;
    for (int64_t i = 0; i < left; i++) pith_jbuf_add(b, &f->fill, 1, false);
    pith_jbuf_str(b, s);
    for (int64_t i = left; i < pad; i++) pith_jbuf_add(b, &f->fill, 1, false);
}

static void add_number(struct pith_jbuf *b, const struct spec *f, struct pith_jv v)
{
    char text[512];
    int64_t i = 0;
    const bool whole = strchr("dixXo", f->kind) != NULL;
    if (whole && !pith_jinteger(v, &i) && fabs(v.u.d) < 9e18) i = (int64_t)v.u.d;
    if (f->kind == 'x')
        snprintf(text, sizeof text, f->alternate ? "%#" PRIx64 : "%" PRIx64, (uint64_t)i);
    else if (f->kind == 'X')
        snprintf(text, sizeof text, f->alternate ? "%#" PRIX64 : "%" PRIX64, (uint64_t)i);
    else if (f->kind == 'o') snprintf(text, sizeof text, "%" PRIo64, (uint64_t)i);
    else if (whole) snprintf(text, sizeof text, f->plus ? "%+" PRId64 : "%" PRId64, i);
    else {
        const int places = f->places < 0 ? 6 : f->places;
        const double d = pith_jreal(v);
        if (f->kind == 'e') snprintf(text, sizeof text, f->plus ? "%+.*e" : "%.*e", places, d);
        else if (f->kind == 'g') snprintf(text, sizeof text, f->plus ? "%+.*g" : "%.*g", places, d);
        else snprintf(text, sizeof text, f->plus ? "%+.*f" : "%.*f", places, d);
    }
    struct pith_jstr s = {.s = text, .len = strlen(text)};
    if (f->fill == '0' && !f->align && (text[0] == '-' || text[0] == '+')) {
        pith_jbuf_add(b, text, 1, false);
        s.s++, s.len--;
        add_padded(b, &(struct spec){.fill = '0', .width = f->width - 1}, &s, '>');
    } else add_padded(b, f, &s, f->align ? f->align : '>');
}

/* A value by its kind: numbers as requested, all else as text. */
static void add_value(struct pith_jbuf *b, const struct spec *f, struct pith_jv v)
{
    if (strchr("dixXofeg", f->kind) && f->kind) {
        if (pith_jis_number(v)) add_number(b, f, v);
        else
            (void)pith_jfail(b->r, "%%%c format: a real number is required, not %s", f->kind,
                             pith_jtype(v));
        return;
    }
    struct pith_jbuf text = {.r = b->r};
    if (f->kind == 'r') pith_jrepr(&text, v);
    else pith_jprint(&text, v);
    const struct pith_jv s = pith_jbuf_value(&text);
    if (b->r->status != PITH_OK) return;
    struct pith_jstr cut = *s.u.s;
    if (f->places >= 0) cut.len = pith_joffset(&cut, (size_t)f->places);
    const bool number = v.kind == PITH_J_INT || v.kind == PITH_J_FLOAT;
    add_padded(b, f, &cut, f->align ? f->align : number ? '>' : '<');
}

static int read_count(const struct pith_jstr *s, size_t *at)
{
    int n = 0;
    while (*at < s->len && s->s[*at] >= '0' && s->s[*at] <= '9' && n < MOST_WIDTH)
        n = n * 10 + (s->s[(*at)++] - '0');
    return n < MOST_WIDTH ? n : MOST_WIDTH;
}

struct pith_jv pith_jpercent(struct pith_jrun *r, const struct pith_jstr *s, struct pith_jv args)
{
    struct pith_jbuf b = {.r = r};
    const bool tuple = args.kind == PITH_J_TUPLE;
    size_t used = 0;
    const size_t count = tuple ? args.u.list->count : 1;
    for (size_t i = 0; i < s->len && r->status == PITH_OK; i++) {
        if (s->s[i] != '%') {
            pith_jbuf_part(&b, s, i, 1);
            continue;
        }
        struct spec f = {.fill = ' ', .places = -1};
        char align = '>';
        for (i++; i < s->len && strchr("-+0# ", s->s[i]) && s->s[i]; i++) {
            if (s->s[i] == '-') align = f.align = '<';
            if (s->s[i] == '0') f.fill = '0';
            f.plus |= s->s[i] == '+';
            f.alternate |= s->s[i] == '#';
        }
        f.width = read_count(s, &i);
        if (i < s->len && s->s[i] == '.') {
            i++;
            f.places = read_count(s, &i);
        }
        f.kind = i < s->len ? s->s[i] : '\0';
        if (f.kind == '%') {
            pith_jbuf_puts(&b, "%");
            continue;
        }
        if (!f.kind || !strchr("sdixXofegr", f.kind))
            return pith_jfail(r, "unsupported format character '%c'", f.kind ? f.kind : ' ');
        if (used >= count) return pith_jfail(r, "not enough arguments for format string");
        if (strchr("sr", f.kind)) f.align = align;
        add_value(&b, &f, tuple ? args.u.list->item[used] : args);
        used++;
    }
    if (used < count && (tuple || args.kind != PITH_J_DICT))
        return pith_jfail(r, "not all arguments converted during string formatting");
    return pith_jbuf_value(&b);
}

/* ---- str.format() ---- */

static void read_spec(struct pith_jrun *r, const struct pith_jstr *s, struct spec *f)
{
    size_t at = 0;
    *f = (struct spec){.fill = ' ', .places = -1};
    if (s->len > 1 && strchr("<>^", s->s[1]) && s->s[1])
        f->fill = s->s[0], f->align = s->s[1], at = 2;
    else if (s->len && strchr("<>^", s->s[0])) f->align = s->s[0], at = 1;
    if (at < s->len && s->s[at] == '+') f->plus = true, at++;
    if (at < s->len && s->s[at] == '#') f->alternate = true, at++;
    if (at < s->len && s->s[at] == '0') f->fill = '0', at++;
    f->width = read_count(s, &at);
    if (at < s->len && s->s[at] == '.') {
        at++;
        f->places = read_count(s, &at);
    }
    if (at < s->len) f->kind = s->s[at++];
    if (at != s->len || (f->kind && !strchr("sdxXofeg", f->kind)) || (unsigned char)f->fill >= 0x80)
        (void)pith_jfail(r, "Invalid format specifier '%.*s'", (int)(s->len < 40 ? s->len : 40),
                         s->s);
}

/* What a field names: nothing (the next), a number or a name, and members of it. */
static struct pith_jv field(struct pith_jrun *r, const struct pith_jstr *name,
                            const struct pith_jlist *pos, const struct pith_jdict *named,
                            size_t *next)
{
    size_t end = 0, at = 0;
    while (end < name->len && name->s[end] != '.' && name->s[end] != '[') end++;
    const struct pith_jstr head = {.s = name->s, .len = end};
    const int number = read_count(&head, &at);
    struct pith_jv v;
    if (end == 0 || at == end) {
        const size_t i = end ? (size_t)number : (*next)++;
        if (i >= pos->count) return pith_jfail(r, "tuple index out of range");
        v = pos->item[i];
    } else {
        const struct pith_jpair *p =
            named ? pith_jdict_find(r, named, (struct pith_jv){.kind = PITH_J_STRING, .u.s = &head})
                  : NULL;
        if (!p)
            return pith_jfail(r, "format: no argument '%.*s'", (int)(end < 40 ? end : 40), name->s);
        v = p->value;
    }
    if (end < name->len && name->s[end] == '.')
        return pith_jpath(r, v, pith_jslice(r, name, end + 1, name->len - end - 1));
    if (end < name->len)
        return pith_jfail(r, "format: items in brackets are not supported in chat templates");
    return v;
}

struct pith_jv pith_jformat(struct pith_jrun *r, const struct pith_jstr *s,
                            const struct pith_jlist *pos, const struct pith_jdict *named)
{
    struct pith_jbuf b = {.r = r};
    size_t next = 0;
    for (size_t i = 0; i < s->len && r->status == PITH_OK; i++) {
        const char c = s->s[i];
        if (c != '{' && c != '}') {
            pith_jbuf_part(&b, s, i, 1);
            continue;
        }
        if (i + 1 < s->len && s->s[i + 1] == c) {
            pith_jbuf_part(&b, s, i++, 1);
            continue;
        }
        size_t end = i + 1, name = 0;
        while (end < s->len && s->s[end] != '}') end++;
        if (c == '}' || end == s->len)
            return pith_jfail(r, "Single '%c' encountered in format string", c);
        while (i + 1 + name < end && s->s[i + 1 + name] != ':' && s->s[i + 1 + name] != '!') name++;
        const struct pith_jstr what = {.s = s->s + i + 1, .len = name};
        size_t at = i + 1 + name;
        const bool repr = at + 1 < end && s->s[at] == '!' && s->s[at + 1] == 'r';
        if (at < end && s->s[at] == '!') at += 2;
        if (at < end) at++;
        const struct pith_jstr how = {.s = s->s + at, .len = at < end ? end - at : 0};
        struct spec f;
        read_spec(r, &how, &f);
        if (repr) f.kind = 'r';
        const struct pith_jv v = field(r, &what, pos, named, &next);
        if (r->status == PITH_OK) add_value(&b, &f, v);
        i = end;
    }
    return pith_jbuf_value(&b);
}
