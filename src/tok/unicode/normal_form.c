/* The four normalization forms of Unicode (UAX #15), with the data of utf8proc. Its own reordering
 * of marks takes quadratic time, so that is done here. */
#include "tok/normalizer.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "tok/unicode/unicode.h"
#include "tok/unicode/utf8.h"

#include <stdlib.h>
#include <utf8proc.h>

/* Longest decomposition of one character is 18 (U+FDFA, compatibility). */
#define LONGEST 32

struct marks {
    utf8proc_int32_t *cp;
    size_t count, cap;
};

static bool reserve(struct marks *m, size_t extra)
{
    if (m->cap - m->count >= extra) return true;
    const size_t cap = m->cap ? m->cap * 2 + extra : 256 + extra;
    utf8proc_int32_t *cp = pith_realloc(m->cp, cap, sizeof *cp);
    if (!cp) return false;
    m->cp = cp;
    m->cap = cap;
    return true;
}

static unsigned combining(utf8proc_int32_t cp)
{
    const unsigned c = (unsigned)utf8proc_get_property(cp)->combining_class;
    return c && pith_unicode_later((uint32_t)cp) ? 0 : c;
}

/* Stable counting sort of a run of marks by combining class. */
static bool sort_marks(utf8proc_int32_t *cp, size_t n)
{
    utf8proc_int32_t *copy = pith_alloc(n, sizeof *copy);
    if (!copy) return false;
    size_t start[257] = {0};
    for (size_t i = 0; i < n; i++) start[(combining(cp[i]) & 0xff) + 1]++;
    for (size_t i = 1; i < 257; i++) start[i] += start[i - 1];
    for (size_t i = 0; i < n; i++) copy[start[combining(cp[i]) & 0xff]++] = cp[i];
    for (size_t i = 0; i < n; i++) cp[i] = copy[i];
    pith_free(copy);
    return true;
}

static bool order_marks(struct marks *m)
{
    for (size_t i = 0; i < m->count;) {
        if (combining(m->cp[i]) == 0) {
            i++;
            continue;
        }
        size_t end = i + 1;
        bool sorted = true;
        for (; end < m->count && combining(m->cp[end]) != 0; end++)
            if (combining(m->cp[end]) < combining(m->cp[end - 1])) sorted = false;
        if (!sorted && !sort_marks(m->cp + i, end - i)) return false;
        i = end;
    }
    return true;
}

static bool decompose(const char *text, size_t len, bool compatible, struct marks *m)
{
    const utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                      (compatible ? UTF8PROC_COMPAT : 0);
    for (size_t i = 0; i < len; i += pith_utf8_len(text[i])) {
        if (!reserve(m, LONGEST)) return false;
        const utf8proc_int32_t cp = (utf8proc_int32_t)pith_utf8_get(text + i);
        int boundary = 0;
        utf8proc_ssize_t n = 0;
        if (cp >= 0xa0 && !pith_unicode_later((uint32_t)cp))
            n = utf8proc_decompose_char(cp, m->cp + m->count, LONGEST, options, &boundary);
        if (n > 0 && n <= LONGEST) m->count += (size_t)n;
        else m->cp[m->count++] = cp;
    }
    return order_marks(m);
}

/* Composes the stretches between later characters, each by itself, and appends all. */
static void put_composed(struct marks *m, bool compose, struct pith_str *out)
{
    const utf8proc_option_t options = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    for (size_t from = 0, to; from < m->count; from = to) {
        to = from + 1;
        while (to < m->count && !pith_unicode_later((uint32_t)m->cp[to])) to++;
        utf8proc_ssize_t n = (utf8proc_ssize_t)(to - from);
        if (compose && n > 1) n = utf8proc_normalize_utf32(m->cp + from, n, options);
        for (utf8proc_ssize_t i = 0; i < n; i++)
            pith_utf8_put(out, (uint32_t)m->cp[from + (size_t)i]);
    }
}

enum pith_status pith_normal_form(const char *text, size_t len, bool compatible, bool compose,
                                  struct pith_str *out, struct pith_error *err)
{
    size_t ascii = 0;
    while (ascii < len && !((unsigned char)text[ascii] & 0x80)) ascii++;
    if (ascii == len) {
        pith_str_append(out, text, len);
        return PITH_OK;
    }
    struct marks m = {0};
    if (!decompose(text, len, compatible, &m)) {
        pith_free(m.cp);
        return pith_fail_nomem(err, "normalized text");
    }
    put_composed(&m, compose, out);
    pith_free(m.cp);
    return PITH_OK;
}
