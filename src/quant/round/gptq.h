/* quant/round/gptq.h: the sweep of GPTQ over some rows, for its rounders (quant/round/sweep.c). */
#ifndef PITH_QUANT_ROUND_GPTQ_H
#define PITH_QUANT_ROUND_GPTQ_H

#include "quant/round.h"

/* Rounds the job's rows into q, whose rows these are, and which pith_round_begin() or a cut of what
 * that made has made ready. *report is set. Errors as for a rounder's run(); q stays the caller's.
 */
enum pith_status pith_gptq_solve(const struct pith_rounder *rounder,
                                 const struct pith_round_job *job, struct pith_qmat *q,
                                 struct pith_round_report *report, struct pith_error *err);
/* A rounder's factor(). */
enum pith_status pith_gptq_factor(const struct pith_round_job *job, struct pith_ranks *ranks,
                                  struct pith_factor **out, struct pith_error *err);
/* A rounder's dense(). */
enum pith_status pith_gptq_prune(const struct pith_rounder *rounder,
                                 const struct pith_round_job *job, struct pith_round_report *report,
                                 struct pith_error *err);
/* A rounder's scratch(). */
uint64_t pith_gptq_scratch(const struct pith_rounder *rounder, const struct pith_round_job *job,
                           const struct pith_split *split);

#endif
