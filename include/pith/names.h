/* pith/names.h: how the names and numbers that people type are read, the same way everywhere, and
 * how the fields that messages name are shown. */
#ifndef PITH_NAMES_H
#define PITH_NAMES_H

#include <pith/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* True when both are the same name: letters A to Z count as a to z. */
PITH_API bool pith_name_equal(const char *a, const char *b);

/* The name that `text` was probably meant to be: the one that the fewest edits lead to (a letter
 * more, less, another one, or two neighbours exchanged), at most one for each three letters and one
 * more. NULL when none is that near. */
PITH_API const char *pith_name_nearest(const char *text, const char *const *names, size_t count);

/* A count or a size: digits, perhaps with a fraction, then perhaps k, M, G or T in either case
 * (powers of 1024: 128k is 131072, as a model's context is counted), perhaps followed by "iB" or
 * "B". A fraction needs a unit. False, with *out untouched, for anything else and from 2^63 on. */
PITH_API bool pith_number_parse(const char *text, uint64_t *out);

/* What the library says (messages, lines of the log, texts of reports) marks the fields of option
 * structs that it speaks of, with a value where it proposes one: raise `memory`; use `round=gptq`.
 *
 * How a program calls such a field: writes what stands in the mark's place into shown [room], and
 * returns nonzero; or 0, and the mark stays. value is NULL where the mark has none. */
typedef int pith_field_fn(void *ctx, const char *field, const char *value, char *shown,
                          size_t room);
/* The text with each of its marks as `show` has it; free it with pith_text_free(). NULL when memory
 * is out. Only a mark that `show` knows is changed: all else may have other backquotes. */
PITH_API char *pith_fields_show(const char *text, pith_field_fn *show, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
