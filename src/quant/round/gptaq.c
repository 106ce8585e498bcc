/* quant/round/gptaq.c: the rounders that sweep as GPTQ does, by what they hold against what
 * (quant/round/gptq.h) and by whose Hessian. Guided, each group of a matrix's rows has its own, in
 * which a token counts by the mean squared gradient of the model's loss at those rows (GuidedQuant:
 * Kim et al. 2025); it is then rounded as a matrix of its own. */
#include "quant/tables.h"

#include "num/kmat.h"
#include "quant/round/gptq.h"

static uint32_t views_of(const struct pith_round_job *job)
{
    return job->stats && job->stats->views > 1 ? job->stats->views : 1;
}

/* Rows of a matrix whose scales are by row, to be written through. */
static struct pith_qmat cut(const struct pith_qmat *q, uint32_t first, uint32_t rows)
{
    struct pith_qmat part = *q;
    part.rows = rows;
    part.codes += (size_t)first * q->stride;
    part.scales += (size_t)first * q->groups;
    if (q->zeros) part.zeros += (size_t)first * q->groups;
    if (q->offsets) part.offsets += (size_t)first * q->groups;
    if (q->levels) part.levels += (size_t)first << q->format->bits;
    if (q->outer) part.outer += (size_t)first * (q->cols / PITH_KBLOCK);
    return part;
}

/* A group's part of a job: its rows, its statistics, what of it is kept. */
struct part {
    struct pith_round_job job;
    struct pith_stats stats;
    struct pith_kept kept;
    struct pith_round_report report;
    uint32_t first;
};

static void take_part(const struct pith_round_job *job, uint32_t view, struct part *p)
{
    const uint32_t views = views_of(job), first = pith_rows_from(views, view, job->rows);
    const size_t square = (size_t)job->cols * job->cols;
    *p = (struct part){.job = *job, .first = first};
    p->job.rows = pith_rows_from(views, view + 1, job->rows) - first;
    p->job.w += (size_t)first * job->cols;
    if (job->stats) {
        p->stats = *job->stats;
        if (p->stats.hessian) p->stats.hessian += view * square;
        if (p->stats.drift) p->stats.drift += view * square;
        p->job.stats = &p->stats;
    }
    if (!job->kept) return;
    p->kept = *job->kept;
    if (p->kept.zeros) p->kept.zeros += first * pith_zeros_stride(job->cols);
    p->job.kept = &p->kept;
}

/* Losses are of a mean row; of the others what is worst. */
static void add_report(const struct part *p, uint32_t rows, struct pith_round_report *sum)
{
    const struct pith_round_report *r = &p->report;
    const double share = (double)p->job.rows / rows;
    sum->loss += share * r->loss;
    sum->nearest_loss += share * r->nearest_loss;
    sum->factor_seconds += r->factor_seconds;
    if (r->damp > sum->damp) sum->damp = r->damp;
    if (r->damp_retries > sum->damp_retries) sum->damp_retries = r->damp_retries;
    if (r->dead_columns > sum->dead_columns) sum->dead_columns = r->dead_columns;
}

static enum pith_status check_parts(const struct pith_round_job *job, const struct pith_qmat *q,
                                    struct pith_error *err)
{
    const bool kept = job->kept && job->kept->sparse;
    if (q->row_group == 1 && !job->grid.double_quant && !kept &&
        job->options.act_order != PITH_ORDER_GROUP && job->rows >= job->stats->views)
        return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "row_groups of %u need as many rows, scales by row and columns in one order,"
                     " and keep nothing off the grid; 1 does without",
                     job->stats->views);
}

static enum pith_status run_parts(const struct pith_round_job *job, enum pith_gptq_form form,
                                  struct pith_qmat *q, struct pith_round_report *report,
                                  struct pith_error *err)
{
    PITH_TRY(check_parts(job, q, err));
    for (uint32_t v = 0; v < views_of(job); v++) {
        struct part p;
        take_part(job, v, &p);
        struct pith_qmat rows = cut(q, p.first, p.job.rows);
        PITH_TRY(pith_gptq_solve(&p.job, form, &rows, &p.report, err));
        add_report(&p, job->rows, report);
    }
    return PITH_OK;
}

static enum pith_status run(const struct pith_round_job *job, enum pith_gptq_form form,
                            struct pith_qmat *q, struct pith_round_report *report,
                            struct pith_error *err)
{
    *report = (struct pith_round_report){0};
    PITH_TRY(pith_round_begin(job, q, err));
    const enum pith_status s = views_of(job) > 1 ? run_parts(job, form, q, report, err)
                                                 : pith_gptq_solve(job, form, q, report, err);
    if (s != PITH_OK) pith_qmat_free(q);
    return s;
}

static enum pith_status prune(const struct pith_round_job *job, enum pith_gptq_form form,
                              struct pith_round_report *report, struct pith_error *err)
{
    if (views_of(job) == 1) return pith_gptq_prune(job, form, report, err);
    for (uint32_t v = 0; v < views_of(job); v++) {
        struct part p;
        take_part(job, v, &p);
        PITH_TRY(pith_gptq_prune(&p.job, form, &p.report, err));
        add_report(&p, job->rows, report);
    }
    return PITH_OK;
}

#define FORM(name, form)                                                                           \
    static enum pith_status run_##name(const struct pith_round_job *job, struct pith_qmat *q,      \
                                       struct pith_round_report *report, struct pith_error *err)   \
    {                                                                                              \
        return run(job, form, q, report, err);                                                     \
    }                                                                                              \
    static enum pith_status prune_##name(const struct pith_round_job *job,                         \
                                         struct pith_round_report *report, struct pith_error *err) \
    {                                                                                              \
        return prune(job, form, report, err);                                                      \
    }                                                                                              \
    static uint64_t scratch_##name(const struct pith_round_job *job,                               \
                                   const struct pith_split *split)                                 \
    {                                                                                              \
        return pith_gptq_scratch(job, form, split);                                                \
    }
FORM(gptq, PITH_GPTQ_PLAIN)
FORM(gptaq, PITH_GPTQ_GPTAQ)
FORM(qep, PITH_GPTQ_QEP)
#undef FORM

const struct pith_rounder pith_rounder_gptq = {
    .name = "gptq",
    .summary = "each column's rounding error is made up for by the columns after it",
    .needs = PITH_NEED_HESSIAN,
    .run = run_gptq,
    .scratch = scratch_gptq,
    .keeps = true,
    .dense = prune_gptq,
};

const struct pith_rounder pith_rounder_guided = {
    .name = "gptq:guided",
    .summary = "GPTQ, in which a token counts by how much the model's loss feels it",
    .needs = PITH_NEED_HESSIAN | PITH_NEED_GUIDED,
    .run = run_gptq,
    .scratch = scratch_gptq,
    .keeps = true,
    .dense = prune_gptq,
};

const struct pith_rounder pith_rounder_gptaq = {
    .name = "gptaq",
    .summary = "GPTQ that makes up for what the blocks before did to the inputs, column by column",
    .needs = PITH_NEED_HESSIAN | PITH_NEED_DRIFT,
    .run = run_gptaq,
    .scratch = scratch_gptaq,
    .keeps = true,
    .dense = prune_gptaq,
};

const struct pith_rounder pith_rounder_gptaq_guided = {
    .name = "gptaq:guided",
    .summary = "the same, in which a token counts by how much the model's loss feels it",
    .needs = PITH_NEED_HESSIAN | PITH_NEED_DRIFT | PITH_NEED_GUIDED,
    .run = run_gptaq,
    .scratch = scratch_gptaq,
    .keeps = true,
    .dense = prune_gptaq,
};

const struct pith_rounder pith_rounder_qep = {
    .name = "qep",
    .summary = "GPTQ of the matrix that makes up best for what the blocks before did to the inputs",
    .needs = PITH_NEED_HESSIAN | PITH_NEED_DRIFT,
    .run = run_qep,
    .scratch = scratch_qep,
    .keeps = true,
    .dense = prune_qep,
};

const struct pith_rounder pith_rounder_qep_guided = {
    .name = "qep:guided",
    .summary = "the same, in which a token counts by how much the model's loss feels it",
    .needs = PITH_NEED_HESSIAN | PITH_NEED_DRIFT | PITH_NEED_GUIDED,
    .run = run_qep,
    .scratch = scratch_qep,
    .keeps = true,
    .dense = prune_qep,
};
