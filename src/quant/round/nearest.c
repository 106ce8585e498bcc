/* quant/round/nearest.c: every weight takes the nearest point of its grid. */
#include "quant/tables.h"

#include "base/mem.h"

#include <math.h>

struct nearest {
    const struct pith_gridder *gridder;
    struct pith_qmat *q;
    float *w;       /* on return the error w - q */
    double *sums;   /* [rows] squared error */
    uint8_t *codes; /* [threads][cols] */
    float *values;  /* [threads][cols] */
};

static void round_row(void *ctx, size_t row, unsigned thread)
{
    const struct nearest *n = ctx;
    const size_t cols = n->q->cols;
    uint8_t *codes = n->codes + thread * cols;
    float *values = n->values + thread * cols, *w = n->w + row * cols;
    pith_quantize_row(n->gridder, n->q, (uint32_t)row, w, codes, values);
    pith_qmat_set_codes(n->q, (uint32_t)row, codes);
    double sum = 0.0;
    for (size_t c = 0; c < cols; c++) {
        w[c] -= values[c];
        sum += (double)w[c] * (double)w[c];
    }
    n->sums[row] = sum;
}

static enum pith_status round_all(const struct pith_round_job *job, struct pith_qmat *q,
                                  double *squares, struct pith_error *err)
{
    struct pith_pool *pool = pith_backend_pool(job->backend);
    const size_t threads = pith_pool_threads(pool);
    struct nearest n = {.gridder = pith_gridder_for(&job->grid), .q = q, .w = job->w};
    n.sums = pith_alloc(job->rows, sizeof *n.sums);
    n.codes = pith_alloc(threads, job->cols);
    n.values = pith_alloc(threads * sizeof *n.values, job->cols);
    enum pith_status s = PITH_OK;
    if (n.sums && n.codes && n.values) {
        pith_pool_run(pool, job->rows, round_row, &n);
        *squares = 0.0;
        for (uint32_t r = 0; r < job->rows; r++) *squares += n.sums[r];
    } else {
        s = pith_fail_nomem(err, "rounding");
    }
    pith_free(n.sums);
    pith_free(n.codes);
    pith_free(n.values);
    return s;
}

static enum pith_status run(const struct pith_round_job *job, struct pith_qmat *q,
                            struct pith_round_report *report, struct pith_error *err)
{
    *report = (struct pith_round_report){0};
    PITH_TRY(pith_round_begin(job, q, err));
    double squares = 0.0;
    enum pith_status s =
        pith_fit_scales(pith_backend_pool(job->backend), &job->grid, job->w, q, err);
    if (s == PITH_OK) s = round_all(job, q, &squares, err);
    report->loss = squares / job->rows;
    if (s == PITH_OK && job->stats && job->stats->hessian)
        s = pith_round_loss(job->backend, job->w, job->rows, job->cols, job->stats->hessian,
                            &report->loss, err);
    if (s == PITH_OK && !isfinite(report->loss))
        s = pith_fail(err, PITH_NUMERIC, "the error of the rounded matrix is %g", report->loss);
    report->nearest_loss = report->loss;
    if (s != PITH_OK) pith_qmat_free(q);
    return s;
}

static uint64_t scratch(uint32_t rows, uint32_t cols)
{
    return (uint64_t)rows * sizeof(double) + (uint64_t)cols * 16 * 5 +
           pith_round_loss_scratch(rows);
}

const struct pith_rounder pith_rounder_nearest = {
    .name = "nearest",
    .summary = "each weight to the nearest grid point",
    .run = run,
    .scratch = scratch,
};
