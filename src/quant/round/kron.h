/* quant/round/kron.h: errors of a linear's outputs that the model's loss feels together. With H_O
 * over outputs in addition to GPTQ's H over inputs, an error E of the weights costs tr(H_O E H
 * E^T), YAQA's Kronecker factors of the Hessian of the whole model's divergence (Tseng, Sun, De Sa
 * 2025). With H_O = S S^T and H = R R^T, both upper triangular, that is |S^T E R|_F^2: a weight is
 * corrected for the errors of the columns before it, and for those of the rows before it by
 *
 *     sum over i' < i of S[i',i] / S[i,i] * (what the row i' missed in this column by),
 *
 * where a row misses its target after the columns' correction: the paper's feedback on both sides.
 *
 * H_O lies in blocks along its diagonal, of which the last may be smaller; rows of different blocks
 * need no correction for each other. Block by block, each [n][n], where pith_outputs_at() says. */
#ifndef PITH_QUANT_ROUND_KRON_H
#define PITH_QUANT_ROUND_KRON_H

#include "backend/backend.h"
#include "base/status.h"
#include "quant/stats.h"

struct pith_outputs {
    uint32_t rows, block;
    float *s;        /* H_O's layout: of each block S, its columns divided by their diagonal */
    float *diagonal; /* [rows]: of S */
};

/* Of what is felt, the statistics' own: see struct pith_stats. */
struct pith_outputs_felt {
    const float *h;  /* in H_O's layout */
    const float *by; /* [rows], or NULL: 1 */
};
/* S of h[i,j] by[i] by[j], which has a mean diagonal of 1 first and then `damp` more on it, ten
 * times as much each time that does not do; s and diagonal are the caller's memory. All 0: nothing
 * was felt, and all rows count the same, each for itself. PITH_NUMERIC: a number is not finite, or
 * nothing did. */
enum pith_status pith_outputs_make(struct pith_outputs *o, struct pith_backend *be,
                                   const struct pith_outputs_felt *felt, double damp,
                                   struct pith_error *err);

/* Factors of blocks along a diagonal, block by block of `rows`, each [n][n] in s where
 * pith_outputs_at() says. */
struct pith_outputs_parts {
    uint32_t rows, block;
    float *s;
    /* Puts the block that begins with row `first` into s / makes from its factor there what is
     * stored. */
    enum pith_status (*take)(void *ctx, uint32_t first, struct pith_error *err);
    void (*finish)(void *ctx, uint32_t first, size_t n);
    void *ctx;
};
/* Their mean diagonal is 1 first, and then `damp` more is on it, ten times as much each time that
 * does not do. All 0: the factors are those of 1. PITH_NUMERIC where nothing did; of take(). */
enum pith_status pith_outputs_factor(const struct pith_outputs_parts *p, struct pith_backend *be,
                                     double damp, struct pith_error *err);

/* What becomes of one weight, which its row and those before want to be `u`. */
typedef float pith_outputs_round_fn(void *ctx, uint32_t row, float u);
/* One column of the block that begins with row `first`: from u[n], what the columns before ask, to
 * values[n]. */
void pith_outputs_sweep(const struct pith_outputs *o, uint32_t first, const float *u, float *values,
                        pith_outputs_round_fn *round, void *ctx);

/* d[rows][cols] becomes S^T d. */
void pith_outputs_weigh(const struct pith_outputs *o, struct pith_backend *be, float *d,
                        size_t cols);
/* |S^T x|^2 of one column. */
double pith_outputs_square(const struct pith_outputs *o, const float *x);

#endif
