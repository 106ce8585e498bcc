/* plan/quantize_time.h: how long a machine, or several, would take to quantize a model, and what
 * memory that needs: from its shape alone, where pith quantize --rehearse does a block to know.
 *
 * Of each site of a layer operations are counted, d its inputs, R the rows that read them and T the
 * tokens of the calibration text; each kind is done at its share of the float32 operations that a
 * machine's cores have:
 *
 *     products     2 R d T     0.40
 *     Hessian      d^2 T       0.22
 *     its factor   d^3         1.47
 *     rounding     R d^2       0.16
 *
 * and what is read, compared and written takes a constant time a weight. Shares and times are those
 * of one core (docs/clusters.md says of which run). What ranks divide and send is counted as in
 * plan/ranks_time.h. */
#ifndef PITH_PLAN_QUANTIZE_TIME_H
#define PITH_PLAN_QUANTIZE_TIME_H

#include "model/plan.h"
#include "plan/ranks_time.h"
#include "quant/recipe.h"

struct pith_quantize_task {
    const struct pith_plans *plans;
    const struct pith_recipe *recipe;
    size_t tokens, length; /* of the calibration text, of a window */
    double f32;            /* operations a second of a rank's machine */
    uint64_t outside;      /* bytes of what no layer has, as it is written */
};
/* Why nothing is told, or NULL. */
const char *pith_quantize_untold(const struct pith_quantize_task *t);
/* A layer, by all ranks of c (see struct pith_crew). */
void pith_quantize_layer(const struct pith_quantize_task *t, uint32_t layer, struct pith_crew *c);
/* Seconds of what no layer has, which rank 0 writes. */
double pith_quantize_outside(const struct pith_quantize_task *t);
/* Bytes that a rank holds at most: a layer as floats, the statistics of its widest site, and three
 * times its largest matrix while that is rounded. */
uint64_t pith_quantize_memory(const struct pith_quantize_task *t);

#endif
