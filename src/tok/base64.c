#include "tok/base64.h"

/* The six bits of a character, -1 for others. */
static int six_bits(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool pith_base64_read(const char *text, size_t len, uint8_t *out, size_t *size)
{
    uint32_t bits = 0;
    *size = 0;
    while (len && text[len - 1] == '=') len--;
    if (len % 4 == 1) return false;
    for (size_t i = 0; i < len; i++) {
        const int six = six_bits(text[i]);
        if (six < 0) return false;
        bits = bits << 6 | (uint32_t)six;
        if (i % 4) out[(*size)++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
    }
    return true;
}
