#include "eval/task/white_space.h"

#include <stdbool.h>
#include <stdint.h>
#include <utf8proc.h>

static bool is_space(int32_t c)
{
    static const struct {
        int32_t first, last;
    } ranges[] = {{0x09, 0x0d},     {0x1c, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},
                  {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                  {0x205f, 0x205f}, {0x3000, 0x3000}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (c >= ranges[i].first && c <= ranges[i].last) return true;
    return false;
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Bytes of the white space that text begins with; 0 when it begins with something else. */
static size_t space_at(const char *text, size_t size)
{
    utf8proc_int32_t c;
    const utf8proc_ssize_t n =
        utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size, &c);
    return n > 0 && is_space(c) ? (size_t)n : 0;
}

size_t pith_trim_end(const char *text, size_t size)
{
    while (size) {
        size_t at = size - 1;
        while (at && is_continuation(text[at])) at--;
        if (space_at(text + at, size - at) != size - at) break;
        size = at;
    }
    return size;
}

size_t pith_trim_start(const char *text, size_t size)
{
    size_t at = 0;
    for (size_t n = 1; n && at < size; at += n) n = space_at(text + at, size - at);
    return at;
}
