/* What a split takes off the grid, for rounders without support for it: zeros are made before and
 * weights are added after, so that the remainder is an ordinary matrix. */
#include "quant/round.h"

#include "base/mem.h"
#include "kern/ops.h"

#include <math.h>
#include <string.h>

void pith_off_grid_free(struct pith_off_grid *k)
{
    pith_free(k->zeros);
    pith_sparse_free(k->sparse);
    *k = (struct pith_off_grid){0};
}

/* Bits of a choice, by row and in a solver's order, where rows come in tiles. */
static uint64_t choice_bytes(uint32_t rows, uint32_t cols)
{
    return rows * (uint64_t)pith_zeros_stride(cols) + (rows / 64 + 1ull) * 8 * cols;
}

uint64_t pith_round_off_grid_scratch(const struct pith_split *split, double value, uint32_t rows,
                                     uint32_t cols)
{
    const uint64_t n = (uint64_t)rows * cols;
    if (split->two_four) /* and the dropped weights, or the whole matrix */
        return n * sizeof(float) + choice_bytes(rows, cols) + cols * sizeof(float);
    if (!split->sparse) return 0;
    const uint64_t off_grid = pith_sparse_count(rows, cols, value);
    return 2 * (off_grid * 8 + rows * 4ull) + off_grid * 4 + choice_bytes(rows, cols) + cols * 8ull;
}

/* ---- zeros ---- */

static size_t count_zeros(const struct pith_round_job *job)
{
    const size_t bytes = job->rows * pith_zeros_stride(job->cols);
    size_t count = 0;
    for (size_t i = 0; i < bytes; i++)
        for (unsigned b = job->off_grid->zeros[i]; b; b &= b - 1) count++;
    return count;
}

/* Puts 0 in their place. */
static void drop(const struct pith_round_job *job, float *values)
{
    for (uint32_t r = 0; r < job->rows; r++)
        for (uint32_t c = 0; c < job->cols; c++) {
            if (!pith_off_grid_zero(job->off_grid, job->cols, r, c)) continue;
            float *w = &job->w[(size_t)r * job->cols + c];
            *values++ = *w;
            *w = 0.0f;
        }
}

/* Their errors: w holds 0 - q, and q must be 0. */
static enum pith_status put_errors(const struct pith_round_job *job, const float *values,
                                   struct pith_error *err)
{
    for (uint32_t r = 0; r < job->rows; r++)
        for (uint32_t c = 0; c < job->cols; c++) {
            if (!pith_off_grid_zero(job->off_grid, job->cols, r, c)) continue;
            float *w = &job->w[(size_t)r * job->cols + c];
            if (*w != 0.0f)
                return pith_fail(err, PITH_UNSUPPORTED,
                                 "this grid and rounder have no exact 0 for row %u, column %u", r,
                                 c);
            *w = *values++;
        }
    return PITH_OK;
}

/* ---- weights off the grid ---- */

enum pith_status pith_round_attach(struct pith_qmat *q, const struct pith_sparse *off_grid,
                                   const float *total, struct pith_error *err)
{
    const size_t count = off_grid->start[q->rows];
    struct pith_sparse *s = pith_sparse_new(q->rows, count);
    if (!s) return pith_fail_nomem(err, "the weights off the grid");
    memcpy(s->start, off_grid->start, ((size_t)q->rows + 1) * sizeof *s->start);
    memcpy(s->col, off_grid->col, count * sizeof *s->col);
    for (uint32_t r = 0; r < q->rows; r++)
        for (uint32_t i = s->start[r]; i < s->start[r + 1]; i++) {
            float code;
            pith_qmat_decode_part(q, r, s->col[i], 1, &code);
            s->value[i] = pith_round_to(PITH_F16, total[i] - code);
            if (isfinite(s->value[i])) continue;
            pith_sparse_free(s);
            return pith_fail(err, PITH_NUMERIC, "row %u: a weight of %g does not fit into F16", r,
                             (double)total[i]);
        }
    q->sparse = s;
    return PITH_OK;
}

/* The errors of weights off the grid; w has 0 minus the values of their codes. */
static void put_off_grid_errors(const struct pith_round_job *job, const struct pith_qmat *q)
{
    const struct pith_sparse *off_grid = job->off_grid->sparse;
    for (uint32_t r = 0; r < job->rows; r++)
        for (uint32_t i = off_grid->start[r]; i < off_grid->start[r + 1]; i++)
            job->w[(size_t)r * job->cols + off_grid->col[i]] += off_grid->value[i] -
                                                                q->sparse->value[i];
}

/* ---- the whole ---- */

/* By the measure of struct pith_round_report. */
static enum pith_status measure(const struct pith_round_job *job, double *loss,
                                struct pith_error *err)
{
    const struct pith_kern *k = pith_backend_kern(job->backend);
    double squares = 0.0;
    if (job->stats && job->stats->hessian)
        return pith_round_loss(job->backend, job->w, job->rows, job->cols, job->stats->hessian,
                               loss, err);
    for (uint32_t r = 0; r < job->rows; r++)
        squares += k->sumsq(job->cols, job->w + (size_t)r * job->cols);
    *loss = squares / job->rows;
    return PITH_OK;
}

static enum pith_status finish(const struct pith_round_job *job, const float *dropped,
                               struct pith_qmat *q, struct pith_round_report *report,
                               struct pith_error *err)
{
    const struct pith_off_grid *off_grid = job->off_grid;
    if (off_grid->zeros) PITH_TRY(put_errors(job, dropped, err));
    if (off_grid->sparse) {
        PITH_TRY(pith_round_attach(q, off_grid->sparse, off_grid->sparse->value, err));
        put_off_grid_errors(job, q);
    }
    const bool same = report->nearest_loss == report->loss;
    PITH_TRY(measure(job, &report->loss, err));
    if (same) report->nearest_loss = report->loss;
    return PITH_OK;
}

static bool keeps_nothing(const struct pith_off_grid *k)
{
    return !k || (!k->zeros && !k->choose && !k->sparse);
}

static enum pith_status fail_choose(const struct pith_rounder *rounder, struct pith_error *err)
{
    return pith_fail(err, PITH_ARG, "%s does not choose zeros", rounder->name);
}

enum pith_status pith_round(const struct pith_rounder *rounder, const struct pith_round_job *job,
                            struct pith_qmat *q, struct pith_round_report *report,
                            struct pith_error *err)
{
    const struct pith_off_grid *off_grid = job->off_grid;
    if (keeps_nothing(off_grid) || rounder->by->keeps)
        return pith_rounder_run(rounder, job, q, report, err);
    if (off_grid->choose) return fail_choose(rounder, err);
    float *values = NULL;
    if (off_grid->zeros) {
        float most = 0.0f;
        PITH_TRY(pith_round_check_weights(job, &most, err)); /* dropped, none would be seen */
        values = pith_alloc(count_zeros(job), sizeof *values);
        if (!values) return pith_fail_nomem(err, "the weights that are dropped");
        drop(job, values);
    }
    enum pith_status s = pith_rounder_run(rounder, job, q, report, err);
    if (s == PITH_OK) {
        s = finish(job, values, q, report, err);
        if (s != PITH_OK) pith_qmat_free(q);
    }
    pith_free(values);
    return s;
}

enum pith_status pith_round_dense(const struct pith_rounder *rounder,
                                  const struct pith_round_job *job,
                                  struct pith_round_report *report, struct pith_error *err)
{
    const size_t n = (size_t)job->rows * job->cols;
    float most = 0.0f;
    *report = (struct pith_round_report){0};
    PITH_TRY(pith_round_check_weights(job, &most, err));
    if (rounder->by->dense) return rounder->by->dense(rounder, job, report, err);
    if (job->off_grid->choose) return fail_choose(rounder, err);
    float *values = pith_alloc(n, sizeof *values);
    if (!values) return pith_fail_nomem(err, "the weights that stay");
    for (uint32_t r = 0; r < job->rows; r++)
        for (uint32_t c = 0; c < job->cols; c++) {
            const size_t i = (size_t)r * job->cols + c;
            const bool zero = pith_off_grid_zero(job->off_grid, job->cols, r, c);
            values[i] = zero ? 0.0f : pith_round_to(job->scale_dtype, job->w[i]);
            job->w[i] -= values[i];
        }
    const enum pith_status s = measure(job, &report->loss, err);
    report->nearest_loss = report->loss;
    memcpy(job->w, values, n * sizeof *values);
    pith_free(values);
    return s;
}
