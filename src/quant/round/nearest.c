/* quant/round/nearest.c: every weight takes the nearest point of its grid. */
#include "quant/tables.h"

#include "base/mem.h"
#include "quant/round/row_groups.h"
#include "quant/round/trellis.h"

#include <math.h>
#include <string.h>

/* A fixed trip count without aliasing is what compilers vectorize. */
static void subtract(size_t n, const float *restrict values, float *restrict w)
{
    enum { STEP = 32 };
    for (; n >= STEP; n -= STEP, w += STEP, values += STEP)
        for (size_t i = 0; i < STEP; i++) w[i] -= values[i];
    for (size_t i = 0; i < n; i++) w[i] -= values[i];
}

/* Puts one row w[cols] on q's grid and leaves the error w - q in it; returns its squared sum. codes
 * and values are scratch of [cols]. */
static double round_row(const struct pith_kern *k, struct pith_qmat *q, uint32_t row, float *w,
                        uint8_t *codes, float *values)
{
    pith_quantize_row(k, q, row, w, codes, values);
    pith_qmat_set_codes(q, row, codes);
    subtract(q->cols, values, w);
    return k->sumsq(q->cols, w);
}

struct nearest {
    const struct pith_kern *kern;
    struct pith_qmat *q;
    float *w;       /* on return the error w - q */
    double *sums;   /* [rows] squared error */
    uint8_t *codes; /* [threads][cols] */
    float *values;  /* [threads][cols] */
};

static void round_task(void *ctx, size_t row, unsigned thread)
{
    const struct nearest *n = ctx;
    const size_t cols = n->q->cols;
    n->sums[row] = round_row(n->kern, n->q, (uint32_t)row, n->w + row * cols,
                             n->codes + thread * cols, n->values + thread * cols);
}

/* sums[rows] receives the squared errors. */
static enum pith_status round_all(const struct pith_round_job *job, struct pith_qmat *q,
                                  double *sums, struct pith_error *err)
{
    struct pith_pool *pool = pith_backend_pool(job->backend);
    const size_t threads = pith_pool_threads(pool);
    struct nearest n = {.kern = pith_backend_kern(job->backend), .q = q, .w = job->w, .sums = sums};
    n.codes = pith_alloc(threads, job->cols);
    n.values = pith_alloc(threads * sizeof *n.values, job->cols);
    enum pith_status s = PITH_OK;
    if (n.codes && n.values) pith_pool_run(pool, job->rows, round_task, &n);
    else s = pith_fail_nomem(err, "rounding");
    pith_free(n.codes);
    pith_free(n.values);
    return s;
}

static enum pith_status fail_loss(double loss, struct pith_error *err)
{
    return pith_fail(err, PITH_NUMERIC, "the error of the rounded matrix is %g", loss);
}

static enum pith_status round_part(const struct pith_rounder *rounder,
                                   const struct pith_round_job *job, struct pith_qmat *q,
                                   struct pith_round_report *report, struct pith_error *err)
{
    (void)rounder;
    const float *h = job->stats ? job->stats->hessian : NULL;
    const double times = h ? 2.0 : 1.0;
    double *row = job->lost ? job->lost->loss : pith_alloc(job->rows, sizeof *row);
    enum pith_status s = row ? pith_round_fit(job, q, err) : pith_fail_nomem(err, "rounding");
    if (s == PITH_OK) s = round_all(job, q, row, err);
    if (s == PITH_OK && h && !pith_round_losses(job->backend, job->w, job->rows, job->cols, h, row))
        s = pith_fail_nomem(err, "the loss of a matrix");
    if (s == PITH_OK) report->loss = pith_round_mean(row, job->rows, times);
    if (s == PITH_OK && !isfinite(report->loss)) s = fail_loss(report->loss, err);
    report->nearest_loss = report->loss;
    if (job->lost) {
        job->lost->times = times;
        memcpy(job->lost->nearest, row, job->rows * sizeof *row);
    } else {
        pith_free(row);
    }
    return s;
}

static enum pith_status run(const struct pith_rounder *rounder, const struct pith_round_job *job,
                            struct pith_qmat *q, struct pith_round_report *report,
                            struct pith_error *err)
{
    if (pith_trellis_is(job->grid.format))
        return pith_trellis_round(job, PITH_TRELLIS_NEAREST, q, report, err);
    *report = (struct pith_round_report){0};
    PITH_TRY(pith_round_begin(job, q, err));
    const enum pith_status s = pith_round_parts(rounder, job, q, report, err);
    if (s != PITH_OK) pith_qmat_free(q);
    return s;
}

/* The scales of row r of the part, or of the block that begins with it. */
static enum pith_status fit_scales(const struct pith_round_rows *part, struct pith_qmat *q,
                                   uint32_t r, struct pith_error *err)
{
    const struct pith_grid_rule rule = {pith_backend_kern(part->backend), part->grid,
                                        q->scale_dtype, q->global, NULL};
    const uint32_t row = part->first + r;
    if (pith_qmat_per_tensor(q) || q->nested || row % q->row_group != 0) return PITH_OK;
    const float *w = part->w + (size_t)r * q->cols;
    if (q->row_group > 1) pith_fit_band(&rule, w, q, row, part->tile);
    else pith_fit_row(&rule, w, q, row);
    return pith_check_row_scales(q, row / q->row_group, 1, err);
}

static enum pith_status run_rows(const struct pith_round_rows *part, struct pith_qmat *q,
                                 double *squares, struct pith_error *err)
{
    const struct pith_kern *k = pith_backend_kern(part->backend);
    for (uint32_t r = 0; r < part->rows; r++) {
        PITH_TRY(fit_scales(part, q, r, err));
        *squares += round_row(k, q, part->first + r, part->w + (size_t)r * q->cols, part->codes,
                              part->values);
    }
    return isfinite(*squares) ? PITH_OK : fail_loss(*squares, err);
}

static uint64_t scratch(const struct pith_rounder *rounder, const struct pith_round_job *job,
                        const struct pith_split *split)
{
    const uint64_t threads = pith_pool_threads(pith_backend_pool(job->backend));
    (void)rounder;
    (void)split;
    if (pith_trellis_is(job->grid.format)) return pith_trellis_scratch(job, PITH_TRELLIS_NEAREST);
    return (uint64_t)job->rows * sizeof(double) + (uint64_t)job->cols * threads * 5 +
           (job->stats && job->stats->hessian ? pith_round_loss_scratch(job->rows) : 0);
}

const struct pith_rounding pith_round_by_nearest = {
    .run = run,
    .rows = run_rows,
    .part = round_part,
    .scratch = scratch,
};
