#include "tok/jinja/text.h"

#include "base/utf8.h"
#include "tok/unicode/unicode.h"
#include "tok/unicode/utf8.h"

#include <string.h>
#include <utf8proc.h>

/* Whether a character is blank to str.isspace(). */
static bool jspace(uint32_t cp)
{
    return pith_is_space(cp) || (cp >= 0x1c && cp <= 0x1f);
}

size_t pith_jblank(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n && jspace(pith_utf8_get(s + i))) i += pith_utf8_len(s[i]);
    return i;
}

size_t pith_jtrimmed(const char *s, size_t n)
{
    while (n > 0) {
        const size_t before = pith_utf8_back(s, n);
        if (!jspace(pith_utf8_get(s + before))) break;
        n = before;
    }
    return n;
}

static bool among(const struct pith_jstr *chars, const char *c)
{
    const size_t n = pith_utf8_len(*c);
    for (size_t i = 0; i < chars->len; i += pith_utf8_len(chars->s[i]))
        if (chars->len - i >= n && memcmp(chars->s + i, c, n) == 0) return true;
    return false;
}

static bool goes(const struct pith_jstr *chars, const char *c)
{
    return chars ? among(chars, c) : jspace(pith_utf8_get(c));
}

struct pith_jv pith_jstrip(struct pith_jrun *r, const struct pith_jstr *s,
                           const struct pith_jstr *chars, bool left, bool right)
{
    size_t from = 0, to = s->len;
    while (left && from < to && goes(chars, s->s + from)) from += pith_utf8_len(s->s[from]);
    while (right && to > from) {
        const size_t before = pith_utf8_back(s->s, to);
        if (!goes(chars, s->s + before)) break;
        to = before;
    }
    (void)pith_jstep(r, (s->len - (to - from)) / 8);
    return pith_jslice(r, s, from, to - from);
}

/* Whether what stands at `at`; long comparisons are counted as work. */
static bool stands(struct pith_jrun *r, const struct pith_jstr *s, const struct pith_jstr *what,
                   size_t at)
{
    const size_t first = what->len < 16 ? what->len : 16;
    if (first && memcmp(s->s + at, what->s, first) != 0) return false;
    if (first == what->len) return true;
    return pith_jstep(r, what->len / 64 + 1) && memcmp(s->s + at, what->s, what->len) == 0;
}

size_t pith_jfind(struct pith_jrun *r, const struct pith_jstr *s, const struct pith_jstr *what,
                  size_t from, bool last)
{
    if (from > s->len || what->len > s->len - from) return SIZE_MAX;
    const size_t end = s->len - what->len;
    for (size_t i = 0; i <= end - from && r->status == PITH_OK; i++) {
        const size_t at = last ? end - i : from + i;
        if (stands(r, s, what, at)) return at;
    }
    return SIZE_MAX;
}

/* ---- split ---- */

static bool add_part(struct pith_jrun *r, struct pith_jlist *out, const struct pith_jstr *s,
                     size_t from, size_t to)
{
    return pith_jlist_add(r, out, pith_jslice(r, s, from, to - from));
}

static void reverse(struct pith_jlist *l)
{
    for (size_t i = 0, j = l->count; i + 1 < j; i++) {
        const struct pith_jv v = l->item[i];
        l->item[i] = l->item[--j];
        l->item[j] = v;
    }
}

static void split_blanks(struct pith_jrun *r, const struct pith_jstr *s, int64_t most,
                         struct pith_jlist *out)
{
    size_t at = pith_jblank(s->s, s->len);
    for (int64_t cuts = 0; at < s->len && r->status == PITH_OK; cuts++) {
        size_t to = at;
        if (most >= 0 && cuts >= most) {
            add_part(r, out, s, at, at + pith_jtrimmed(s->s + at, s->len - at));
            return;
        }
        while (to < s->len && !jspace(pith_utf8_get(s->s + to))) to += pith_utf8_len(s->s[to]);
        if (!add_part(r, out, s, at, to)) return;
        at = to + pith_jblank(s->s + to, s->len - to);
    }
}

static void rsplit_blanks(struct pith_jrun *r, const struct pith_jstr *s, int64_t most,
                          struct pith_jlist *out)
{
    size_t end = pith_jtrimmed(s->s, s->len);
    for (int64_t cuts = 0; end > 0 && r->status == PITH_OK; cuts++) {
        size_t from = end;
        if (most >= 0 && cuts >= most) {
            const size_t first = pith_jblank(s->s, end);
            add_part(r, out, s, first, end);
            break;
        }
        while (from > 0) {
            const size_t before = pith_utf8_back(s->s, from);
            if (jspace(pith_utf8_get(s->s + before))) break;
            from = before;
        }
        if (!add_part(r, out, s, from, end)) break;
        end = pith_jtrimmed(s->s, from);
    }
    reverse(out);
}

static void split_at(struct pith_jrun *r, const struct pith_jstr *s, const struct pith_jstr *by,
                     int64_t most, struct pith_jlist *out)
{
    size_t from = 0;
    for (int64_t cuts = 0; (most < 0 || cuts < most) && r->status == PITH_OK; cuts++) {
        const size_t at = pith_jfind(r, s, by, from, false);
        if (at == SIZE_MAX) break;
        if (!add_part(r, out, s, from, at)) return;
        from = at + by->len;
    }
    add_part(r, out, s, from, s->len);
}

static void rsplit_at(struct pith_jrun *r, const struct pith_jstr *s, const struct pith_jstr *by,
                      int64_t most, struct pith_jlist *out)
{
    struct pith_jstr left = *s;
    for (int64_t cuts = 0; (most < 0 || cuts < most) && r->status == PITH_OK; cuts++) {
        const size_t at = pith_jfind(r, &left, by, 0, true);
        if (at == SIZE_MAX) break;
        if (!add_part(r, out, s, at + by->len, left.len)) return;
        left.len = at;
    }
    add_part(r, out, s, 0, left.len);
    reverse(out);
}

struct pith_jv pith_jsplit(struct pith_jrun *r, const struct pith_jstr *s,
                           const struct pith_jstr *by, int64_t most, bool right)
{
    const struct pith_jv l = pith_jlist_new(r, PITH_J_LIST);
    if (!pith_jstep(r, s->len / 16)) return l;
    if (by && by->len == 0) return pith_jfail(r, "empty separator");
    if (by && right) rsplit_at(r, s, by, most, l.u.list);
    else if (by) split_at(r, s, by, most, l.u.list);
    else if (right) rsplit_blanks(r, s, most, l.u.list);
    else split_blanks(r, s, most, l.u.list);
    return l;
}

/* Bytes of the line end that stands at s, 0: none. */
static size_t line_end(const char *s, size_t n)
{
    const uint32_t cp = pith_utf8_get(s);
    if (cp == '\r') return n > 1 && s[1] == '\n' ? 2 : 1;
    if ((cp >= '\n' && cp <= '\f') || (cp >= 0x1c && cp <= 0x1e) || cp == 0x85 || cp == 0x2028 ||
        cp == 0x2029)
        return pith_utf8_len(*s);
    return 0;
}

struct pith_jv pith_jlines(struct pith_jrun *r, const struct pith_jstr *s, bool keep)
{
    const struct pith_jv l = pith_jlist_new(r, PITH_J_LIST);
    size_t from = 0;
    for (size_t at = 0; at < s->len && r->status == PITH_OK;) {
        const size_t n = line_end(s->s + at, s->len - at);
        if (n) {
            add_part(r, l.u.list, s, from, at + (keep ? n : 0));
            from = at + n;
        }
        at += n ? n : pith_utf8_len(s->s[at]);
    }
    if (from < s->len) add_part(r, l.u.list, s, from, s->len);
    return l;
}

struct pith_jv pith_jreplace(struct pith_jrun *r, const struct pith_jstr *s,
                             const struct pith_jstr *from, const struct pith_jstr *to, int64_t most)
{
    struct pith_jbuf b = {.r = r};
    size_t at = 0;
    if (!pith_jstep(r, s->len / 16)) return pith_jnone();
    for (int64_t n = 0; (most < 0 || n < most) && r->status == PITH_OK; n++) {
        const size_t next = pith_jfind(r, s, from, at, false);
        if (next == SIZE_MAX) break;
        pith_jbuf_part(&b, s, at, next - at);
        pith_jbuf_str(&b, to);
        at = next + from->len;
        if (from->len) continue;
        if (at == s->len) break;
        const size_t c = pith_utf8_len(s->s[at]);
        pith_jbuf_part(&b, s, at, c);
        at += c;
    }
    pith_jbuf_part(&b, s, at, s->len - at);
    return pith_jbuf_value(&b);
}

/* ---- upper and lower case ---- */

static bool is_letter(uint32_t cp)
{
    const utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT;
}

/* Whether the character at `at` begins what gets a capital. */
static bool begins(const struct pith_jstr *s, size_t at, enum pith_jcase how)
{
    if (at == 0) return true;
    const uint32_t before = pith_utf8_get(s->s + pith_utf8_back(s->s, at));
    if (how == PITH_J_TITLE) return !is_letter(before);
    return how == PITH_J_TITLE_WORDS &&
           (jspace(before) || (before < 0x80 && before && strchr("-({[<", (int)before)));
}

struct pith_jv pith_jcased(struct pith_jrun *r, const struct pith_jstr *s, enum pith_jcase how)
{
    struct pith_jbuf b = {.r = r};
    struct pith_str c = {0};
    for (size_t i = 0, n; i < s->len && r->status == PITH_OK; i += n) {
        n = pith_utf8_len(s->s[i]);
        const utf8proc_int32_t cp = (utf8proc_int32_t)pith_utf8_get(s->s + i);
        const bool capital = how != PITH_J_LOWER && (how == PITH_J_UPPER || begins(s, i, how));
        const utf8proc_int32_t other = !capital              ? utf8proc_tolower(cp)
                                       : how == PITH_J_UPPER ? utf8proc_toupper(cp)
                                                             : utf8proc_totitle(cp);
        pith_str_clear(&c);
        if (capital && cp == 0xdf) pith_str_puts(&c, how == PITH_J_UPPER ? "SS" : "Ss");
        else pith_utf8_put(&c, (uint32_t)other);
        pith_jbuf_add(&b, pith_str_text(&c), c.len, s->marks ? s->marks[i] : s->marked);
    }
    if (c.failed) (void)pith_jnomem(r);
    pith_str_free(&c);
    return pith_jbuf_value(&b);
}

struct pith_jv pith_jjoin(struct pith_jrun *r, const struct pith_jstr *with,
                          const struct pith_jlist *items)
{
    struct pith_jbuf b = {.r = r};
    for (size_t i = 0; i < items->count && r->status == PITH_OK; i++) {
        if (items->item[i].kind != PITH_J_STRING)
            return pith_jfail(r, "sequence item %zu: expected str instance, %s found", i,
                              pith_jtype(items->item[i]));
        if (i) pith_jbuf_str(&b, with);
        pith_jbuf_str(&b, items->item[i].u.s);
    }
    return pith_jbuf_value(&b);
}

struct pith_jv pith_jescape(struct pith_jrun *r, const struct pith_jstr *s)
{
    struct pith_jbuf b = {.r = r};
    for (size_t i = 0; i < s->len && r->status == PITH_OK; i++) {
        const char *as = s->s[i] == '&'    ? "&amp;"
                         : s->s[i] == '<'  ? "&lt;"
                         : s->s[i] == '>'  ? "&gt;"
                         : s->s[i] == '"'  ? "&#34;"
                         : s->s[i] == '\'' ? "&#39;"
                                           : NULL;
        if (as) pith_jbuf_add(&b, as, strlen(as), s->marks ? s->marks[i] : s->marked);
        else pith_jbuf_part(&b, s, i, 1);
    }
    return pith_jbuf_value(&b);
}
