/* quant/round/factor.h: a damped Hessian H = R R^T, R upper triangular, over the columns in the
 * order in which they are solved; and what the inputs have drifted by, seen through it. */
#ifndef PITH_QUANT_ROUND_FACTOR_H
#define PITH_QUANT_ROUND_FACTOR_H

#include "quant/round.h"

struct pith_factor {
    struct pith_backend *backend;
    const float *h; /* [cols][cols] */
    uint32_t cols;
    uint32_t *perm; /* column solved at step k */
    bool *dead;     /* [cols], by column: inputs that were always zero */
    uint32_t dead_count;
    double mean;   /* of the live part of diag(H) */
    double lambda; /* added to the diagonal */
    float *r;      /* [cols][cols] in solving order, each column divided by its diagonal element */
    float *diagonal; /* [cols] */
};

/* Finds dead inputs and the others' mean. PITH_NUMERIC: all are dead. */
enum pith_status pith_factor_scan(struct pith_factor *f, struct pith_error *err);
/* After perm is there. Damps until H can be factored, as struct pith_rounder says; the report is
 * told how. */
enum pith_status pith_factor_make(struct pith_factor *f, double damp,
                                  struct pith_round_report *report, struct pith_error *err);

/* y[cols][cols] = D R^-T / diagonal in solving order, for the drift D = 2 (X' - X) X^T / n: what an
 * output W (X' - X) asks of column k is (W y)_k, as far as the columns before it leave it to it.
 * Dead inputs ask and answer nothing. */
void pith_factor_drift(const struct pith_factor *f, const float *drift, double strength, float *y);

/* asked = W y transposed, for W as the solver has it: w[cols][ld] in solving order, of which the
 * first `rows` of each column count; asked likewise, 0 behind them. The squares of what is asked
 * with R, summed: what the drift costs as long as W stays as it is. */
double pith_factor_ask(const struct pith_factor *f, const float *y, const float *w, uint32_t rows,
                       size_t ld, float *asked);

#endif
