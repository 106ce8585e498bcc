/* tok/unicode/utf8.h: UTF-8 as the tokenizers see it: strict (no surrogates, no overlong forms,
 * nothing above U+10FFFF), broken input replaced by U+FFFD once per maximal subpart (Unicode 15,
 * section 3.9), as Python's errors="replace" and Rust's from_utf8_lossy do. */
#ifndef PITH_TOK_UNICODE_UTF8_H
#define PITH_TOK_UNICODE_UTF8_H

#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PITH_UTF8_REPLACEMENT "\xef\xbf\xbd"

enum pith_utf8 {
    PITH_UTF8_VALID,   /* a whole character */
    PITH_UTF8_INVALID, /* a maximal subpart of an ill-formed sequence */
    PITH_UTF8_PARTIAL  /* the text ends inside a character that could still become valid */
};

/* Looks at the start of s[0..n), n > 0; *len is the number of bytes that the answer covers (>= 1).
 */
enum pith_utf8 pith_utf8_step(const char *s, size_t n, size_t *len);

/* True when all of s is well-formed. */
bool pith_utf8_valid(const char *s, size_t n);

/* Appends s, ill-formed parts replaced. */
void pith_utf8_clean(const char *s, size_t n, struct pith_str *out);

/* Bytes of the character that starts with this byte of well-formed text. */
size_t pith_utf8_len(char lead);

/* The code point at s (well-formed text, not at its end). */
uint32_t pith_utf8_get(const char *s);

/* Start of the character that ends before s + at, at > 0, in well-formed text. */
size_t pith_utf8_back(const char *s, size_t at);

#endif
