/* pith/json.h: JSON as pith reads and writes it wherever it comes from outside, for programs that
 * work on trees of jansson (json_t): as Python's json module has it, with integers of any size,
 * NaN, infinities, members that come twice (the last one holds), \u0000, and a byte order mark.
 * Half of a surrogate pair becomes U+FFFD. */
#ifndef PITH_JSON_H
#define PITH_JSON_H

#include <pith/context.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct json_t; /* jansson's */

/* Reads a text of `size` bytes; `where` begins a message. *out is a new reference, any value.
 * Integers of more than 64 bits, NaN and the infinities are objects in it, for which
 * pith_tree_number() is not NULL. PITH_FORMAT: it is no JSON. */
PITH_API enum pith_status pith_tree_read(const char *text, size_t size, const char *where,
                                         struct json_t **out, struct pith_error *err);

/* The text of a number in such a tree that jansson has no type for, which lives as long as the
 * tree; NULL for every other value. */
PITH_API const char *pith_tree_number(const struct json_t *tree);

/* The text of a tree, with the flags of jansson's json_dumps(), for pith_text_free(). NULL: memory
 * is out. */
PITH_API char *pith_tree_text(const struct json_t *tree, size_t flags);

#ifdef __cplusplus
}
#endif
#endif
