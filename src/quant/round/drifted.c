#include "quant/round/drifted.h"

enum { STRIPE = 64 }; /* rows of a task */

struct pith_drifted pith_drifted_of(const struct pith_round_job *job, size_t ld)
{
    return (struct pith_drifted){.rows = job->rows,
                                 .ld = ld,
                                 .f = {.backend = job->backend,
                                       .h = job->stats ? job->stats->hessian : NULL,
                                       .cols = job->cols,
                                       .by = {.order = PITH_ORDER_NONE,
                                              .width = 1,
                                              .block = job->cols,
                                              .damp = pith_round_damp(job)}}};
}

void pith_drifted_layout(struct pith_arena *a, struct pith_drifted *d)
{
    if (!d->rows) return;
    pith_factor_layout(a, &d->f);
    d->y = pith_arena_take_rows(a, d->f.cols, d->f.cols, sizeof *d->y);
    d->other = pith_arena_take_rows(a, d->f.cols, d->ld, sizeof *d->other);
}

/* Some rows: the correction times R is x R; R is stored divided by its diagonal, column by column.
 */
static void solve_rows(void *ctx, size_t task, unsigned thread)
{
    const struct pith_drifted *d = ctx;
    const size_t cols = d->f.cols, from = task * STRIPE,
                 to = from + STRIPE < d->rows ? from + STRIPE : d->rows;
    (void)thread;
    for (size_t k = 0; k < cols; k++) {
        const float *r = d->f.r + k * cols, *own = d->other + k * d->ld;
        for (size_t j = k + 1; j < cols; j++) {
            float *x = d->other + j * d->ld;
            for (size_t i = from; i < to; i++) x[i] -= own[i] * r[j];
        }
    }
}

enum pith_status pith_drifted_make(struct pith_drifted *d, const struct pith_round_job *job,
                                   float *spare, struct pith_error *err)
{
    const size_t cols = d->f.cols;
    if (!job->stats || !job->stats->drift)
        return pith_fail(err, PITH_ARG, "QEP needs what the inputs have drifted by");
    PITH_TRY(pith_factor_make(&d->f, err));
    for (size_t k = 0; k < cols; k++)
        for (size_t r = 0; r < d->ld; r++)
            spare[k * d->ld + r] = r < d->rows ? job->w[r * cols + d->f.perm[k]] : 0.0f;
    pith_factor_drift(&d->f, job->stats->drift, job->options.drift, d->y);
    (void)pith_factor_correct(&d->f, d->y, spare, d->rows, d->ld, d->other);
    pith_pool_run(pith_backend_pool(job->backend), (d->rows + STRIPE - 1) / STRIPE, solve_rows, d);
    for (size_t r = 0; r < d->rows; r++)
        for (size_t k = 0; k < cols; k++) {
            float *w = job->w + r * cols + d->f.perm[k], *other = d->other + k * d->ld + r;
            const float was = *w;
            *w += *other;
            *other = was;
        }
    return PITH_OK;
}

void pith_drifted_undo(const struct pith_drifted *d, float *w)
{
    for (size_t r = 0; r < d->rows; r++)
        for (size_t k = 0; k < d->f.cols; k++)
            w[r * d->f.cols + d->f.perm[k]] = d->other[k * d->ld + r];
}
