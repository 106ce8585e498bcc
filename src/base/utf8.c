#include "base/utf8.h"

#include <utf8proc.h>

void pith_utf8_put(struct pith_str *s, uint32_t cp)
{
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t n = utf8proc_encode_char((utf8proc_int32_t)cp, bytes);
    if (n > 0) pith_str_append(s, (const char *)bytes, (size_t)n);
}

size_t pith_utf8_count(const char *text, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}
