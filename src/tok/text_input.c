#include "tok/text_input.h"

#include "base/mem.h"
#include "tok/unicode/utf8.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

/* How much of a text that is refused is looked at to guess what it is. */
#define SAMPLE ((size_t)64 << 10)

/* What the bytes of a sample are. */
struct census {
    size_t size;
    size_t zero[4];  /* by place modulo 4 */
    size_t high;     /* 0x80..0xff */
    size_t c1;       /* 0x80..0x9f: controls in Latin-1, letters and quotes in Windows-1252 */
    size_t controls; /* that no text has */
    size_t wide;     /* bytes in well-formed characters of two bytes or more */
};

static struct census take_census(const char *data, size_t size)
{
    struct census c = {.size = size < SAMPLE ? size : SAMPLE};
    for (size_t i = 0; i < c.size; i++) {
        const unsigned char b = (unsigned char)data[i];
        c.zero[i % 4] += b == 0;
        c.high += b >= 0x80;
        c.c1 += b >= 0x80 && b < 0xa0;
        c.controls += (b < 0x20 && !(b >= '\t' && b <= '\r') && b != 0x1b) || b == 0x7f;
    }
    for (size_t i = 0, n; i < c.size; i += n)
        if (pith_utf8_step(data + i, c.size - i, &n) == PITH_UTF8_VALID && n > 1) c.wide += n;
    return c;
}

/* An encoding: what iconv calls it and what a person does, and how its files begin. */
struct encoding {
    const char *name, *mark;
    size_t mark_size;
};

static const struct encoding utf32le = {"UTF-32LE", "\xff\xfe\0", 4},
                             utf32be = {"UTF-32BE", "\0\0\xfe\xff", 4},
                             utf16le = {"UTF-16LE", "\xff\xfe", 2},
                             utf16be = {"UTF-16BE", "\xfe\xff", 2},
                             latin1 = {"ISO-8859-1", NULL, 0}, windows = {"WINDOWS-1252", NULL, 0};

static const struct encoding *by_mark(const char *data, size_t size)
{
    /* UTF-16LE's mark is the beginning of UTF-32LE's. */
    static const struct encoding *const marked[] = {&utf32le, &utf32be, &utf16le, &utf16be};
    for (size_t i = 0; i < PITH_COUNT(marked); i++)
        if (size >= marked[i]->mark_size &&
            memcmp(data, marked[i]->mark, marked[i]->mark_size) == 0)
            return marked[i];
    return NULL;
}

/* Letters of most languages have zeros where their code has nothing: three of four bytes, or one of
 * two. */
static const struct encoding *by_zeros(const struct census *c)
{
    const size_t quarter = c->size / 4, most = quarter - quarter / 4, few = quarter / 8;
    const size_t *z = c->zero;
    if (quarter < 2) return NULL;
    if (z[1] >= most && z[2] >= most && z[3] >= most && z[0] <= few) return &utf32le;
    if (z[0] >= most && z[1] >= most && z[2] >= most && z[3] <= few) return &utf32be;
    const size_t even = z[0] + z[2], odd = z[1] + z[3], half = c->size / 2;
    if (odd >= half / 4 && even <= odd / 8) return &utf16le;
    if (even >= half / 4 && odd <= even / 8) return &utf16be;
    return NULL;
}

/* One byte a character: a Western text has few of them above 0x7f and hardly any that happen to be
 * well-formed UTF-8. */
static const struct encoding *by_letters(const struct census *c)
{
    if (c->controls || c->high * 5 > c->size * 2 || c->wide * 2 > c->high) return NULL;
    return c->c1 ? &windows : &latin1;
}

static size_t line_of(const char *data, size_t at)
{
    size_t line = 1;
    for (const char *p = data, *end = data + at; (p = memchr(p, '\n', (size_t)(end - p))); p++)
        line++;
    return line;
}

static enum pith_status refuse(const char *name, const char *data, size_t size, size_t at,
                               struct pith_error *err)
{
    const struct census c = take_census(data, size);
    const struct encoding *e = by_mark(data, size);
    size_t len = 0;
    if (!e) e = by_zeros(&c);
    if (!e && !(c.zero[0] + c.zero[1] + c.zero[2] + c.zero[3])) e = by_letters(&c);
    const bool cut = pith_utf8_step(data + at, size - at, &len) == PITH_UTF8_PARTIAL;
    const char *what = c.controls * 16 > c.size  ? "it looks like binary data, not text"
                       : cut && at + len == size ? "it ends inside a character: was it cut?"
                       : c.wide * 2 > c.high     ? "it looks like damaged UTF-8"
                       : data[at] == '\0'        ? "text has no NUL bytes"
                                                 : "it is in another encoding; pith reads UTF-8";
    if (e)
        return pith_fail(err, PITH_FORMAT,
                         "%s: not UTF-8: byte %zu (line %zu) is 0x%02X; it looks like %s: convert "
                         "it first, for instance with iconv -f %s -t UTF-8",
                         name, at, line_of(data, at), (unsigned char)data[at], e->name, e->name);
    return pith_fail(err, PITH_FORMAT, "%s: not UTF-8: byte %zu (line %zu) is 0x%02X; %s", name, at,
                     line_of(data, at), (unsigned char)data[at], what);
}

/* Where the first byte is that cannot be, or size. ASCII goes by eight at a time. */
static size_t first_bad(const char *data, size_t size)
{
    size_t at = 0, len;
    while (at < size) {
        uint64_t eight;
        while (size - at >= sizeof eight) {
            memcpy(&eight, data + at, sizeof eight);
            if (eight & 0x8080808080808080u) break;
            at += sizeof eight;
        }
        if (at == size) break;
        if (pith_utf8_step(data + at, size - at, &len) != PITH_UTF8_VALID) return at;
        at += len;
    }
    const char *zero = size ? memchr(data, '\0', size) : NULL;
    return zero ? (size_t)(zero - data) : size;
}

enum pith_status pith_text_check(const char *name, const char *data, size_t size,
                                 struct pith_error *err)
{
    const size_t bad = first_bad(data, size);
    return bad == size ? PITH_OK : refuse(name, data, size, bad, err);
}

enum pith_status pith_newlines_read(const char *crlf, struct pith_newlines *out,
                                    struct pith_error *err)
{
    const bool lf = crlf && strcasecmp(crlf, "lf") == 0;
    *out = (struct pith_newlines){.lf = lf};
    if (!crlf || lf || strcasecmp(crlf, "keep") == 0) return PITH_OK;
    return pith_fail(err, PITH_ARG, "`crlf` \"%.80s\": keep or lf", crlf);
}

size_t pith_text_mark(const char *data, size_t size)
{
    return size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

static size_t count_crlf(const char *data, size_t size)
{
    size_t count = 0;
    for (const char *p = data, *end = data + size; (p = memchr(p, '\r', (size_t)(end - p))); p++)
        count += p + 1 < end && p[1] == '\n';
    return count;
}

static enum pith_status drop_cr(struct pith_text *t, struct pith_error *err)
{
    /* As long as the text: it is mapped, and may have other line ends than were counted by now. */
    char *to = t->owned = pith_alloc(t->size, 1);
    if (!to) return pith_fail_nomem(err, "text");
    const char *from = t->data, *end = t->data + t->size;
    while (from < end) {
        const char *stop = memchr(from, '\r', (size_t)(end - from));
        if (!stop) stop = end;
        memcpy(to, from, (size_t)(stop - from));
        to += stop - from;
        if (stop < end && !(stop + 1 < end && stop[1] == '\n')) *to++ = '\r';
        from = stop + 1;
    }
    t->data = t->owned;
    t->size = (size_t)(to - t->owned);
    return PITH_OK;
}

enum pith_status pith_text_open(const char *path, struct pith_newlines *newlines,
                                struct pith_text *out, struct pith_error *err)
{
    *out = (struct pith_text){0};
    PITH_TRY(pith_map_open(path, &out->map, err));
    out->data = out->map.data ? (const char *)out->map.data : "";
    out->size = out->map.size;
    enum pith_status s = pith_text_check(path, out->data, out->size, err);
    const size_t mark = pith_text_mark(out->data, out->size);
    out->data += mark;
    out->size -= mark;
    if (s == PITH_OK && newlines) {
        const size_t crlf = count_crlf(out->data, out->size);
        newlines->crlf += crlf;
        if (crlf && newlines->lf) s = drop_cr(out, err);
    }
    /* What is damaged may be so because someone is at work on it. */
    return s == PITH_OK ? s : pith_text_finish(out, path, s, err);
}

void pith_text_close(struct pith_text *text)
{
    pith_map_close(&text->map);
    pith_free(text->owned);
    *text = (struct pith_text){0};
}

enum pith_status pith_text_finish(struct pith_text *text, const char *path, enum pith_status s,
                                  struct pith_error *err)
{
    struct pith_error why = {0};
    const enum pith_status changed = pith_map_check(&text->map, path, false, &why);
    if (changed != PITH_OK && err) *err = why;
    pith_text_close(text);
    return changed != PITH_OK ? changed : s;
}
