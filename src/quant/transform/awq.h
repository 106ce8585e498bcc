/* quant/transform/awq.h: AWQ's second half, the clip search. Only awq.c calls it. */
#ifndef PITH_QUANT_TRANSFORM_AWQ_H
#define PITH_QUANT_TRANSFORM_AWQ_H

#include "quant/transform.h"

/* Shrinks the range of each row's groups where that lowers the group's output error.
 *
 * For every group (a whole row when per channel; per tensor nothing is done) of every linear with
 * `clip` and a grid, the weights are clamped to max|w| (1 - i/20), i = 0..9, put on their grid, and
 * the first i with the least mean over up to 512 of stats->samples of (sum over the group of x (q -
 * w))^2 is taken: the weights stay clamped to it. x is the sample divided by s, since the weights
 * are already multiplied; those of a linear that is lent are multiplied here, and only its `pick`
 * remains of it. *fraction receives the fraction of groups with i >
 * 0. Same bytes for any thread count. PITH_NOMEM; weights must be finite. */
enum pith_status pith_awq_clip(const struct pith_transform_job *job, const float *s,
                               double *fraction, struct pith_error *err);
/* The squared diagonal [dim] of the damped Hessian's factor R, H = R R^T, columns in their order.
 * PITH_NUMERIC when it has none. */
enum pith_status pith_awq_pivots(struct pith_backend *b, const struct pith_stats *stats,
                                 double *pivots, struct pith_error *err);
uint64_t pith_awq_pivots_scratch(uint32_t dim);
/* *loss grows by what GPTQ is expected to lose, summed over rows, on the integer grid of a linear
 * whose weights are multiplied by s already. */
enum pith_status pith_awq_predict(struct pith_backend *b, const struct pith_transform_linear *l,
                                  enum pith_dtype scales, const double *pivots, const float *s,
                                  double *loss, struct pith_error *err);
/* Clamps the groups of a linear, its weights as they were before, by what it picked. */
void pith_awq_clip_again(const struct pith_transform_linear *l);
/* Scratch bytes. */
uint64_t pith_awq_clip_scratch(const struct pith_transform_job *job);

#endif
