/* quant/round/sweep.c: rounders that sweep as GPTQ does, by what they hold against what (enum
 * pith_sweep_form) and by whose Hessian. Guided, each group of a matrix's rows has its own, in
 * which a token counts by the mean squared gradient of the model's loss at those rows (GuidedQuant:
 * Kim et al. 2025); it is then rounded as a separate matrix. */
#include "quant/tables.h"

#include "quant/round/gptq.h"
#include "quant/round/row_groups.h"
#include "quant/round/trellis.h"

static unsigned trellis_form(const struct pith_rounder *r)
{
    return PITH_TRELLIS_FEEDBACK | (r->needs & PITH_NEED_OUTPUTS ? PITH_TRELLIS_OUTPUTS : 0) |
           (r->form == PITH_SWEEP_QEP ? PITH_TRELLIS_DRIFT : 0);
}

/* The rows of a trellis's blocks stand in one another, so all have one Hessian. */
static enum pith_status run_trellis(const struct pith_rounder *rounder,
                                    const struct pith_round_job *job, struct pith_qmat *q,
                                    struct pith_round_report *report, struct pith_error *err)
{
    const char *name = job->grid.format->name;
    if (rounder->form == PITH_SWEEP_GPTAQ)
        return pith_fail(err, PITH_UNSUPPORTED, "gptaq does not go with %s: qep does", name);
    if (job->stats && job->stats->views > 1)
        return pith_fail(err, PITH_UNSUPPORTED, "%s goes with row_groups of 1 alone, not %u", name,
                         job->stats->views);
    return pith_trellis_round(job, trellis_form(rounder), q, report, err);
}

static enum pith_status run(const struct pith_rounder *rounder, const struct pith_round_job *job,
                            struct pith_qmat *q, struct pith_round_report *report,
                            struct pith_error *err)
{
    *report = (struct pith_round_report){0};
    if (pith_trellis_is(job->grid.format)) return run_trellis(rounder, job, q, report, err);
    PITH_TRY(pith_round_begin(job, q, err));
    const enum pith_status s = pith_round_parts(rounder, job, q, report, err);
    if (s != PITH_OK) pith_qmat_free(q);
    return s;
}

static enum pith_status part(const struct pith_rounder *rounder, const struct pith_round_job *job,
                             struct pith_qmat *q, struct pith_round_report *report,
                             struct pith_error *err)
{
    return q ? pith_gptq_solve(rounder, job, q, report, err)
             : pith_gptq_prune(rounder, job, report, err);
}

static enum pith_status prune(const struct pith_rounder *rounder, const struct pith_round_job *job,
                              struct pith_round_report *report, struct pith_error *err)
{
    return pith_round_parts(rounder, job, NULL, report, err);
}

static uint64_t scratch(const struct pith_rounder *rounder, const struct pith_round_job *job,
                        const struct pith_split *split)
{
    if (pith_trellis_is(job->grid.format)) return pith_trellis_scratch(job, trellis_form(rounder));
    return pith_gptq_scratch(rounder, job, split);
}

const struct pith_rounding pith_round_by_sweep = {
    .run = run,
    .part = part,
    .factor = pith_gptq_factor,
    .scratch = scratch,
    .keeps = true,
    .dense = prune,
};
