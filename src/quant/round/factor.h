/* quant/round/factor.h: a damped Hessian H = R R^T, R upper triangular, over the columns in the
 * order in which they are solved; and what the inputs have drifted by, seen through it. */
#ifndef PITH_QUANT_ROUND_FACTOR_H
#define PITH_QUANT_ROUND_FACTOR_H

#include "base/arena.h"
#include "quant/round.h"

/* What it depends on in addition to H. */
struct pith_factor_by {
    enum pith_act_order order;
    uint32_t width, block; /* pith_column_order()'s */
    double damp;           /* requested */
};

struct pith_factor {
    struct pith_backend *backend;
    struct pith_ranks *ranks; /* that make it together; NULL: this one alone */
    const float *h;           /* [cols][cols] */
    uint32_t cols;
    struct pith_factor_by by;
    double damp; /* that it took */
    uint32_t retries;
    uint32_t *perm; /* column solved at step k */
    bool *dead;     /* [cols], by column: inputs that were always zero */
    uint32_t dead_count;
    double mean;   /* of the live part of diag(H) */
    double lambda; /* added to the diagonal */
    float *r;      /* [cols][cols] in solving order, each column divided by its diagonal element */
    float *diagonal; /* [cols] */
    void *memory;    /* of one that is cached: behind perm, dead, r and diagonal */
};

/* Memory for one of that many columns. */
void pith_factor_layout(struct pith_arena *a, struct pith_factor *f);
/* All of it, by f->h, f->by and f->ranks, into memory that is there: damps until H can be factored,
 * as struct pith_rounder says. PITH_NUMERIC also when all inputs are dead, or H has something that
 * is not finite. */
enum pith_status pith_factor_make(struct pith_factor *f, struct pith_error *err);
/* Whether it is what make() would make of that. */
bool pith_factor_is(const struct pith_factor *f, const struct pith_factor *of);
/* One that outlives a job, for all that read the same inputs: a copy of `of` in its own memory.
 * pith_round_factor_free(). */
enum pith_status pith_factor_keep(const struct pith_factor *of, struct pith_factor **out,
                                  struct pith_error *err);

/* y[cols][cols] = D R^-T / diagonal in solving order, for the drift D = 2 (X' - X) X^T / n: the
 * correction of column k for an output W (X' - X) is (W y)_k, as far as the columns before it did
 * not make it. Dead inputs need and make no correction. */
void pith_factor_drift(const struct pith_factor *f, const float *drift, double strength, float *y);

/* correction = W y transposed, for W as the solver has it: w[cols][ld] in solving order, of which
 * the first `rows` of each column count; correction likewise, 0 behind them. Returns the sum of
 * squares of the correction times R: what the drift costs while W is unchanged. */
double pith_factor_correct(const struct pith_factor *f, const float *y, const float *w,
                           uint32_t rows, size_t ld, float *correction);

#endif
