/* quant/round/gptq_report.c: what GPTQ loses, and what rounding to nearest would have lost. */
#include "quant/round/gptq_solver.h"

#include <math.h>
#include <string.h>

static void subtract_decoded(void *ctx, size_t row, unsigned thread)
{
    const struct pith_gptq_solver *s = ctx;
    (void)thread;
    const float *w = s->job->w + row * s->cols;
    float *d = s->wt + row * s->cols;
    pith_qmat_decode(s->q, (uint32_t)row, 1, d);
    for (uint32_t c = 0; c < s->cols; c++) d[c] = w[c] - d[c];
}

/* Rounding to nearest drops and keeps the same weights. */
static void correct_errors(const struct pith_gptq_solver *s, size_t row, const float *w, float *d)
{
    for (uint32_t k = 0; (s->zeros || s->off) && k < s->cols; k++) {
        if (pith_gptq_is_set(s, s->zeros, k, row)) d[s->f.perm[k]] = w[s->f.perm[k]];
        if (pith_gptq_is_set(s, s->off, k, row)) d[s->f.perm[k]] = 0.0f;
    }
}

/* wt[row] holds what rounding to nearest gives: w less that. */
static void subtract_row(void *ctx, size_t row, unsigned thread)
{
    const struct pith_gptq_solver *s = ctx;
    (void)thread;
    const float *w = s->job->w + row * s->cols;
    float *d = s->wt + row * s->cols;
    for (uint32_t c = 0; c < s->cols; c++) d[c] = w[c] - d[c];
    correct_errors(s, row, w, d);
}

/* The same for q's own scales, which were fitted on the original weights. */
static void subtract_nearest(void *ctx, size_t row, unsigned thread)
{
    const struct pith_gptq_solver *s = ctx;
    const size_t at = row * s->cols;
    pith_quantize_row(s->kern, s->q, (uint32_t)row, s->job->w + at, NULL, s->wt + at);
    subtract_row(ctx, row, thread);
}

/* What the errors in wt, [rows][cols] in the matrix's order, lose; without drift and outputs by row
 * too, unless that is NULL. With drift it is the squared error of Q X against W X', but for what no
 * Q can correct: |(W - Q) R + W D R^-T|^2 for D the drift, of which `fixed_loss` is the last term's
 * square. */
static enum pith_status find_loss(const struct pith_gptq_solver *s, double *loss, double *row,
                                  struct pith_error *err)
{
    const struct pith_round_job *job = s->job;
    const size_t cols = s->cols;
    double cross = 0, squares = 0;
    if (row) {
        if (!pith_round_losses(job->backend, s->wt, s->rows, s->cols, job->stats->hessian, row))
            return pith_fail_nomem(err, "the loss of a matrix");
        *loss = pith_round_mean(row, s->rows, 2.0);
        return PITH_OK;
    }
    if (s->outputs.rows) pith_outputs_weigh(&s->outputs, job->backend, s->wt, cols);
    PITH_TRY(
        pith_round_loss(job->backend, s->wt, s->rows, s->cols, job->stats->hessian, loss, err));
    if (!s->form) return PITH_OK;
    pith_gemm(job->backend, &(struct pith_gemm){.m = s->rows,
                                                .n = cols,
                                                .k = cols,
                                                .a = job->w,
                                                .a_rs = cols,
                                                .a_cs = 1,
                                                .b = job->stats->drift,
                                                .b_rs = cols,
                                                .b_cs = 1,
                                                .c = s->correction,
                                                .ldc = cols});
    if (s->outputs.rows) pith_outputs_weigh(&s->outputs, job->backend, s->correction, cols);
    for (size_t i = 0; i < s->rows * cols; i++) {
        cross += (double)s->wt[i] * (double)s->correction[i];
        squares += (double)s->wt[i] * (double)s->wt[i];
    }
    *loss += (2 * job->options.drift * cross + s->f.lambda * squares) / s->rows + s->fixed_loss;
    return PITH_OK;
}

/* What rounding to nearest would have lost. */
static enum pith_status measure_nearest(struct pith_gptq_solver *s, double *loss,
                                        struct pith_error *err)
{
    const struct pith_round_job *job = s->job;
    if (s->dynamic) {
        memcpy(s->wt, job->w, (size_t)s->rows * s->cols * sizeof *s->wt);
        PITH_TRY(pith_pseudo_quantize_within(job->backend, &job->grid, job->scale_dtype,
                                             s->q->global, s->rows, s->cols, s->wt, err));
        pith_pool_run(s->pool, s->rows, subtract_row, s);
    } else {
        pith_pool_run(s->pool, s->rows, subtract_nearest, s);
    }
    return find_loss(s, loss, job->lost ? job->lost->nearest : NULL, err);
}

/* What every rounder leaves in w: the error W - Q. */
static void leave_error(void *ctx, size_t row, unsigned thread)
{
    const struct pith_gptq_solver *s = ctx;
    (void)thread;
    float *w = s->job->w + row * s->cols, *q = s->wt + row * s->cols;
    pith_qmat_decode(s->q, (uint32_t)row, 1, q);
    for (uint32_t c = 0; c < s->cols; c++) w[c] -= q[c];
}

enum pith_status pith_gptq_measure(struct pith_gptq_solver *s, struct pith_round_report *report,
                                   struct pith_error *err)
{
    struct pith_round_lost *lost = s->job->lost;
    if (lost) lost->times = 2.0;
    pith_pool_run(s->pool, s->rows, subtract_decoded, s);
    PITH_TRY(find_loss(s, &report->loss, lost ? lost->loss : NULL, err));
    PITH_TRY(measure_nearest(s, &report->nearest_loss, err));
    if (!isfinite(report->loss))
        return pith_fail(err, PITH_NUMERIC, "the error of the rounded matrix is %g", report->loss);
    pith_pool_run(s->pool, s->rows, leave_error, s);
    return PITH_OK;
}

static void subtract_values(void *ctx, size_t row, unsigned thread)
{
    const struct pith_gptq_solver *s = ctx;
    (void)thread;
    const float *w = s->job->w + row * s->cols, *v = s->values + row * s->cols;
    for (uint32_t c = 0; c < s->cols; c++) s->wt[row * s->cols + c] = w[c] - v[c];
}

/* The same for weights that stay as they are, but for the zeros. */
static void subtract_rounded(void *ctx, size_t row, unsigned thread)
{
    const struct pith_gptq_solver *s = ctx;
    (void)thread;
    const float *w = s->job->w + row * s->cols;
    float *d = s->wt + row * s->cols;
    for (uint32_t c = 0; c < s->cols; c++) d[c] = w[c] - pith_round_to(s->job->scale_dtype, w[c]);
    correct_errors(s, row, w, d);
}

enum pith_status pith_gptq_measure_values(struct pith_gptq_solver *s,
                                          struct pith_round_report *report, struct pith_error *err)
{
    pith_pool_run(s->pool, s->rows, subtract_values, s);
    PITH_TRY(find_loss(s, &report->loss, NULL, err));
    pith_pool_run(s->pool, s->rows, subtract_rounded, s);
    PITH_TRY(find_loss(s, &report->nearest_loss, NULL, err));
    if (isfinite(report->loss)) return PITH_OK;
    return pith_fail(err, PITH_NUMERIC, "the error of the matrix is %g", report->loss);
}
