/* eval/baseline_text.h: filling and asking struct pith_cached_text (eval/eval.h). */
#ifndef PITH_EVAL_BASELINE_TEXT_H
#define PITH_EVAL_BASELINE_TEXT_H

#include "eval/eval.h"

/* Drops what was cached and makes room for the first of these windows, as many as k->most bytes
 * hold. Logits have room in a file of at most 2 GiB, or none where it cannot be made. */
enum pith_status pith_cached_begin(struct pith_cached_text *k, const struct pith_window *windows,
                                   size_t count, const struct pith_shape *shape,
                                   struct pith_error *err);
/* Keeps the rows of a window that decide its scored positions; rows[length][hidden]. Nothing
 * happens for a window that has no room. */
void pith_cached_put(struct pith_cached_text *k, size_t index, const float *rows);
/* The hidden rows score_from - 1 .. length - 2 of window `index`, or NULL when they are not cached,
 * or were cached for another window or width. */
const float *pith_cached_find(const struct pith_cached_text *k, size_t index,
                              const struct pith_window *w, size_t hidden);
/* Logits [n][vocab] and their lse [n] of positions `at` .. at + n - 1 of window `index`. Stored
 * where there is room, in the order of positions; found where all of these were stored. */
struct pith_cached_logits {
    const float *logits;
    const double *lse;
};
void pith_cached_put_logits(struct pith_cached_text *k, size_t index, size_t at, size_t n,
                            const struct pith_cached_logits *of);
bool pith_cached_find_logits(const struct pith_cached_text *k, size_t index, size_t at, size_t n,
                             struct pith_cached_logits *of);
/* After logits were found: PITH_IO when some of the file was lost meanwhile. */
enum pith_status pith_cached_check(const struct pith_cached_text *k, struct pith_error *err);

#endif
