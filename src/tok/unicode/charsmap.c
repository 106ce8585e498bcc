#include "tok/unicode/charsmap.h"

#include "base/mem.h"
#include "tok/base64.h"
#include "tok/unicode/unicode.h"
#include "tok/unicode/utf8.h"

#include <string.h>
#include <utf8proc.h>

static uint32_t get_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static enum pith_status check_texts(const struct pith_charsmap *m, struct pith_error *err)
{
    if (!pith_utf8_valid(m->texts, m->texts_len))
        return pith_fail(err, PITH_FORMAT, "the normalization rules are not UTF-8");
    for (size_t i = 0, n; i < m->texts_len; i += n + 1) {
        n = strlen(m->texts + i);
        if (n > PITH_CHARSMAP_TEXT)
            return pith_fail(err, PITH_UNSUPPORTED,
                             "a normalization rule makes a text of %zu bytes, more than %d", n,
                             PITH_CHARSMAP_TEXT);
    }
    return PITH_OK;
}

enum pith_status pith_charsmap_read(struct pith_charsmap *m, const uint8_t *data, size_t size,
                                    struct pith_error *err)
{
    pith_charsmap_free(m);
    if (size == 0) return PITH_OK;
    const size_t array = size >= 4 ? get_u32(data) : 0;
    if (size < 4 || array > size - 4 || array % 4 != 0)
        return pith_fail(err, PITH_FORMAT, "the table of normalization rules is broken");
    m->units = array / 4;
    m->unit = pith_alloc(m->units, sizeof *m->unit);
    m->texts_len = size - 4 - array;
    m->texts = pith_strndup((const char *)data + 4 + array, m->texts_len);
    if (!m->unit || !m->texts) return pith_fail_nomem(err, "tokenizer");
    for (size_t i = 0; i < m->units; i++) m->unit[i] = get_u32(data + 4 + i * 4);
    return check_texts(m, err);
}

enum pith_status pith_charsmap_read_base64(struct pith_charsmap *m, const char *text, size_t len,
                                           struct pith_error *err)
{
    size_t size;
    uint8_t *data = pith_alloc(len, 1);
    if (!data) return pith_fail_nomem(err, "tokenizer");
    const enum pith_status s =
        pith_base64_read(text, len, data, &size)
            ? pith_charsmap_read(m, data, size, err)
            : pith_fail(err, PITH_FORMAT, "the table of normalization rules is not base64");
    pith_free(data);
    return s;
}

void pith_charsmap_free(struct pith_charsmap *m)
{
    pith_free(m->unit);
    pith_free(m->texts);
    *m = (struct pith_charsmap){0};
}

/* Rules that a text begins with, from short to long: walks on from where the last one was found.
 * Units are as in Darts-clone: bits 0-7 and 31 label, bit 8 has a value, bits 9-30 offset of the
 * children. */
struct walk {
    const struct pith_charsmap *m;
    size_t at, read; /* the place in the array; bytes of the text */
    uint32_t unit;
};

static size_t children(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 0x200) >> 6);
}

static bool next_rule(struct walk *w, const char *text, size_t len, const char **to)
{
    const struct pith_charsmap *m = w->m;
    if (m->units == 0) return false;
    if (len > PITH_CHARSMAP_TEXT) len = PITH_CHARSMAP_TEXT; /* a damaged array may go in circles */
    if (w->read == 0) w->unit = m->unit[0];
    while (w->read < len) {
        const uint8_t byte = (uint8_t)text[w->read];
        w->at ^= children(w->unit) ^ byte;
        if (w->at >= m->units) return false;
        w->unit = m->unit[w->at];
        if ((w->unit & 0x800000ffu) != byte) return false;
        w->read++;
        const size_t leaf = w->at ^ children(w->unit);
        if (!(w->unit & 0x100) || leaf >= m->units) continue;
        const size_t value = m->unit[leaf] & 0x7fffffffu;
        if (value > m->texts_len) continue;
        *to = m->texts + value;
        return true;
    }
    return false;
}

size_t pith_charsmap_longest(const struct pith_charsmap *m, const char *text, size_t len,
                             const char **to)
{
    struct walk w = {.m = m};
    size_t best = 0;
    while (next_rule(&w, text, len, to)) best = w.read;
    return best;
}

/* ---- as Hugging Face tokenizers does it ---- */

/* Replaces a whole text when it begins with a rule; a NUL byte is in none. */
static bool replaced(const struct pith_charsmap *m, const char *text, size_t len,
                     struct pith_str *out)
{
    struct walk w = {.m = m};
    const char *to, *zero = memchr(text, 0, len);
    if (!next_rule(&w, text, zero ? (size_t)(zero - text) : len, &to)) return false;
    pith_str_puts(out, to);
    return true;
}

/* A character that utf8proc joins to its neighbours as the reference joins this one: a mark, or
 * one that stands before what it belongs to. */
static utf8proc_int32_t alike(uint32_t cp)
{
    enum { MARK = 0x300, IN_FRONT = 0x600 };
    if (pith_unicode_joins(cp)) return MARK;
    return cp == 0x113d1 ? IN_FRONT : cp == 0x11a3a ? 'a' : (utf8proc_int32_t)cp;
}

/* Bytes of the grapheme that the text begins with, or some number above `most` when it has more. */
static size_t grapheme(const char *text, size_t len, size_t most)
{
    utf8proc_int32_t state = 0, last = alike(pith_utf8_get(text));
    size_t n = pith_utf8_len(text[0]);
    while (n < len && n <= most) {
        const utf8proc_int32_t cp = alike(pith_utf8_get(text + n));
        if (utf8proc_grapheme_break_stateful(last, cp, &state)) break;
        n += pith_utf8_len(text[n]);
        last = cp;
    }
    return n;
}

void pith_charsmap_apply(const struct pith_charsmap *m, const char *text, size_t len, size_t limit,
                         struct pith_str *out)
{
    enum { MOST = 5 };
    for (size_t at = 0, n; at < len && out->len <= limit; at += n) {
        n = grapheme(text + at, len - at, MOST);
        if (n <= MOST && replaced(m, text + at, n, out)) continue;
        if (n > MOST) n = grapheme(text + at, len - at, SIZE_MAX);
        for (size_t i = at, c; i < at + n; i += c) {
            c = pith_utf8_len(text[i]);
            if (!replaced(m, text + i, c, out)) pith_str_append(out, text + i, c);
        }
    }
}
