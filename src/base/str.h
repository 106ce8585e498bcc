/* base/str.h: a growing byte string. Failure to grow is remembered and checked once at the end, so
 * building text needs no check at every append. */
#ifndef PITH_BASE_STR_H
#define PITH_BASE_STR_H

#include "base/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Start with {0}. data is NULL or NUL-terminated; len does not count the NUL. */
struct pith_str {
    char *data;
    size_t len, cap;
    bool failed; /* an append ran out of memory; the content is then incomplete */
};

/* Add at the end; the text given is copied and may not be part of s. */
void pith_str_append(struct pith_str *s, const char *bytes, size_t n);
void pith_str_puts(struct pith_str *s, const char *text);
void pith_str_putc(struct pith_str *s, char c);
void pith_str_printf(struct pith_str *s, const char *fmt, ...) PITH_PRINTF(2, 3);
void pith_str_vprintf(struct pith_str *s, const char *fmt, va_list ap);

/* Empties, keeping the memory. */
void pith_str_clear(struct pith_str *s);

/* The text, "" when empty; valid until the next change. */
const char *pith_str_text(const struct pith_str *s);

/* Gives the memory to the caller (pith_free() it) and leaves s empty; NULL when an append failed.
 */
char *pith_str_take(struct pith_str *s);

/* Gives the memory back; s is empty then, and can be used again. */
void pith_str_free(struct pith_str *s);

/* What a hexadecimal digit counts; -1: it is none. */
int pith_hex_digit(char c);

/* Whether a text has that end; whether a line of n bytes is spaces, tabs and CR alone. */
bool pith_ends_in(const char *text, const char *end);
bool pith_is_blank(const char *line, size_t n);

/* Shell-style match of the whole text: '*' any run, '?' one byte, everything else itself. A pattern
 * that begins with "re:" is not understood here: see model and export for the loaders' own rules.
 */
bool pith_glob_match(const char *pattern, const char *text);
/* Whether such a pattern names a module by its whole name, or by its last parts ("up_proj",
 * "mlp.up_proj"). */
bool pith_module_match(const char *pattern, const char *module);

#endif
