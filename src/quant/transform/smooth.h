/* quant/transform/smooth.h: the scales of smooth:search. Only smooth.c calls it. */
#ifndef PITH_QUANT_TRANSFORM_SMOOTH_H
#define PITH_QUANT_TRANSFORM_SMOOTH_H

#include "quant/transform.h"

/* s[dim], which holds where to begin, becomes the scales at which the outputs of the job's linears
 * are expected to lose least (balance.h), over its samples and an even choice of the matrices'
 * rows. A token counts as one over its energy, and none more than the one in the middle. Only
 * integers count, with one step for their range; where nothing is on such a grid, s becomes 1. The
 * same bytes for any thread count. PITH_NOMEM; errors of the lender. */
enum pith_status pith_smooth_search(const struct pith_transform_job *job, float *s,
                                    struct pith_error *err);
/* Scratch bytes, when the samples are those that the job will have. */
uint64_t pith_smooth_search_bytes(const struct pith_transform_job *job);

#endif
