/* tok/base64.h: bytes from their spelling in base64 (RFC 4648, section 4). */
#ifndef PITH_TOK_BASE64_H
#define PITH_TOK_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads all of text, whose padding may be missing, into out, which has room for len bytes; *size is
 * how many they were. False when text is not base64. */
bool pith_base64_read(const char *text, size_t len, uint8_t *out, size_t *size);

#endif
