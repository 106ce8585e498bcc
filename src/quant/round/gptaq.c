/* quant/round/gptaq.c: the rounders that sweep as GPTQ does, by what they hold against what
 * (quant/round/gptq.h) and by whose Hessian. Guided, each group of a matrix's rows has its own, in
 * which a token counts by the mean squared gradient of the model's loss at those rows (GuidedQuant:
 * Kim et al. 2025); it is then rounded as a matrix of its own. */
#include "quant/tables.h"

#include "quant/round/gptq.h"
#include "quant/round/row_groups.h"
#include "quant/round/trellis.h"

static unsigned trellis_form(enum pith_gptq_form form)
{
    return PITH_TRELLIS_FEEDBACK | (form & PITH_GPTQ_OUTPUTS ? PITH_TRELLIS_OUTPUTS : 0) |
           (form & PITH_GPTQ_QEP ? PITH_TRELLIS_DRIFT : 0);
}

/* The rows of a trellis's blocks stand in one another, so all have one Hessian. */
static enum pith_status run_trellis(const struct pith_round_job *job, enum pith_gptq_form form,
                                    struct pith_qmat *q, struct pith_round_report *report,
                                    struct pith_error *err)
{
    const char *name = job->grid.format->name;
    if (form == PITH_GPTQ_GPTAQ)
        return pith_fail(err, PITH_UNSUPPORTED, "gptaq does not go with %s: qep does", name);
    if (job->stats && job->stats->views > 1)
        return pith_fail(err, PITH_UNSUPPORTED, "%s goes with row_groups of 1 alone, not %u", name,
                         job->stats->views);
    return pith_trellis_round(job, trellis_form(form), q, report, err);
}

static enum pith_status run(const struct pith_round_job *job, pith_round_part_fn *solve,
                            struct pith_qmat *q, struct pith_round_report *report,
                            struct pith_error *err)
{
    PITH_TRY(pith_round_begin(job, q, err));
    const enum pith_status s = pith_round_parts(job, solve, q, report, err);
    if (s != PITH_OK) pith_qmat_free(q);
    return s;
}

#define FORM(name, form)                                                                           \
    static enum pith_status solve_##name(const struct pith_round_job *job, struct pith_qmat *q,    \
                                         struct pith_round_report *report, struct pith_error *err) \
    {                                                                                              \
        return q ? pith_gptq_solve(job, form, q, report, err)                                      \
                 : pith_gptq_prune(job, form, report, err);                                        \
    }                                                                                              \
    static enum pith_status run_##name(const struct pith_round_job *job, struct pith_qmat *q,      \
                                       struct pith_round_report *report, struct pith_error *err)   \
    {                                                                                              \
        *report = (struct pith_round_report){0};                                                   \
        if (pith_trellis_is(job->grid.format)) return run_trellis(job, form, q, report, err);      \
        return run(job, solve_##name, q, report, err);                                             \
    }                                                                                              \
    static enum pith_status prune_##name(const struct pith_round_job *job,                         \
                                         struct pith_round_report *report, struct pith_error *err) \
    {                                                                                              \
        return pith_round_parts(job, solve_##name, NULL, report, err);                             \
    }                                                                                              \
    static uint64_t scratch_##name(const struct pith_round_job *job,                               \
                                   const struct pith_split *split)                                 \
    {                                                                                              \
        if (pith_trellis_is(job->grid.format))                                                     \
            return pith_trellis_scratch(job, trellis_form(form));                                  \
        return pith_gptq_scratch(job, form, split);                                                \
    }
FORM(gptq, PITH_GPTQ_PLAIN)
FORM(gptaq, PITH_GPTQ_GPTAQ)
FORM(qep, PITH_GPTQ_QEP)
FORM(kron, PITH_GPTQ_OUTPUTS)
FORM(qep_kron, PITH_GPTQ_QEP_OUTPUTS)
#undef FORM

const struct pith_rounder pith_rounder_gptq = {
    .name = "gptq",
    .summary = "each column's rounding error is made up for by the columns after it",
    .needs = PITH_NEED_HESSIAN,
    .run = run_gptq,
    .part = solve_gptq,
    .factor = pith_gptq_factor,
    .scratch = scratch_gptq,
    .keeps = true,
    .dense = prune_gptq,
};

const struct pith_rounder pith_rounder_guided = {
    .name = "gptq:guided",
    .summary = "GPTQ, in which a token counts by how much the model's loss feels it",
    .needs = PITH_NEED_HESSIAN | PITH_NEED_GUIDED,
    .alone = "gptq",
    .run = run_gptq,
    .scratch = scratch_gptq,
    .keeps = true,
    .dense = prune_gptq,
};

const struct pith_rounder pith_rounder_gptaq = {
    .name = "gptaq",
    .summary = "GPTQ that makes up for what the blocks before did to the inputs, column by column",
    .needs = PITH_NEED_HESSIAN | PITH_NEED_DRIFT,
    .columns = true,
    .alone = "gptq",
    .run = run_gptaq,
    .factor = pith_gptq_factor,
    .scratch = scratch_gptaq,
    .keeps = true,
    .dense = prune_gptaq,
};

const struct pith_rounder pith_rounder_gptaq_guided = {
    .name = "gptaq:guided",
    .summary = "the same, in which a token counts by how much the model's loss feels it",
    .needs = PITH_NEED_HESSIAN | PITH_NEED_DRIFT | PITH_NEED_GUIDED,
    .columns = true,
    .alone = "gptq",
    .run = run_gptaq,
    .scratch = scratch_gptaq,
    .keeps = true,
    .dense = prune_gptaq,
};

const struct pith_rounder pith_rounder_qep = {
    .name = "qep",
    .summary = "GPTQ of the matrix that makes up best for what the blocks before did to the inputs",
    .needs = PITH_NEED_HESSIAN | PITH_NEED_DRIFT,
    .alone = "gptq",
    .run = run_qep,
    .factor = pith_gptq_factor,
    .scratch = scratch_qep,
    .keeps = true,
    .dense = prune_qep,
};

const struct pith_rounder pith_rounder_qep_guided = {
    .name = "qep:guided",
    .summary = "the same, in which a token counts by how much the model's loss feels it",
    .needs = PITH_NEED_HESSIAN | PITH_NEED_DRIFT | PITH_NEED_GUIDED,
    .alone = "gptq",
    .run = run_qep,
    .scratch = scratch_qep,
    .keeps = true,
    .dense = prune_qep,
};

const struct pith_rounder pith_rounder_kron = {
    .name = "gptq:kron",
    .summary = "GPTQ in which rows make up for each other too, as the loss feels pairs of them",
    .needs = PITH_NEED_HESSIAN | PITH_NEED_GUIDED | PITH_NEED_OUTPUTS,
    .alone = "gptq",
    .run = run_kron,
    .scratch = scratch_kron,
    .keeps = true,
    .dense = prune_kron,
};

const struct pith_rounder pith_rounder_qep_kron = {
    .name = "qep:kron",
    .summary = "the same of the matrix that makes up for what the blocks before did to the inputs",
    .needs = PITH_NEED_HESSIAN | PITH_NEED_DRIFT | PITH_NEED_GUIDED | PITH_NEED_OUTPUTS,
    .alone = "gptq",
    .run = run_qep_kron,
    .scratch = scratch_qep_kron,
    .keeps = true,
    .dense = prune_qep_kron,
};
