/* base/names.h: refusing a name that is none. The reading itself is public: <pith/names.h>. */
#ifndef PITH_BASE_NAMES_H
#define PITH_BASE_NAMES_H

#include <pith/names.h>

#include "base/status.h"

/* The i-th name of a table, NULL behind the last. */
typedef const char *pith_name_at_fn(size_t i);

/* PITH_ARG: 'unknown recipe "gptqq"; did you mean "gptq"?', or, when none is near, all names that
 * there are. */
enum pith_status pith_fail_name(struct pith_error *err, const char *what, const char *text,
                                pith_name_at_fn *name_at);

/* Edits between two words, letters in any case: insertions, deletions, replacements, and exchanges
 * of neighbours (optimal string alignment: Wagner and Fischer 1974 with Damerau's 1964 exchange).
 * Words of more than 40 letters are near to nothing. */
unsigned pith_name_distance(const char *a, const char *b);

/* What follows `name` and a colon in text, names being equal in any case: "" when text is the name,
 * NULL when it is neither. */
const char *pith_name_option(const char *text, const char *name);

/* What stands behind the last slash of a path; all of it where nothing does. */
const char *pith_name_of_path(const char *path);
/* Where the number stands in a file's name that counts parts, as in "model-00002-of-00005.gguf":
 * five digits, *number from 1 to *count, which is more than 1. NULL when the name counts none. */
const char *pith_name_part(const char *name, unsigned *number, unsigned *count);

#endif
