/* eval/baseline_text.h: filling and asking struct pith_cached_text (eval/eval.h). */
#ifndef PITH_EVAL_BASELINE_TEXT_H
#define PITH_EVAL_BASELINE_TEXT_H

#include "eval/eval.h"

/* Drops what was cached and makes room for the first of these windows, as many as k->most bytes
 * hold. */
enum pith_status pith_cached_begin(struct pith_cached_text *k, const struct pith_window *windows,
                                   size_t count, size_t hidden, struct pith_error *err);
/* Keeps the rows of a window that decide its scored positions; rows[length][hidden]. Nothing
 * happens for a window that has no room. */
void pith_cached_put(struct pith_cached_text *k, size_t index, const float *rows);
/* The hidden rows score_from - 1 .. length - 2 of window `index`, or NULL when they are not cached,
 * or were cached for another window or width. */
const float *pith_cached_find(const struct pith_cached_text *k, size_t index,
                              const struct pith_window *w, size_t hidden);

#endif
