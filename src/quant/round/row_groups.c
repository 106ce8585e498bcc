#include "quant/round/row_groups.h"

#include "base/mem.h"
#include "num/gguf/kmat.h"

static uint32_t views_of(const struct pith_round_job *job)
{
    return job->stats && job->stats->views > 1 ? job->stats->views : 1;
}

/* Rows of a matrix whose scales are by row or by block, to be written through. */
static struct pith_qmat cut(const struct pith_qmat *q, uint32_t first, uint32_t rows)
{
    struct pith_qmat part = *q;
    part.rows = rows;
    part.codes += (size_t)first * q->stride;
    const size_t at = pith_qmat_scale_index(q, first, 0);
    part.scales += at;
    if (q->zeros) part.zeros += at;
    if (q->offsets) part.offsets += at;
    if (q->levels) part.levels += (size_t)first << q->format->bits;
    if (q->outer) part.outer += (size_t)first * (q->cols / PITH_KBLOCK);
    return part;
}

/* A group's part of a job: its rows, its statistics, its weights off the grid. */
struct part {
    struct pith_round_job job;
    struct pith_stats stats;
    struct pith_off_grid off_grid;
    struct pith_round_report report;
    uint32_t first;
};

static void cut_part(const struct pith_round_job *job, uint32_t view, struct part *p)
{
    const uint32_t views = views_of(job), first = pith_rows_from(views, view, job->rows);
    const size_t square = (size_t)job->cols * job->cols;
    *p = (struct part){.job = *job, .first = first};
    p->job.rows = pith_rows_from(views, view + 1, job->rows) - first;
    p->job.w += (size_t)first * job->cols;
    if (job->stats) {
        p->stats = *job->stats;
        if (p->stats.squares) p->stats.squares += (size_t)view * job->cols;
        if (p->stats.hessian) p->stats.hessian += view * square;
        if (p->stats.drift) p->stats.drift += view * square;
        if (p->stats.outputs)
            p->stats.outputs += pith_outputs_of(job->rows, p->stats.output_block, views, view);
        if (p->stats.outputs_by) p->stats.outputs_by += first;
        p->job.stats = &p->stats;
    }
    if (!job->off_grid) return;
    p->off_grid = *job->off_grid;
    if (p->off_grid.zeros) p->off_grid.zeros += first * pith_zeros_stride(job->cols);
    p->job.off_grid = &p->off_grid;
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
    const bool off_grid = job->off_grid && job->off_grid->sparse;
    if (q->row_group == 1 && !job->grid.double_quant && !off_grid &&
        job->options.act_order != PITH_ORDER_GROUP && job->rows >= job->stats->views)
        return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "row_groups of %u need as many rows, scales by row and columns in one order,"
                     " and keep nothing off the grid; 1 does without",
                     job->stats->views);
}

enum pith_status pith_round_parts(const struct pith_rounder *rounder,
                                  const struct pith_round_job *job, struct pith_qmat *q,
                                  struct pith_round_report *report, struct pith_error *err)
{
    *report = (struct pith_round_report){0};
    if (views_of(job) == 1) return rounder->by->part(rounder, job, q, report, err);
    if (q) PITH_TRY(check_parts(job, q, err));
    for (uint32_t v = 0; v < views_of(job); v++) {
        struct part p;
        cut_part(job, v, &p);
        struct pith_qmat rows = q ? cut(q, p.first, p.job.rows) : (struct pith_qmat){0};
        PITH_TRY(rounder->by->part(rounder, &p.job, q ? &rows : NULL, &p.report, err));
        add_report(&p, job->rows, report);
    }
    return PITH_OK;
}

/* --- rows that are rounded apart -------------------------------------------------------------- */

uint32_t pith_round_cut(const struct pith_rounder *rounder, const struct pith_round_job *job,
                        const struct pith_split *split)
{
    enum { TILE = 64 }; /* of rows, in which solvers work */
    const struct pith_gridder *g = job->grid.format ? pith_gridder_for(&job->grid) : NULL;
    const uint32_t block = job->grid.granularity == PITH_PER_BLOCK ? job->grid.group : 1;
    const bool off_grid = split->sparse || split->of_inputs ||
                          (split->two_four && !rounder->by->keeps);
    const bool coupled = !g || g->whole || job->grid.double_quant || views_of(job) > 1 ||
                         job->grid.granularity == PITH_PER_TENSOR;
    if (!rounder->by->part || rounder->alone || off_grid || coupled || block == 0) return 0;
    return block % TILE == 0 ? block : TILE % block == 0 ? TILE : 0;
}

enum pith_status pith_round_some(const struct pith_rounder *rounder,
                                 const struct pith_round_job *job, struct pith_round_span span,
                                 struct pith_qmat *q, struct pith_round_report *report,
                                 struct pith_error *err)
{
    struct pith_round_job some = *job;
    struct pith_round_lost lost = {0};
    struct pith_off_grid off_grid = {0};
    *report = (struct pith_round_report){0};
    PITH_TRY(pith_round_begin(job, q, err));
    if (span.rows == 0) return PITH_OK;
    struct pith_qmat part = cut(q, span.first, span.rows);
    some.rows = span.rows;
    some.w += (size_t)span.first * job->cols;
    if (job->lost)
        lost = (struct pith_round_lost){job->lost->loss + span.first,
                                        job->lost->nearest + span.first, 0};
    some.lost = job->lost ? &lost : NULL;
    if (job->off_grid) off_grid = *job->off_grid;
    if (off_grid.zeros) off_grid.zeros += span.first * pith_zeros_stride(job->cols);
    some.off_grid = job->off_grid ? &off_grid : NULL;
    const enum pith_status s = rounder->by->part(rounder, &some, &part, report, err);
    if (job->lost) job->lost->times = lost.times;
    q->g_idx = part.g_idx;
    if (s != PITH_OK) pith_qmat_free(q);
    return s;
}
