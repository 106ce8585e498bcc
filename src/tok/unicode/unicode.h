/* tok/unicode/unicode.h: the few facts about characters that neither PCRE2 nor utf8proc gives as
 * the reference has them. Its pattern engine knows Unicode 16, its normalizers Unicode 9; PCRE2
 * 10.42 knows 14, utf8proc 2.8 knows 15. The tables are written by
 * tests/golden/tok/make_unicode.py. */
#ifndef PITH_TOK_UNICODE_UNICODE_H
#define PITH_TOK_UNICODE_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A range of characters that Unicode 15 and 16 added. */
struct pith_newer {
    uint32_t first, last;
    char category[3]; /* general category: "Lu", ... */
    bool han;         /* script Han */
};
extern const struct pith_newer pith_newer_ranges[];
extern const size_t pith_newer_count;

/* True when some character of well-formed text is one of those. */
bool pith_unicode_has_newer(const char *text, size_t len);

/* True for marks and decomposable characters that Unicode 9 did not have: the reference's
 * normalizers leave them where they are. */
bool pith_unicode_later(uint32_t cp);

/* True for characters that continue a grapheme and that Unicode 14 did not have. */
bool pith_unicode_joins(uint32_t cp);

/* Unicode property White_Space. */
bool pith_is_space(uint32_t cp);

/* \w of UTS #18 as near as general categories allow: letters, marks, decimal and letter numbers,
 * connector punctuation, joiners. */
bool pith_is_word(uint32_t cp);

#endif
