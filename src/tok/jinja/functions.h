/* tok/jinja/functions.h: declares the functions that the tables name to the files that have them.
 */
#ifndef PITH_TOK_JINJA_FUNCTIONS_H
#define PITH_TOK_JINJA_FUNCTIONS_H

#include "tok/jinja/run.h"

#define JINJA_ROW(name, fn, params, needed) pith_jfn fn;
#include "tok/jinja/filters.def"
#include "tok/jinja/str_methods.def"
#include "tok/jinja/tests.def"
#undef JINJA_ROW
pith_jfn pith_jg_dict, pith_jg_namespace, pith_jg_raise, pith_jg_range, pith_jg_strftime,
    pith_jm_append, pith_jm_list_count, pith_jm_extend, pith_jm_list_index, pith_jm_insert,
    pith_jm_pop, pith_jm_dict_copy, pith_jm_get, pith_jm_items, pith_jm_keys, pith_jm_dict_pop,
    pith_jm_setdefault, pith_jm_update, pith_jm_values, pith_jm_changed, pith_jm_cycle;

/* A function of the tables. */
#define JINJA_FN(fn)                                                                               \
    struct pith_jv fn(struct pith_jrun *r, struct pith_jv self, const struct pith_jargs *a)

#endif
