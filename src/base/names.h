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

/* What follows `name` and a colon in text, names being equal in any case: "" when text is the name,
 * NULL when it is neither. */
const char *pith_name_option(const char *text, const char *name);

#endif
