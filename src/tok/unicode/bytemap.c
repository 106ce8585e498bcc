#include "tok/unicode/bytemap.h"

#include "tok/unicode/utf8.h"

/* Ranges of bytes that are spelled by other characters; `first` is the character of `lo`. */
static const struct {
    uint32_t lo, hi, first;
} moved[] = {{0x00, 0x20, 0x100}, {0x7f, 0xa0, 0x121}, {0xad, 0xad, 0x143}};

void pith_bytemap_put(const char *bytes, size_t n, struct pith_str *out)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char b = (unsigned char)bytes[i];
        if (b > 0x20 && b < 0x7f) {
            pith_str_putc(out, bytes[i]);
            continue;
        }
        uint32_t cp = b;
        for (size_t k = 0; k < sizeof moved / sizeof moved[0]; k++)
            if (b >= moved[k].lo && b <= moved[k].hi) cp = b - moved[k].lo + moved[k].first;
        const char two[2] = {(char)(0xc0 | cp >> 6), (char)(0x80 | (cp & 0x3f))};
        pith_str_append(out, two, 2);
    }
}

/* The byte that a character stands for, -1 when it is none of the 256. */
static int bytemap_byte(uint32_t cp)
{
    if (cp < 0x100) {
        for (size_t k = 0; k < sizeof moved / sizeof moved[0]; k++)
            if (cp >= moved[k].lo && cp <= moved[k].hi) return -1;
        return (int)cp;
    }
    for (size_t k = 0; k < sizeof moved / sizeof moved[0]; k++)
        if (cp >= moved[k].first && cp - moved[k].first <= moved[k].hi - moved[k].lo)
            return (int)(cp - moved[k].first + moved[k].lo);
    return -1;
}

void pith_bytemap_read(const char *text, size_t n, struct pith_str *out)
{
    const size_t start = out->len;
    for (size_t i = 0; i < n; i += pith_utf8_len(text[i])) {
        const int byte = bytemap_byte(pith_utf8_get(text + i));
        if (byte < 0) {
            if (!out->failed) out->len = start;
            pith_str_append(out, text, n);
            return;
        }
        pith_str_putc(out, (char)byte);
    }
}
