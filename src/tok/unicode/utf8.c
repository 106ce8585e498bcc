#include "tok/unicode/utf8.h"

#include <string.h>
#include <utf8proc.h>

/* Range of the second byte after each lead byte (Unicode 15, table 3-7); later bytes are 80..BF. */
static size_t lead_shape(unsigned char c, unsigned char *lo, unsigned char *hi)
{
    *lo = 0x80;
    *hi = 0xbf;
    if (c < 0x80) return 1;
    if (c >= 0xc2 && c <= 0xdf) return 2;
    if (c >= 0xe0 && c <= 0xef) {
        if (c == 0xe0) *lo = 0xa0;
        if (c == 0xed) *hi = 0x9f;
        return 3;
    }
    if (c >= 0xf0 && c <= 0xf4) {
        if (c == 0xf0) *lo = 0x90;
        if (c == 0xf4) *hi = 0x8f;
        return 4;
    }
    return 0;
}

enum pith_utf8 pith_utf8_step(const char *s, size_t n, size_t *len)
{
    const unsigned char *p = (const unsigned char *)s;
    unsigned char lo, hi;
    const size_t want = lead_shape(p[0], &lo, &hi);
    *len = 1;
    if (want == 0) return PITH_UTF8_INVALID;
    for (size_t i = 1; i < want; i++) {
        if (i == n) {
            *len = n;
            return PITH_UTF8_PARTIAL;
        }
        if (p[i] < lo || p[i] > hi) {
            *len = i;
            return PITH_UTF8_INVALID;
        }
        lo = 0x80;
        hi = 0xbf;
    }
    *len = want;
    return PITH_UTF8_VALID;
}

bool pith_utf8_valid(const char *s, size_t n)
{
    size_t len;
    for (size_t i = 0; i < n; i += len)
        if (pith_utf8_step(s + i, n - i, &len) != PITH_UTF8_VALID) return false;
    return true;
}

void pith_utf8_clean(const char *s, size_t n, struct pith_str *out)
{
    size_t from = 0, len;
    for (size_t i = 0; i < n; i += len) {
        if (pith_utf8_step(s + i, n - i, &len) == PITH_UTF8_VALID) continue;
        pith_str_append(out, s + from, i - from);
        pith_str_puts(out, PITH_UTF8_REPLACEMENT);
        from = i + len;
    }
    pith_str_append(out, s + from, n - from);
}

size_t pith_utf8_len(char lead)
{
    const unsigned char c = (unsigned char)lead;
    if (c < 0x80) return 1;
    if (c < 0xe0) return 2;
    return c < 0xf0 ? 3 : 4;
}

uint32_t pith_utf8_get(const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    switch (pith_utf8_len(s[0])) {
    case 1: return p[0];
    case 2: return (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu);
    case 3: return (p[0] & 0x0fu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    default:
        return (p[0] & 0x07u) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
    }
}

size_t pith_utf8_back(const char *s, size_t at)
{
    do at--;
    while (at > 0 && ((unsigned char)s[at] & 0xc0) == 0x80);
    return at;
}
