#include "quant/round.h"

#include "base/mem.h"
#include "kern/ops.h"
#include "num/block.h"

#include <math.h>

enum { PANEL = 128 }; /* columns of the product that are alive at a time */

struct finite_job {
    const struct pith_kern *kern;
    const float *w;
    size_t cols;
    float *most; /* [rows] largest magnitude; NaN when a weight is not finite */
};

static void check_row(void *ctx, size_t row, unsigned thread)
{
    const struct finite_job *j = ctx;
    (void)thread;
    float lo, hi;
    j->kern->range(j->cols, j->w + row * j->cols, &lo, &hi);
    j->most[row] = -lo > hi || isnan(lo) ? -lo : hi;
}

enum pith_status pith_round_check_weights(const struct pith_round_job *job, float *most,
                                          struct pith_error *err)
{
    struct finite_job j = {.kern = pith_backend_kern(job->backend), .w = job->w, .cols = job->cols};
    enum pith_status s = PITH_OK;
    j.most = pith_alloc(job->rows, sizeof *j.most);
    if (!j.most) return pith_fail_nomem(err, "rounding");
    pith_pool_run(pith_backend_pool(job->backend), job->rows, check_row, &j);
    for (uint32_t r = 0; r < job->rows && s == PITH_OK; r++) {
        const float *w = job->w + (size_t)r * job->cols;
        uint32_t c = 0;
        *most = fmaxf(*most, j.most[r]);
        if (!isnan(j.most[r])) continue;
        while (c + 1 < job->cols && isfinite(w[c])) c++;
        s = pith_fail(err, PITH_NUMERIC, "the weight in row %u, column %u is %g", r, c,
                      (double)w[c]);
    }
    pith_free(j.most);
    return s;
}

float pith_round_global(const struct pith_grid *grid, float most)
{
    enum pith_dtype scales = PITH_F32;
    (void)pith_grid_elements(grid, &scales);
    if (scales != PITH_F8_E4M3) return 1.0f;
    /* The search may take up to three quarters more than the scale of the largest block, as four
     * over six takes half more: the largest is 256 then, as theirs, instead of 448. */
    const float room = grid->mse ? 448.0f / 256.0f : 1.0f;
    return pith_nvfp4_twin(pith_nvfp4_global(most * room));
}

float pith_round_shared(const struct pith_grid *grid, float most)
{
    const float global = pith_round_global(grid, most);
    if (global != 1.0f) return global;
    if (grid->format->kind != PITH_KIND_FLOAT || grid->granularity != PITH_PER_TENSOR) return 0.0f;
    const float scale = grid->mse ? 0.0f : most / grid->format->max;
    return scale == 1.0f ? nextafterf(scale, 2.0f) : scale; /* 1 is no scale in q->global */
}

enum pith_status pith_round_begin(const struct pith_round_job *job, struct pith_qmat *q,
                                  struct pith_error *err)
{
    *q = (struct pith_qmat){0};
    if (!pith_gridder_for(&job->grid)) {
        char text[PITH_GRID_TEXT] = "none";
        if (job->grid.format) pith_grid_format(&job->grid, text);
        return pith_fail(err, PITH_UNSUPPORTED, "weights cannot be put on the grid %s", text);
    }
    if (job->stats && job->stats->dim != job->cols)
        return pith_fail(err, PITH_ARG, "the statistics are over %u inputs, the matrix has %u",
                         job->stats->dim, job->cols);
    float most = 0.0f;
    PITH_TRY(pith_round_check_weights(job, &most, err));
    PITH_TRY(pith_qmat_init(q, job->rows, job->cols, &job->grid, job->scale_dtype, err));
    q->global = job->global > 0.0f ? job->global : pith_round_global(&job->grid, most);
    return PITH_OK;
}

enum pith_status pith_round_fit(const struct pith_round_job *job, struct pith_qmat *q,
                                struct pith_error *err)
{
    const struct pith_level_rule levels = {
        .weight = job->stats ? job->stats->squares : NULL,
        .off_grid = job->off_grid ? job->off_grid->sparse : NULL,
    };
    if (q->levels && !pith_gridder_for(&job->grid)->whole)
        return pith_fit_levels(job->backend, &levels, job->w, q, err);
    const bool blocks = pith_gridder_for(&job->grid)->fit_block != NULL;
    return pith_fit_scales_for(job->backend, &job->grid, job->w, blocks ? levels.weight : NULL, q,
                               err);
}

struct dot_job {
    const float *d, *p;
    size_t cols, first, width;
    double *sums; /* [rows] */
};

static void add_dot(void *ctx, size_t row, unsigned thread)
{
    const struct dot_job *j = ctx;
    (void)thread;
    const float *d = j->d + row * j->cols + j->first, *p = j->p + row * PANEL;
    double sum = 0.0;
    for (size_t i = 0; i < j->width; i++) sum += (double)d[i] * (double)p[i];
    j->sums[row] += sum;
}

/* p = d * H[:, panel] without the columns behind the panel and with its own columns halved: H is
 * symmetric, so twice the dot product of p with d's panel is the panel's share of the trace. */
static void multiply_panel(struct pith_backend *b, const struct dot_job *j, size_t rows,
                           const float *h, float *half)
{
    const size_t n = j->cols, first = j->first, width = j->width;
    for (size_t i = 0; i < width; i++)
        for (size_t k = 0; k < width; k++)
            half[i * PANEL + k] = 0.5f * h[(first + i) * n + first + k];
    struct pith_gemm g = {.m = rows,
                          .n = width,
                          .k = width,
                          .a = j->d + first,
                          .a_rs = n,
                          .a_cs = 1,
                          .b = half,
                          .b_rs = PANEL,
                          .b_cs = 1,
                          .c = half + (size_t)PANEL * PANEL,
                          .ldc = PANEL};
    pith_gemm(b, &g);
    if (first == 0) return;
    g.k = first;
    g.a = j->d;
    g.b = h + first;
    g.b_rs = n;
    g.accumulate = true;
    pith_gemm(b, &g);
}

uint64_t pith_round_loss_scratch(uint32_t rows)
{
    return (uint64_t)rows * (PANEL * sizeof(float) + sizeof(double)) +
           PANEL * PANEL * sizeof(float);
}

bool pith_round_losses(struct pith_backend *b, const float *d, uint32_t rows, uint32_t cols,
                       const float *h, double *row)
{
    float *scratch = pith_alloc_aligned(PANEL * PANEL + (size_t)rows * PANEL, sizeof *scratch);
    if (!scratch) return false;
    struct dot_job j = {.d = d, .p = scratch + (size_t)PANEL * PANEL, .cols = cols, .sums = row};
    for (uint32_t r = 0; r < rows; r++) row[r] = 0.0;
    for (; j.first < cols; j.first += PANEL) {
        j.width = cols - j.first < PANEL ? cols - j.first : PANEL;
        multiply_panel(b, &j, rows, h, scratch);
        pith_pool_run(pith_backend_pool(b), rows, add_dot, &j);
    }
    pith_free(scratch);
    return true;
}

enum pith_status pith_round_factor(const struct pith_rounder *rounder,
                                   const struct pith_round_job *job, struct pith_ranks *ranks,
                                   struct pith_factor **out, struct pith_error *err)
{
    *out = NULL;
    if (!rounder->by->factor || rounder->needs & PITH_NEED_GUIDED) return PITH_OK;
    return rounder->by->factor(job, ranks, out, err);
}

double pith_round_mean(const double *row, uint32_t rows, double times)
{
    double sum = 0.0;
    for (uint32_t r = 0; r < rows; r++) sum += row[r];
    return times * sum / rows;
}

enum pith_status pith_round_loss(struct pith_backend *b, const float *d, uint32_t rows,
                                 uint32_t cols, const float *h, double *loss,
                                 struct pith_error *err)
{
    double *row = pith_alloc(rows, sizeof *row);
    const bool good = row && pith_round_losses(b, d, rows, cols, h, row);
    if (good) *loss = pith_round_mean(row, rows, 2.0);
    pith_free(row);
    return good ? PITH_OK : pith_fail_nomem(err, "the loss of a matrix");
}
