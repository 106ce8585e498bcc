/* quant/round/gptq.h: the sweep of GPTQ over some rows, for its rounders (quant/round/gptaq.c). */
#ifndef PITH_QUANT_ROUND_GPTQ_H
#define PITH_QUANT_ROUND_GPTQ_H

#include "quant/round.h"

/* What is held against what. X are the inputs of the model whose earlier layers are quantized, X'
 * those of the model as it was.
 *
 *     plain   Q X against W X
 *     gptaq   against W X', as GPTAQ has it (Li et al. 2025): when a column is reached, what its
 *             input has drifted by is made up for by the columns after it
 *     qep     against W X', by all columns at once: GPTQ of W + W (X' - X) X^T H^-1, the matrix
 * whose outputs are nearest (QEP: Arai, Ichikawa 2025) */
enum pith_gptq_form {
    PITH_GPTQ_PLAIN,
    PITH_GPTQ_GPTAQ,
    PITH_GPTQ_QEP,
    PITH_GPTQ_OUTPUTS = 4, /* with PLAIN or QEP: by the statistics' outputs too (kron.h) */
    PITH_GPTQ_QEP_OUTPUTS = PITH_GPTQ_QEP | PITH_GPTQ_OUTPUTS
};

/* Rounds the job's rows into q, whose rows these are, and which pith_round_begin() or a cut of what
 * that made has made ready. *report is set. Errors as for a rounder's run(); q stays the caller's.
 */
enum pith_status pith_gptq_solve(const struct pith_round_job *job, enum pith_gptq_form form,
                                 struct pith_qmat *q, struct pith_round_report *report,
                                 struct pith_error *err);
/* A rounder's factor(). */
enum pith_status pith_gptq_factor(const struct pith_round_job *job, struct pith_ranks *ranks,
                                  struct pith_factor **out, struct pith_error *err);
/* A rounder's dense(). */
enum pith_status pith_gptq_prune(const struct pith_round_job *job, enum pith_gptq_form form,
                                 struct pith_round_report *report, struct pith_error *err);
/* A rounder's scratch(). */
uint64_t pith_gptq_scratch(const struct pith_round_job *job, enum pith_gptq_form form,
                           const struct pith_split *split);

#endif
