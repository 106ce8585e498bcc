#include "tok/jinja/print.h"

#include "tok/unicode/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* The fewest digits that give the same number again; an exponent below 1e-4 and from 1e16 on. */
static void print_real(struct pith_jbuf *b, double d, bool json)
{
    char digits[40], out[64];
    if (isnan(d) || isinf(d)) {
        pith_jbuf_puts(b, isnan(d) ? (json ? "NaN" : "nan")
                          : d < 0  ? (json ? "-Infinity" : "-inf")
                                   : (json ? "Infinity" : "inf"));
        return;
    }
    int precision = 0;
    do snprintf(digits, sizeof digits, "%.*e", precision, d);
    while (++precision < 17 && memcmp(&(double){strtod(digits, NULL)}, &d, sizeof d) != 0);
    char *e = strchr(digits, 'e');
    const int exponent = atoi(e + 1);
    if (exponent >= -4 && exponent < 16) {
        const int places = precision - 1 - exponent;
        snprintf(out, sizeof out, "%.*f", places > 0 ? places : 1, d);
    } else {
        *e = '\0';
        snprintf(out, sizeof out, "%se%c%02d", digits, exponent < 0 ? '-' : '+', abs(exponent));
    }
    pith_jbuf_puts(b, out);
}

static void print_int(struct pith_jbuf *b, int64_t i)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, i);
    pith_jbuf_puts(b, text);
}

static bool printable(uint32_t cp)
{
    if (cp == ' ') return true;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO: return false;
    default: return true;
    }
}

/* Bytes of a string that are alike in being marked: what stands for one is marked as it is. */
static bool marked_at(const struct pith_jstr *s, size_t i)
{
    return s->marks ? s->marks[i] : s->marked;
}

static void repr_char(struct pith_jbuf *b, const struct pith_jstr *s, size_t at, size_t n,
                      char quote)
{
    const uint32_t cp = pith_utf8_get(s->s + at);
    char text[16];
    if (cp == (uint32_t)quote || cp == '\\') snprintf(text, sizeof text, "\\%c", (char)cp);
    else if (cp == '\n') strcpy(text, "\\n");
    else if (cp == '\r') strcpy(text, "\\r");
    else if (cp == '\t') strcpy(text, "\\t");
    else if (printable(cp)) {
        pith_jbuf_part(b, s, at, n);
        return;
    } else if (cp < 0x100) snprintf(text, sizeof text, "\\x%02x", cp);
    else if (cp < 0x10000) snprintf(text, sizeof text, "\\u%04x", cp);
    else snprintf(text, sizeof text, "\\U%08x", cp);
    pith_jbuf_add(b, text, strlen(text), marked_at(s, at));
}

static void repr_text(struct pith_jbuf *b, const struct pith_jstr *s)
{
    const bool single = s->len && memchr(s->s, '\'', s->len),
               twice = s->len && memchr(s->s, '"', s->len);
    const char quote = single && !twice ? '"' : '\'';
    if (s->safe) pith_jbuf_puts(b, "Markup(");
    pith_jbuf_add(b, &quote, 1, false);
    for (size_t i = 0, n; i < s->len && b->r->status == PITH_OK; i += n) {
        n = pith_utf8_len(s->s[i]);
        repr_char(b, s, i, n, quote);
    }
    pith_jbuf_add(b, &quote, 1, false);
    if (s->safe) pith_jbuf_puts(b, ")");
}

static void repr_list(struct pith_jbuf *b, struct pith_jv v)
{
    const struct pith_jlist *l = v.u.list;
    if (v.kind == PITH_J_RANGE) {
        pith_jbuf_puts(b, "range(");
        print_int(b, l->count ? l->item[0].u.i : 0);
        pith_jbuf_puts(b, ", ");
        print_int(b, l->count ? l->item[l->count - 1].u.i + 1 : 0);
        pith_jbuf_puts(b, ")");
        return;
    }
    if (v.kind == PITH_J_VIEW) {
        pith_jbuf_puts(b, l->view);
        pith_jbuf_puts(b, "(");
    }
    pith_jbuf_puts(b, v.kind == PITH_J_TUPLE ? "(" : "[");
    for (size_t i = 0; i < l->count && b->r->status == PITH_OK; i++) {
        if (i) pith_jbuf_puts(b, ", ");
        pith_jrepr(b, l->item[i]);
    }
    if (v.kind == PITH_J_TUPLE) pith_jbuf_puts(b, l->count == 1 ? ",)" : ")");
    else pith_jbuf_puts(b, "]");
    if (v.kind == PITH_J_VIEW) pith_jbuf_puts(b, ")");
}

static void repr_dict(struct pith_jbuf *b, const struct pith_jdict *d)
{
    pith_jbuf_puts(b, "{");
    for (size_t i = 0; i < d->count && b->r->status == PITH_OK; i++) {
        if (i) pith_jbuf_puts(b, ", ");
        pith_jrepr(b, d->pair[i].key);
        pith_jbuf_puts(b, ": ");
        pith_jrepr(b, d->pair[i].value);
    }
    pith_jbuf_puts(b, "}");
}

void pith_jrepr(struct pith_jbuf *b, struct pith_jv v)
{
    if (!pith_jstep(b->r, 1) || !pith_jdeeper(b->r)) return;
    switch (v.kind) {
    case PITH_J_MISSING:
    case PITH_J_UNDEFINED: pith_jbuf_puts(b, "Undefined"); break;
    case PITH_J_NONE: pith_jbuf_puts(b, "None"); break;
    case PITH_J_BOOL: pith_jbuf_puts(b, v.u.b ? "True" : "False"); break;
    case PITH_J_INT: print_int(b, v.u.i); break;
    case PITH_J_FLOAT: print_real(b, v.u.d, false); break;
    case PITH_J_BIG: pith_jbuf_str(b, v.u.s); break;
    case PITH_J_STRING: repr_text(b, v.u.s); break;
    case PITH_J_LIST:
    case PITH_J_TUPLE:
    case PITH_J_RANGE:
    case PITH_J_VIEW: repr_list(b, v); break;
    case PITH_J_DICT: repr_dict(b, v.u.dict); break;
    case PITH_J_NAMESPACE:
        pith_jbuf_puts(b, "<Namespace ");
        repr_dict(b, v.u.dict);
        pith_jbuf_puts(b, ">");
        break;
    default: (void)pith_jfail(b->r, "a %s cannot be printed", pith_jtype(v)); break;
    }
    b->r->depth--;
}

void pith_jprint(struct pith_jbuf *b, struct pith_jv v)
{
    if (v.kind == PITH_J_STRING) pith_jbuf_str(b, v.u.s);
    else if (v.kind != PITH_J_UNDEFINED) pith_jrepr(b, v);
}

struct pith_jv pith_jstring(struct pith_jrun *r, struct pith_jv v)
{
    if (v.kind == PITH_J_STRING) return v;
    struct pith_jbuf b = {.r = r};
    pith_jprint(&b, v);
    return pith_jbuf_value(&b);
}

/* ---- JSON ---- */

static void dump_char(struct pith_jbuf *b, const struct pith_jstr *s, size_t at, size_t n,
                      bool ascii)
{
    const uint32_t cp = pith_utf8_get(s->s + at);
    char text[16];
    switch (cp) {
    case '"': strcpy(text, "\\\""); break;
    case '\\': strcpy(text, "\\\\"); break;
    case '\n': strcpy(text, "\\n"); break;
    case '\r': strcpy(text, "\\r"); break;
    case '\t': strcpy(text, "\\t"); break;
    case '\b': strcpy(text, "\\b"); break;
    case '\f': strcpy(text, "\\f"); break;
    default:
        if (cp >= 0x20 && (!ascii || cp < 0x7f)) {
            pith_jbuf_part(b, s, at, n);
            return;
        }
        if (cp < 0x10000) snprintf(text, sizeof text, "\\u%04x", cp);
        else
            snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
                     0xdc00 + ((cp - 0x10000) & 0x3ff));
    }
    pith_jbuf_add(b, text, strlen(text), marked_at(s, at));
}

static void dump_text(struct pith_jbuf *b, const struct pith_jstr *s, bool ascii)
{
    pith_jbuf_puts(b, "\"");
    for (size_t i = 0, n; i < s->len && b->r->status == PITH_OK; i += n) {
        n = pith_utf8_len(s->s[i]);
        dump_char(b, s, i, n, ascii);
    }
    pith_jbuf_puts(b, "\"");
}

struct dump {
    struct pith_jbuf *b;
    const struct pith_jjson *how;
    size_t level;
};

static void new_line(const struct dump *d)
{
    if (!d->how->indent) return;
    pith_jbuf_puts(d->b, "\n");
    for (size_t i = 0; i < d->level && d->b->r->status == PITH_OK; i++)
        pith_jbuf_str(d->b, d->how->indent);
}

static void dump(struct dump *d, struct pith_jv v);

static void dump_list(struct dump *d, const struct pith_jlist *l)
{
    pith_jbuf_puts(d->b, "[");
    d->level++;
    for (size_t i = 0; i < l->count && d->b->r->status == PITH_OK; i++) {
        if (i) pith_jbuf_str(d->b, d->how->comma);
        new_line(d);
        dump(d, l->item[i]);
    }
    d->level--;
    if (l->count) new_line(d);
    pith_jbuf_puts(d->b, "]");
}

static void dump_key(struct dump *d, struct pith_jv key)
{
    struct pith_jbuf b = {.r = d->b->r};
    if (key.kind == PITH_J_STRING) {
        dump_text(d->b, key.u.s, d->how->ascii);
        return;
    }
    if (key.kind == PITH_J_TUPLE) {
        (void)pith_jfail(b.r, "keys must be str, int, float, bool or None, not tuple");
        return;
    }
    struct dump inner = {&b, d->how, 0};
    dump(&inner, key);
    pith_jbuf_puts(d->b, "\"");
    pith_jbuf_add(d->b, b.s ? b.s : "", b.len, false);
    pith_jbuf_puts(d->b, "\"");
}

/* The members in the order of their keys, by insertion: few have many. */
static const struct pith_jpair *in_order(struct pith_jrun *r, const struct pith_jdict *d)
{
    struct pith_jpair *p = pith_jtake(r, d->count + 1, sizeof *p);
    for (size_t i = 0; p && i < d->count && r->status == PITH_OK; i++) {
        size_t at = i;
        while (at > 0 && pith_jcompare(r, d->pair[i].key, p[at - 1].key) < 0) {
            p[at] = p[at - 1];
            at--;
        }
        p[at] = d->pair[i];
    }
    return p;
}

static void dump_dict(struct dump *d, const struct pith_jdict *dict)
{
    const struct pith_jpair *pair = d->how->sorted ? in_order(d->b->r, dict) : dict->pair;
    pith_jbuf_puts(d->b, "{");
    d->level++;
    for (size_t i = 0; i < dict->count && d->b->r->status == PITH_OK; i++) {
        if (i) pith_jbuf_str(d->b, d->how->comma);
        new_line(d);
        dump_key(d, pair[i].key);
        pith_jbuf_str(d->b, d->how->colon);
        dump(d, pair[i].value);
    }
    d->level--;
    if (dict->count) new_line(d);
    pith_jbuf_puts(d->b, "}");
}

static void dump(struct dump *d, struct pith_jv v)
{
    struct pith_jbuf *b = d->b;
    if (!pith_jstep(b->r, 1) || !pith_jdeeper(b->r)) return;
    switch (v.kind) {
    case PITH_J_NONE: pith_jbuf_puts(b, "null"); break;
    case PITH_J_BOOL: pith_jbuf_puts(b, v.u.b ? "true" : "false"); break;
    case PITH_J_INT: print_int(b, v.u.i); break;
    case PITH_J_FLOAT: print_real(b, v.u.d, true); break;
    case PITH_J_BIG: pith_jbuf_str(b, v.u.s); break;
    case PITH_J_STRING: dump_text(b, v.u.s, d->how->ascii); break;
    case PITH_J_LIST:
    case PITH_J_TUPLE: dump_list(d, v.u.list); break;
    case PITH_J_DICT: dump_dict(d, v.u.dict); break;
    default:
        (void)pith_jfail(b->r, "Object of type %s is not JSON serializable", pith_jtype(v));
        break;
    }
    b->r->depth--;
}

void pith_jdumps(struct pith_jbuf *b, struct pith_jv v, const struct pith_jjson *how)
{
    struct dump d = {b, how, 0};
    dump(&d, v);
}
