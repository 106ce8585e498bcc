/* base/utf8.h: characters of UTF-8, by utf8proc. */
#ifndef PITH_BASE_UTF8_H
#define PITH_BASE_UTF8_H

#include "base/str.h"

#include <stdint.h>

/* Appends a character, a scalar value, in UTF-8. */
void pith_utf8_put(struct pith_str *s, uint32_t cp);
/* How many characters stand in well-formed text of n bytes. */
size_t pith_utf8_count(const char *text, size_t n);

#endif
