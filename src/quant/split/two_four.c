/* quant/split/two_four.c: of each four neighbouring inputs of a row two become 0, a pattern that
 * matrix units of GPUs since 2020 multiply at up to twice the speed.
 *
 * Three ways to choose them: the weights smallest in magnitude; those smallest in |w| ||x|| (Wanda:
 * Sun, Liu, Bair, Kolter 2023), where ||x|| is the norm of the input; or, in the course of GPTQ's
 * sweep, those that cost least to drop once later weights have made up for them (SparseGPT:
 * Frantar, Alistarh 2023), which is the rounder's business. */
#include "quant/tables.h"

#include "base/mem.h"

#include <math.h>

struct choice {
    const struct pith_split_job *job;
    const float *norm; /* [cols] of each input; NULL: all alike */
    uint8_t *zeros;
};

/* A row's scores, and of each four the two smallest; of equal ones the first. */
static void choose_row(void *ctx, size_t row, unsigned thread)
{
    const struct choice *x = ctx;
    (void)thread;
    const uint32_t cols = x->job->cols;
    const float *w = x->job->w + row * cols;
    uint8_t *bits = x->zeros + row * pith_zeros_stride(cols);
    for (uint32_t c = 0; c < cols; c += 4) {
        float score[4];
        for (uint32_t i = 0; i < 4; i++)
            score[i] = fabsf(w[c + i]) * (x->norm ? x->norm[c + i] : 1.0f);
        for (uint32_t n = 0, taken = 4, least; n < 2; n++, taken = least) {
            least = taken == 0; /* scores may all be infinite */
            for (uint32_t i = least + 1; i < 4; i++)
                if (i != taken && score[i] < score[least]) least = i;
            bits[(c + least) / 8] |= (uint8_t)(1u << (c + least) % 8);
        }
    }
}

static enum pith_status choose_all(const struct pith_split_job *job, const float *norm,
                                   struct pith_off_grid *off_grid, struct pith_error *err)
{
    off_grid->zeros = pith_zalloc(job->rows, pith_zeros_stride(job->cols));
    if (!off_grid->zeros) return pith_fail_nomem(err, "the choice of zeros");
    struct choice x = {job, norm, off_grid->zeros};
    pith_pool_run(pith_backend_pool(job->backend), job->rows, choose_row, &x);
    return PITH_OK;
}

static enum pith_status check_width(const struct pith_split_job *job, struct pith_error *err)
{
    if (job->cols % 4 == 0) return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "2:4 needs rows of a multiple of 4 weights, and these have %u", job->cols);
}

static enum pith_status run_magnitude(const struct pith_split_job *job,
                                      struct pith_off_grid *off_grid, struct pith_error *err)
{
    PITH_TRY(check_width(job, err));
    return choose_all(job, NULL, off_grid, err);
}

static enum pith_status run_wanda(const struct pith_split_job *job, struct pith_off_grid *off_grid,
                                  struct pith_error *err)
{
    PITH_TRY(check_width(job, err));
    if (!job->stats || !job->stats->squares || job->stats->dim != job->cols)
        return pith_fail(err, PITH_ARG, "Wanda's score needs the norms of the inputs");
    float *norm = pith_alloc(job->cols, sizeof *norm);
    if (!norm) return pith_fail_nomem(err, "the norms of the inputs");
    for (uint32_t c = 0; c < job->cols; c++) norm[c] = sqrtf(job->stats->squares[c]);
    const enum pith_status s = choose_all(job, norm, off_grid, err);
    pith_free(norm);
    return s;
}

static enum pith_status run_best(const struct pith_split_job *job, struct pith_off_grid *off_grid,
                                 struct pith_error *err)
{
    if (!job->keeps) return run_wanda(job, off_grid, err);
    PITH_TRY(check_width(job, err));
    off_grid->choose = true;
    return PITH_OK;
}

const struct pith_split pith_split_two_four = {
    .name = "2:4",
    .summary = "two zeros in each four, chosen by gptq as it goes (SparseGPT), else as 2:4:wanda",
    .needs = PITH_NEED_SQUARES,
    .two_four = true,
    .left = true,
    .run = run_best,
};

const struct pith_split pith_split_two_four_wanda = {
    .name = "2:4:wanda",
    .summary = "two zeros in each four: the smallest by magnitude times the input's norm",
    .needs = PITH_NEED_SQUARES,
    .two_four = true,
    .run = run_wanda,
};

const struct pith_split pith_split_two_four_magnitude = {
    .name = "2:4:magnitude",
    .summary = "two zeros in each four: the smallest by magnitude, without calibration",
    .two_four = true,
    .run = run_magnitude,
};
