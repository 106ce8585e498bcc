/* eval/speed/regrid.h: a model's matrices put on another grid in memory, so that one checkpoint can
 * be timed in any format. */
#ifndef PITH_EVAL_SPEED_REGRID_H
#define PITH_EVAL_SPEED_REGRID_H

#include "model/model.h"
#include "num/grid.h"

/* Rounds a matrix to the nearest points of a grid as quantizing does, a panel of rows at a time,
 * scales in scale_dtype (block formats: in their own); *out is the caller's. Errors of
 * pith_qmat_init() and pith_fit_scales(); on failure *out owns nothing. */
enum pith_status pith_regrid(struct pith_pool *pool, const struct pith_weight *w,
                             const struct pith_grid *grid, enum pith_dtype scale_dtype,
                             struct pith_qmat *out, struct pith_error *err);

/* What it takes in addition to the matrix that it makes. */
uint64_t pith_regrid_bytes(const struct pith_qspec *made, unsigned threads);

/* Every linear of m's loaded blocks, which are not packed, and the head put on a grid; with a NULL
 * grid they stay as they are, as does an embedding that the head was tied to. The old matrices are
 * freed. On failure the model can only be closed. */
enum pith_status pith_model_regrid(struct pith_model *m, struct pith_pool *pool,
                                   const struct pith_grid *linears, const struct pith_grid *head,
                                   struct pith_error *err);

#endif
