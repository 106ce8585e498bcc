/* serve/grammar/multiple.h: multiples of a decimal step, as JSON writes them. */
#ifndef PITH_SERVE_GRAMMAR_MULTIPLE_H
#define PITH_SERVE_GRAMMAR_MULTIPLE_H

#include "serve/grammar/number.h"

/* The step that a number above 0 is, as the shortest decimal that is it. PITH_UNSUPPORTED: it has
 * too many digits. */
enum pith_status pith_step_read(const json_t *number, struct pith_number_step *out,
                                struct pith_error *err);
/* Makes a (no units: every number) the step of what are multiples of both. PITH_UNSUPPORTED: it
 * has too many digits. */
enum pith_status pith_step_both(struct pith_number_step *a, const struct pith_number_step *b,
                                struct pith_error *err);
/* Whether a value, whatever its sign, is a multiple of a step of some size. */
bool pith_step_has(const struct pith_number_step *s, const struct pith_bound *value);

/* Adds ways by each multiple between two sizes: no exponent, no more digits behind the point than
 * the step has, PITH_NUMBER_WHOLE digits in all at most, 15 with a point. The step has some size.
 * n->failed says what failed: PITH_LIMIT where such numbers do not fit. */
void pith_net_multiples(struct pith_net *n, uint32_t from, const struct pith_number_set *what,
                        const struct pith_bound *lo, const struct pith_bound *hi, uint32_t to);
/* Whether few enough remainders exist of the digits of such numbers. */
bool pith_multiples_fit(const struct pith_number_set *what);

#endif
