/* quant/round/trellis.h: rounding a matrix to the codes of a trellis (num/trellis.h). */
#ifndef PITH_QUANT_ROUND_TRELLIS_H
#define PITH_QUANT_ROUND_TRELLIS_H

#include "num/trellis.h"
#include "quant/round.h"

/* struct pith_rounder's run() for grids of a trellis: with feedback, what gptq is there (LDLQ: Chee
 * et al. 2023, sixteen columns at a time), else nearest. */
enum pith_status pith_trellis_round(const struct pith_round_job *job, bool feedback,
                                    struct pith_qmat *q, struct pith_round_report *report,
                                    struct pith_error *err);
/* Its scratch bytes; 0 for other grids. */
uint64_t pith_trellis_scratch(const struct pith_round_job *job, bool feedback);

#endif
