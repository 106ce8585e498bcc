/* tok/jinja/functions.h: declares the functions that the tables name to the files that have them.
 */
#ifndef PITH_TOK_JINJA_FUNCTIONS_H
#define PITH_TOK_JINJA_FUNCTIONS_H

#include "tok/jinja/run.h"

#define JINJA_ROW(name, fn, params, needed) pith_jfn fn;
#include "tok/jinja/dict_methods.def"
#include "tok/jinja/filters.def"
#include "tok/jinja/globals.def"
#include "tok/jinja/list_methods.def"
#include "tok/jinja/loop_methods.def"
#include "tok/jinja/str_methods.def"
#include "tok/jinja/tests.def"
#undef JINJA_ROW

/* A function of the tables. */
#define JINJA_FN(fn)                                                                               \
    struct pith_jv fn(struct pith_jrun *r, struct pith_jv self, const struct pith_jargs *a)

#endif
