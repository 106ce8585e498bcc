/* serve/pace.h: how long a step will take, learnt from those that were taken:
 *
 *     seconds = a + b rows + c (rows times the positions that each of them attends to)
 *
 * by least squares with older steps forgotten, so that pieces of prompts are as long as time
 * allows, whatever their depth. */
#ifndef PITH_SERVE_PACE_H
#define PITH_SERVE_PACE_H

#include <stdbool.h>
#include <stddef.h>

enum { PITH_PACE_TERMS = 3 };

struct pith_step_load {
    double rows, pairs;
};
/* Start with {0}. */
struct pith_pace {
    double gram[PITH_PACE_TERMS][PITH_PACE_TERMS], right[PITH_PACE_TERMS];
    double term[PITH_PACE_TERMS]; /* a, b, c; none below 0 */
    size_t steps;
};
/* Rows of a sequence that starts at some depth, added to what a step takes. */
struct pith_step_load pith_load_add(struct pith_step_load load, size_t depth, size_t rows);
void pith_pace_learn(struct pith_pace *p, struct pith_step_load load, double seconds);
double pith_pace_seconds(const struct pith_pace *p, struct pith_step_load load);
/* How many rows at that depth, at least 1 and at most `most`, can join a step for `seconds` more.
 * Before much is known it is few. */
size_t pith_pace_rows(const struct pith_pace *p, size_t depth, size_t most, double seconds);

#endif
