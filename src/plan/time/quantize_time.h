/* plan/time/quantize_time.h: how long a machine, or several, would take to quantize a model, and
 * what memory that needs: from its shape alone, where pith quantize --rehearse does a block to
 * know.
 *
 * Of each linear and site of a layer operations are counted (plan/time/quantize_time.c has the
 * tables), d its inputs, R its rows, T the tokens that it sees of the calibration text, and done at
 * shares of the float32 operations that a machine's cores have:
 *
 *     products     2 R d T     0.45     there and back, for guided rounding, three times more
 *     Hessian      d^2 T       0.40
 *     its factor   d^3         1.66
 *     rounding     R d^2       0.176    column by column
 *
 * and what is done weight by weight takes a constant time for each: reading, comparing, a grid's
 * search. Shares and times are those of one core (docs/planning.md says of which runs). Of a
 * mixture tokens are taken to choose experts evenly. What ranks divide and send is counted as in
 * plan/time/ranks_time.h. */
#ifndef PITH_PLAN_TIME_QUANTIZE_TIME_H
#define PITH_PLAN_TIME_QUANTIZE_TIME_H

#include "model/plan.h"
#include "plan/time/ranks_time.h"
#include "quant/recipe.h"

struct pith_quantize_task {
    const struct pith_plans *plans;
    const struct pith_recipe *recipe;
    size_t tokens, length; /* of the calibration text, of a window */
    uint32_t hidden;
    double f32;       /* operations a second of a rank's machine */
    uint64_t outside; /* bytes of what no layer has, as it is written */
    uint32_t ends;    /* matrices of that */
    /* NULL, or the size of a linear's groups where the recipe's do not divide its rows. */
    uint32_t (*group)(const void *ctx, const struct pith_linear_spec *l);
    const void *group_ctx;
};
/* Why there is no estimate, or NULL. */
const char *pith_quantize_untold(const struct pith_quantize_task *t);
/* What goes before the layers, by all ranks of c (see struct pith_crew). */
void pith_quantize_before(const struct pith_quantize_task *t, struct pith_crew *c);
/* A layer, and the messages behind it; false: out of memory. */
bool pith_quantize_layer(const struct pith_quantize_task *t, uint32_t layer, struct pith_crew *c);
/* Seconds of what no layer has, of which ranks write their parts; and at the head of guided
 * rounding's passes. */
double pith_quantize_outside(const struct pith_quantize_task *t, unsigned ranks);
/* Bytes that a rank holds at most: a layer as floats, experts one at a time (where blocks learn,
 * all of it three times, of all that learn together), the statistics of its widest site, and three
 * times its largest matrix while that is rounded. */
uint64_t pith_quantize_memory(const struct pith_quantize_task *t);

#endif
