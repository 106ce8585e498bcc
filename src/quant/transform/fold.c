#include "quant/transform/fold.h"

#include "base/file.h"
#include "base/mem.h"
#include "quant/scale.h"
#include "quant/transform/awq.h"

#include <math.h>

enum pith_status pith_fold_check(const struct pith_transform_job *job, const char *who,
                                 struct pith_error *err)
{
    if (job->count < 1) return pith_fail(err, PITH_ARG, "%s has no linear to see", who);
    const uint32_t dim = job->linear[0].cols;
    for (unsigned i = 0; i < job->count; i++)
        if (job->linear[i].cols != dim || job->linear[i].rows == 0 || dim == 0)
            return pith_fail(err, PITH_ARG, "linears of one site must read the same inputs");
    if (pith_fold_tied(job) &&
        (job->tie_block == 0 || dim % ((uint64_t)job->repeat * job->tie_block) != 0))
        return pith_fail(err, PITH_ARG, "%u inputs are not made of heads of %u shared by %u", dim,
                         job->tie_block, job->repeat);
    return PITH_OK;
}

uint64_t pith_fold_trial_bytes(const struct pith_transform_job *job)
{
    uint64_t most = 0;
    for (unsigned i = 0; i < job->count; i++) {
        const struct pith_transform_linear *l = &job->linear[i];
        const uint64_t one =
            pith_pseudo_quantize_bytes(job->backend, &l->grid, job->scale_dtype, l->rows, l->cols);
        if (one > most) most = one;
    }
    return most;
}

bool pith_fold_tied(const struct pith_transform_job *job)
{
    return !job->gain && job->prev_w && job->repeat > 1;
}

size_t pith_fold_first(const struct pith_transform_job *job, size_t c)
{
    if (!pith_fold_tied(job)) return c;
    const size_t span = (size_t)job->tie_block * job->repeat;
    return c / span * span + c % job->tie_block;
}

bool pith_fold_possible(const struct pith_transform_job *job)
{
    bool any = false;
    for (unsigned i = 0; i < job->count; i++) any = any || job->linear[i].grid.format;
    return any && (job->gain || job->prev_w);
}

/* A gain as the checkpoint can hold it. */
static float stored_gain(const struct pith_transform_job *job, float gain)
{
    return pith_round_to(job->gain_dtype, gain - job->gain_plus) + job->gain_plus;
}

/* Row of prev_w that makes input c. */
static size_t source_row(const struct pith_transform_job *job, size_t c)
{
    if (!pith_fold_tied(job)) return c;
    return c / job->tie_block / job->repeat * job->tie_block + c % job->tie_block;
}

void pith_fold_settle(const struct pith_transform_job *job, float *s)
{
    for (size_t c = 0; job->gain && c < job->linear[0].cols; c++) {
        const float stored = stored_gain(job, job->gain[c] / s[c]);
        const float exact = job->gain[c] / stored;
        if (isfinite(stored) && isfinite(exact) && exact > 0.0f) s[c] = exact;
        else if (!isfinite(stored)) s[c] = 1.0f;
    }
}

struct scaling {
    const struct pith_transform_linear *l;
    const float *s;
};

static void scale_row(void *ctx, size_t row, unsigned thread)
{
    (void)thread;
    const struct scaling *x = ctx;
    float *w = x->l->w + row * x->l->cols;
    for (size_t c = 0; c < x->l->cols; c++) w[c] *= x->s[c];
}

void pith_fold_scale_one(struct pith_pool *pool, const struct pith_transform_linear *l,
                         const float *s)
{
    struct scaling x = {l, s};
    pith_pool_run(pool, l->rows, scale_row, &x);
}

void pith_fold_scale(const struct pith_transform_job *job, const float *s)
{
    for (unsigned i = 0; i < job->count; i++)
        if (!job->linear[i].lent)
            pith_fold_scale_one(pith_backend_pool(job->backend), &job->linear[i], s);
}

enum pith_status pith_fold_hold(const struct pith_transform_job *job, unsigned i,
                                struct pith_error *err)
{
    return job->linear[i].lent ? job->hold(job->lender, i, err) : PITH_OK;
}

void pith_fold_drop(const struct pith_transform_job *job, unsigned i)
{
    if (job->linear[i].lent) job->drop(job->lender, i);
}

void pith_transform_redo(struct pith_backend *b, const struct pith_transform_linear *l,
                         const float *s)
{
    pith_fold_scale_one(pith_backend_pool(b), l, s);
    if (l->pick) pith_awq_clip_again(l);
}

void pith_transform_over(const struct pith_transform_job *job, const float *s, float *over)
{
    for (size_t c = 0; c < job->linear[0].cols; c++) over[source_row(job, c)] = s[c];
}

void pith_transform_redo_rows(float *w, uint32_t rows, uint32_t cols, const float *over)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t i = r * cols; i < (r + 1) * cols; i++) w[i] /= over[r];
}

void pith_fold_divide(const struct pith_transform_job *job, const float *s)
{
    const size_t dim = job->linear[0].cols;
    if (job->gain) {
        for (size_t c = 0; c < dim; c++) job->gain[c] = stored_gain(job, job->gain[c] / s[c]);
        return;
    }
    for (size_t c = 0; job->prev_w && c < dim; c++) {
        if (pith_fold_tied(job) && c / job->tie_block % job->repeat != 0) continue;
        const size_t row = source_row(job, c);
        float *w = job->prev_w + row * job->prev_cols;
        for (size_t i = 0; i < job->prev_cols; i++) w[i] /= s[c];
        if (job->prev_bias) job->prev_bias[row] /= s[c];
    }
}

/* Each rank found loss[rank], loss[rank + ranks] ...; all ranks get all. */
static enum pith_status share_losses(struct pith_ranks *r, double *loss, size_t count,
                                     struct pith_error *err)
{
    const unsigned ranks = pith_ranks_count(r), own = pith_ranks_own(r);
    if (ranks == 1) return PITH_OK;
    double *of = pith_zalloc(count, sizeof *of);
    if (!of) return pith_fail_nomem(err, "what scales lose");
    for (size_t i = own, n = 0; i < count; i += ranks, n++)
        of[pith_ranks_from(r, own, count) + n] = loss[i];
    const enum pith_status s = pith_ranks_share_parts(r, of, count, sizeof *of, err);
    for (size_t i = 0; i < count && s == PITH_OK; i++)
        loss[i] = of[pith_ranks_from(r, (unsigned)(i % ranks), count) + i / ranks];
    pith_free(of);
    return s;
}

enum pith_status pith_fold_try(const struct pith_transform_job *job, int count,
                               pith_fold_attempt_fn *attempt, void *ctx, double *loss,
                               struct pith_error *err)
{
    const unsigned ranks = pith_ranks_count(job->ranks), own = pith_ranks_own(job->ranks);
    for (int i = 0; i < count; i++)
        if ((unsigned)i % ranks == own) PITH_TRY(attempt(ctx, i, &loss[i], err));
    return share_losses(job->ranks, loss, (size_t)count, err);
}
