/* Filters of one value. */
#include "tok/jinja/functions.h"
#include "tok/jinja/print.h"
#include "tok/jinja/text.h"
#include "tok/unicode/unicode.h"
#include "tok/unicode/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An argument, absent where it was omitted. */
#define GIVEN(i) (a->pos[i].kind != PITH_J_MISSING)
#define TRUTH(i) (GIVEN(i) && pith_jtrue(a->pos[i]))

/* str(v); an empty one after a failure. */
static const struct pith_jstr *text_of(struct pith_jrun *r, struct pith_jv v)
{
    static const struct pith_jstr empty = {.s = ""};
    const struct pith_jv s = pith_jstring(r, v);
    return r->status == PITH_OK && s.kind == PITH_J_STRING ? s.u.s : &empty;
}

JINJA_FN(pith_jf_abs)
{
    (void)a;
    int64_t i;
    if (pith_jinteger(self, &i)) return i == INT64_MIN ? self : pith_jint(i < 0 ? -i : i);
    if (self.kind == PITH_J_FLOAT) return pith_jfloat(fabs(self.u.d));
    return pith_jfail(r, "bad operand type for abs(): '%s'", pith_jtype(self));
}

JINJA_FN(pith_jf_attr)
{
    const struct pith_jstr *name = text_of(r, a->pos[0]);
    /* A dict's member is none of its attributes. */
    if (self.kind == PITH_J_DICT && !pith_jmethod_row(self, name))
        return pith_jundefined(r, "'dict object' has no attribute '%.*s'",
                               (int)(name->len < 80 ? name->len : 80), name->s);
    return pith_jattr(r, self, name);
}

JINJA_FN(pith_jf_capitalize)
{
    (void)a;
    return pith_jcased(r, text_of(r, self), PITH_J_CAPITALIZE);
}

JINJA_FN(pith_jf_lower)
{
    (void)a;
    return pith_jcased(r, text_of(r, self), PITH_J_LOWER);
}

JINJA_FN(pith_jf_upper)
{
    (void)a;
    return pith_jcased(r, text_of(r, self), PITH_J_UPPER);
}

JINJA_FN(pith_jf_title)
{
    (void)a;
    return pith_jcased(r, text_of(r, self), PITH_J_TITLE_WORDS);
}

static void blanks(struct pith_jbuf *b, int64_t n)
{
    for (int64_t i = 0; i < n && pith_jstep(b->r, 1); i++) pith_jbuf_add(b, " ", 1, false);
}

JINJA_FN(pith_jf_center)
{
    const struct pith_jstr *s = text_of(r, self);
    const int64_t width = pith_jcount(r, a->pos[0], 80);
    const int64_t pad = width - (int64_t)pith_jchars(s);
    if (pad <= 0) return pith_jslice(r, s, 0, s->len);
    const int64_t left = pad / 2 + (pad & width & 1);
    struct pith_jbuf b = {.r = r};
    blanks(&b, left);
    pith_jbuf_str(&b, s);
    blanks(&b, pad - left);
    return pith_jbuf_value(&b);
}

JINJA_FN(pith_jf_default)
{
    if (self.kind != PITH_J_UNDEFINED && !(TRUTH(1) && !pith_jtrue(self))) return self;
    return GIVEN(0) ? a->pos[0] : pith_jtext(r, "", 0, false);
}

static struct pith_jv made_safe(struct pith_jrun *r, const struct pith_jstr *s)
{
    struct pith_jstr *copy = pith_jtake(r, 1, sizeof *copy);
    if (!copy) return pith_jnone();
    *copy = *s;
    copy->safe = true;
    return (struct pith_jv){.kind = PITH_J_STRING, .u.s = copy};
}

JINJA_FN(pith_jf_safe)
{
    (void)a;
    return made_safe(r, text_of(r, self));
}

JINJA_FN(pith_jf_escape)
{
    (void)a;
    const struct pith_jstr *s = text_of(r, self);
    if (s->safe) return self;
    const struct pith_jv v = pith_jescape(r, s);
    return r->status == PITH_OK ? made_safe(r, v.u.s) : v;
}

JINJA_FN(pith_jf_string)
{
    (void)a;
    return pith_jstring(r, self);
}

JINJA_FN(pith_jf_length)
{
    (void)a;
    return pith_jint(pith_jlength(r, self));
}

JINJA_FN(pith_jf_first)
{
    (void)a;
    const struct pith_jlist *l = pith_jitems(r, self);
    return l && l->count ? l->item[0] : pith_jundefined(r, "No first item, sequence was empty.");
}

JINJA_FN(pith_jf_last)
{
    (void)a;
    const struct pith_jlist *l = pith_jitems(r, self);
    return l && l->count ? l->item[l->count - 1]
                         : pith_jundefined(r, "No last item, sequence was empty.");
}

/* A number as Python's int() and float() read it from a text: blanks around it, nothing else. */
static const char *number_text(const struct pith_jstr *s, char room[64])
{
    const size_t from = pith_jblank(s->s, s->len), to = pith_jtrimmed(s->s, s->len);
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        if (n == 63) return NULL;
        if (s->s[i] == 'x' || s->s[i] == 'X' || (unsigned char)s->s[i] >= 0x80) return NULL;
        if (s->s[i] != '_') room[n++] = s->s[i];
    }
    room[n] = '\0';
    return n ? room : NULL;
}

static bool read_real(struct pith_jv v, double *out)
{
    char room[64], *end;
    if (pith_jis_number(v)) {
        *out = pith_jreal(v);
        return true;
    }
    const char *text = v.kind == PITH_J_STRING ? number_text(v.u.s, room) : NULL;
    if (!text) return false;
    *out = strtod(text, &end);
    return *end == '\0';
}

JINJA_FN(pith_jf_float)
{
    double d;
    (void)r;
    if (read_real(self, &d)) return pith_jfloat(d);
    return GIVEN(0) ? a->pos[0] : pith_jfloat(0);
}

JINJA_FN(pith_jf_int)
{
    char room[64], *end;
    int64_t i;
    double d;
    if (pith_jinteger(self, &i)) return pith_jint(i);
    const int64_t base = pith_jcount(r, a->pos[1], 10);
    const char *text = self.kind == PITH_J_STRING ? number_text(self.u.s, room) : NULL;
    if (text && base >= 2 && base <= 36) {
        const long long n = strtoll(text, &end, (int)base);
        if (*end == '\0' && n != INT64_MAX && n != INT64_MIN) return pith_jint(n);
    }
    if (read_real(self, &d) && fabs(d) < 9e18) return pith_jint((int64_t)d);
    return GIVEN(0) ? a->pos[0] : pith_jint(0);
}

JINJA_FN(pith_jf_round)
{
    const int64_t places = pith_jcount(r, a->pos[0], 0);
    const struct pith_jstr *how = pith_jtext_of(r, a->pos[1]);
    char text[400];
    if (!pith_jis_number(self))
        return pith_jfail(r, "type %s doesn't define __round__", pith_jtype(self));
    if (places < 0 || places > 15) return pith_jfail(r, "round: 0 to 15 places");
    const double d = pith_jreal(self), scale = pow(10, (double)places);
    if (how && pith_jis(how, "ceil")) return pith_jfloat(ceil(d * scale) / scale);
    if (how && pith_jis(how, "floor")) return pith_jfloat(floor(d * scale) / scale);
    if (how && !pith_jis(how, "common"))
        return pith_jfail(r, "method must be common, ceil or floor");
    if (self.kind != PITH_J_FLOAT) return self;
    snprintf(text, sizeof text, "%.*f", (int)places, d);
    return pith_jfloat(strtod(text, NULL));
}

JINJA_FN(pith_jf_trim)
{
    return pith_jstrip(r, text_of(r, self), pith_jtext_of(r, a->pos[0]), true, true);
}

JINJA_FN(pith_jf_replace)
{
    return pith_jreplace(r, text_of(r, self), text_of(r, a->pos[0]), text_of(r, a->pos[1]),
                         pith_jcount(r, a->pos[2], -1));
}

JINJA_FN(pith_jf_format)
{
    struct pith_jv args = pith_jlist_new(r, PITH_J_TUPLE);
    for (size_t i = 0; i < a->count && r->status == PITH_OK; i++)
        pith_jlist_add(r, args.u.list, a->pos[i]);
    if (a->named)
        return pith_jfail(r, "format: named arguments are not supported in chat templates");
    return pith_jpercent(r, text_of(r, self), args);
}

JINJA_FN(pith_jf_indent)
{
    const struct pith_jstr *s = text_of(r, self);
    const int64_t width = a->pos[0].kind == PITH_J_STRING ? 0 : pith_jcount(r, a->pos[0], 4);
    struct pith_jbuf b = {.r = r}, by = {.r = r};
    if (a->pos[0].kind == PITH_J_STRING) pith_jbuf_str(&by, a->pos[0].u.s);
    blanks(&by, width);
    const struct pith_jv indent = pith_jbuf_value(&by);
    struct pith_jbuf whole = {.r = r};
    pith_jbuf_str(&whole, s);
    pith_jbuf_puts(&whole, "\n"); /* a last line break stays */
    const struct pith_jv text = pith_jbuf_value(&whole);
    if (r->status != PITH_OK) return text;
    const struct pith_jv lines = pith_jlines(r, text.u.s, false);
    for (size_t i = 0; r->status == PITH_OK && i < lines.u.list->count; i++) {
        const struct pith_jstr *line = lines.u.list->item[i].u.s;
        if (i) pith_jbuf_puts(&b, "\n");
        if (i == 0 ? TRUTH(1) : line->len || TRUTH(2)) pith_jbuf_str(&b, indent.u.s);
        pith_jbuf_str(&b, line);
    }
    return pith_jbuf_value(&b);
}

JINJA_FN(pith_jf_wordcount)
{
    (void)a;
    const struct pith_jstr *s = text_of(r, self);
    int64_t words = 0;
    bool inside = false;
    for (size_t i = 0; i < s->len; i += pith_utf8_len(s->s[i])) {
        const bool word = pith_is_word(pith_utf8_get(s->s + i));
        words += word && !inside;
        inside = word;
    }
    return pith_jint(words);
}

JINJA_FN(pith_jf_tojson)
{
    static const struct pith_jstr comma = {.s = ", ", .len = 2}, tight = {.s = ",", .len = 1},
                                  colon = {.s = ": ", .len = 2};
    struct pith_jjson how = {TRUTH(0), TRUTH(3), NULL, &comma, &colon};
    struct pith_jbuf b = {.r = r}, by = {.r = r};
    if (GIVEN(1) && a->pos[1].kind != PITH_J_NONE) {
        if (a->pos[1].kind == PITH_J_STRING) pith_jbuf_str(&by, a->pos[1].u.s);
        else blanks(&by, pith_jcount(r, a->pos[1], 0));
        const struct pith_jv indent = pith_jbuf_value(&by);
        if (r->status != PITH_OK) return indent;
        how.indent = indent.u.s;
        how.comma = &tight;
    }
    if (GIVEN(2) && a->pos[2].kind != PITH_J_NONE) {
        const struct pith_jlist *l = pith_jitems(r, a->pos[2]);
        if (!l || l->count != 2 || !pith_jtext_of(r, l->item[0]) || !pith_jtext_of(r, l->item[1]))
            return pith_jfail(r, "tojson: separators are two strings");
        how.comma = l->item[0].u.s;
        how.colon = l->item[1].u.s;
    }
    pith_jdumps(&b, self, &how);
    return pith_jbuf_value(&b);
}

JINJA_FN(pith_jf_from_json)
{
    (void)a;
    const struct pith_jstr *s = pith_jtext_of(r, self);
    struct pith_error err = {0};
    json_t *j = NULL;
    if (!s || !pith_jstep(r, s->len)) return pith_jfail(r, "from_json: no text");
    struct pith_str text = {0};
    pith_str_puts(&text, "[");
    pith_str_append(&text, s->s, s->len);
    pith_str_puts(&text, "]"); /* jansson reads lists and objects alone */
    struct pith_jv v = {.kind = PITH_J_UNDEFINED};
    if (text.failed) v = pith_jnomem(r);
    else if (pith_json_parse(text.data, text.len, "from_json", &j, &err) != PITH_OK ||
             json_array_size(j) != 1)
        v = pith_jfail(r, "%s", err.text[0] ? err.text : "from_json: not one value");
    else v = pith_jfrom_json(r, json_array_get(j, 0), s->marked || s->marks);
    json_decref(j);
    pith_str_free(&text);
    return v;
}
