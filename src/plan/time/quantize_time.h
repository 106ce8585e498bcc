/* plan/time/quantize_time.h: how long quantizing a model takes, and what memory it needs, from the
 * model's shape alone. "pith quantize --rehearse" measures a block instead.
 *
 * Of each linear and site of a layer operations are counted (plan/time/quantize_time.c has the
 * tables), with d inputs, R rows, and the T tokens of the calibration text that reach it. They run
 * at a fraction of the machine's float32 peak:
 *
 *     products     2 R d T     0.45     guided rounding: forward and backward, three times more
 *     Hessian      d^2 T       0.40
 *     its factor   d^3         1.66
 *     rounding     R d^2       0.176    column by column
 *
 * What is done weight by weight takes a constant time for each: reading, comparing, a grid's
 * search. Fractions and times are those of one core (docs/planning.md says of which runs). Tokens
 * of a mixture are taken to choose experts evenly. plan/time/ranks_forecast.h makes of a cost what
 * several ranks would take. */
#ifndef PITH_PLAN_TIME_QUANTIZE_TIME_H
#define PITH_PLAN_TIME_QUANTIZE_TIME_H

#include "model/plan.h"
#include "plan/time/ranks_forecast.h"
#include "quant/recipe.h"

struct pith_quantize_task {
    const struct pith_plans *plans;
    const struct pith_recipe *recipe;
    size_t tokens, length; /* of the calibration text, of a window */
    size_t common;         /* tokens that every expert sees, whether they take it or not */
    bool routed;           /* ... and it sees those that take it */
    uint32_t hidden;
    double f32;       /* operations a second of a rank's machine; 0 where only bytes are wanted */
    uint64_t outside; /* bytes of embedding and head, as they are written */
    uint32_t ends;    /* matrices of that */
    /* NULL, or the size of a linear's groups where the recipe's do not divide its rows. */
    uint32_t (*group)(const void *ctx, const struct pith_linear_spec *l);
    const void *group_ctx;
};
/* Why there is no estimate, or NULL. */
const char *pith_quantize_no_estimate(const struct pith_quantize_task *t);

/* A cost that is empty but for the windows that are divided. */
struct pith_ranks_cost pith_quantize_cost(const struct pith_quantize_task *t);
/* Adds seconds and bytes of a layer. */
void pith_quantize_layer(const struct pith_quantize_task *t, const struct pith_layer_plan *l,
                         struct pith_ranks_cost *c);
/* Adds those of what is outside the layers: embedding, head, the passes of guided rounding. */
void pith_quantize_outside(const struct pith_quantize_task *t, struct pith_ranks_cost *c);
/* Adds the bytes alone, of a layer and outside the layers, and sets the largest part of the rows
 * that one rank has at least (struct pith_ranks_cost). */
void pith_quantize_layer_traffic(const struct pith_quantize_task *t,
                                 const struct pith_layer_plan *l, struct pith_ranks_cost *c);
void pith_quantize_outside_traffic(const struct pith_quantize_task *t, struct pith_ranks_cost *c);
/* Whether ranks share the factors of a layer's Hessians, and the search of a transform. */
bool pith_quantize_shares_factors(const struct pith_quantize_task *t,
                                  const struct pith_layer_plan *l);
bool pith_quantize_shares_search(const struct pith_quantize_task *t);
/* Bytes that a rank holds at most: a layer as floats, experts one at a time (where blocks learn,
 * all of it three times, of all that learn together), the statistics of its widest site, and three
 * times its largest matrix while that is rounded. */
uint64_t pith_quantize_memory(const struct pith_quantize_task *t);

#endif
