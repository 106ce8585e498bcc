/* quant/round/hessian.h: what is looked at in a Hessian before it is factored. */
#ifndef PITH_QUANT_ROUND_HESSIAN_H
#define PITH_QUANT_ROUND_HESSIAN_H

#include "base/status.h"
#include "quant/round.h"

#include <stddef.h>
#include <stdint.h>

/* PITH_NUMERIC when h[n][n] holds a value that is not finite, or a negative one on its diagonal. */
enum pith_status pith_hessian_check(const float *h, size_t n, struct pith_error *err);

/* The pivots of GPTQ: the diagonal of H's factor, by step; the column of each step; inputs that
 * were always zero, by column. */
struct pith_pivots {
    const float *diagonal;
    const uint32_t *perm;
    const bool *dead;
};
/* What an error in step k's column counts: its pivot squared, what remains of it when the columns
 * after it have compensated what they can. */
static inline float pith_pivot_square(const struct pith_pivots *p, uint32_t k)
{
    return p->dead[p->perm[k]] ? 0.0f : p->diagonal[k] * p->diagonal[k];
}

/* Whether scales are searched for the least sum of errors that count so: of integer grids, and of
 * floats whose grid says mse. */
bool pith_hessian_searches(const struct pith_round_job *job);

/* Fits scales on the job's weights, by that search or as the grid says. scratch: [cols]. Errors as
 * pith_round_fit(). */
enum pith_status pith_hessian_fit(const struct pith_round_job *job, const struct pith_pivots *p,
                                  float *scratch, struct pith_qmat *q, struct pith_error *err);

#endif
