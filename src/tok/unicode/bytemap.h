/* tok/unicode/bytemap.h: GPT-2's spelling of bytes as printable characters. Bytes 33-126, 161-172
 * and 174-255 stand for themselves; the other 68 become U+0100, U+0101, ... in order. */
#ifndef PITH_TOK_UNICODE_BYTEMAP_H
#define PITH_TOK_UNICODE_BYTEMAP_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Appends the spelling of n bytes. */
void pith_bytemap_put(const char *bytes, size_t n, struct pith_str *out);

/* Appends the bytes that well-formed text spells, or the text itself when some character spells
 * none. */
void pith_bytemap_read(const char *text, size_t n, struct pith_str *out);

#endif
