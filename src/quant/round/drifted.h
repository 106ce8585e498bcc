/* quant/round/drifted.h: the matrix that makes up best for what its inputs have drifted by, for
 * rounders that do not sweep column by column: W + W D H^-1, with D = (X' - X) X^T (QEP: Arai,
 * Ichikawa 2025; quant/round.h). */
#ifndef PITH_QUANT_ROUND_DRIFTED_H
#define PITH_QUANT_ROUND_DRIFTED_H

#include "quant/round/factor.h"

struct pith_drifted {
    uint32_t rows; /* 0: there is no correction, and no memory is taken */
    size_t ld;     /* rows at least */
    struct pith_factor f;
    float *y;    /* [cols][cols] */
    float *other; /* [cols][ld] in f's order: W D H^-1, then W */
};
/* By the job's shape, statistics and options. */
struct pith_drifted pith_drifted_of(const struct pith_round_job *job, size_t ld);
void pith_drifted_layout(struct pith_arena *a, struct pith_drifted *d);
/* The job's w becomes that matrix, in memory that is there; spare[cols][ld] is lost. PITH_ARG
 * without drift; else as pith_factor_make(). */
enum pith_status pith_drifted_make(struct pith_drifted *d, const struct pith_round_job *job,
                                   float *spare, struct pith_error *err);
/* w[rows][cols] becomes what it was before. */
void pith_drifted_undo(const struct pith_drifted *d, float *w);

#endif
