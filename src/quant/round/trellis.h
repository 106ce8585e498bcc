/* quant/round/trellis.h: rounding a matrix to the codes of a trellis (num/trellis.h). */
#ifndef PITH_QUANT_ROUND_TRELLIS_H
#define PITH_QUANT_ROUND_TRELLIS_H

#include "num/trellis.h"
#include "quant/round.h"

/* What a walk makes up for; OUTPUTS and DRIFT come with FEEDBACK. */
enum pith_trellis_form {
    PITH_TRELLIS_NEAREST = 0,
    PITH_TRELLIS_FEEDBACK = 1, /* the columns before it, what gptq is there (LDLQ: Chee et al. 2023,
                                  sixteen columns at a time) */
    PITH_TRELLIS_OUTPUTS = 2,  /* the rows before it too (quant/round/trellis_rows.h) */
    PITH_TRELLIS_DRIFT = 4     /* what the inputs have drifted by (quant/round/drifted.h) */
};

/* struct pith_rounder's run() for grids of a trellis; `form` is of enum pith_trellis_form. */
enum pith_status pith_trellis_round(const struct pith_round_job *job, unsigned form,
                                    struct pith_qmat *q, struct pith_round_report *report,
                                    struct pith_error *err);
/* Its scratch bytes; 0 for other grids. */
uint64_t pith_trellis_scratch(const struct pith_round_job *job, unsigned form);

#endif
