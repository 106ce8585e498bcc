/* quant/transform/awq.c: activation-aware weight quantization (Lin et al. 2023).
 *
 * Weights that meet large inputs matter more. Scaling column j by s_j before quantizing and
 * dividing the input by s_j shrinks the relative error of those columns. s = absmean^ratio,
 * normalised so that max(s) min(s) = 1; the ratio is searched, with the module's output error as
 * the judge. Ratio 0 is s = 1, so by that measure the result is never worse than no scaling.
 *
 * When the rounder feeds errors back, nearest rounding is no judge of the scales: what counts is
 * the loss that such a rounder will leave (awq_pivots.c), and ranges are not clipped. */
#include "quant/transform/awq.h"

#include "base/arena.h"
#include "base/mem.h"
#include "quant/scale.h"
#include "quant/tables.h"
#include "quant/transform/fold.h"

#include <math.h>
#include <string.h>

enum { RATIOS = 20, PANEL = 256 };
static const double SMALLEST = 1e-4;

struct search {
    const struct pith_transform_job *job;
    struct pith_pool *pool;
    uint32_t dim;
    float **original; /* [count]; those of linears that are lent share one place */
    float *lent;      /* that place */
    double *stat;     /* [dim] absmean, tied where s must be */
    float *s;         /* [dim] of the present trial */
    float *panel;     /* [samples][PANEL] outputs */
    double *sums;     /* [samples] */
    double *pivots;   /* [dim] when the rounder's loss is predicted, else NULL */
    unsigned now;     /* the linear in work */
    void *memory;     /* of the arrays */
};

static size_t weights_of(const struct pith_transform_linear *l)
{
    return (size_t)l->rows * l->cols;
}

/* ---- checks and memory ---- */

static enum pith_status check_stats(const struct pith_transform_job *job, uint32_t dim,
                                    struct pith_error *err)
{
    const struct pith_stats *st = job->stats;
    if (!st || !st->absmean)
        return pith_fail(err, PITH_ARG, "AWQ needs the inputs' mean magnitudes");
    if (st->dim != dim)
        return pith_fail(err, PITH_ARG, "the statistics are over %u inputs, the matrix has %u",
                         st->dim, dim);
    if (job->feeds_back && !st->hessian)
        return pith_fail(err, PITH_ARG,
                         "AWQ needs the Hessian of a rounder that feeds errors back");
    if ((!job->loss || job->clip_search) && (!st->samples || st->sample_count == 0))
        return pith_fail(err, PITH_ARG, "AWQ needs samples of the inputs");
    for (uint32_t c = 0; c < dim; c++)
        if (!(st->absmean[c] >= 0.0f) || isinf(st->absmean[c]))
            return pith_fail(err, PITH_NUMERIC, "the mean magnitude of input %u is %g", c,
                             (double)st->absmean[c]);
    return PITH_OK;
}

static enum pith_status check_awq(const struct pith_transform_job *job, struct pith_error *err)
{
    PITH_TRY(pith_fold_check(job, "AWQ", err));
    if (!(job->ratio_step >= 0.0 && job->ratio_step <= 1.0))
        return pith_fail(err, PITH_ARG, "a ratio step of %g is outside 0..1", job->ratio_step);
    return check_stats(job, job->linear[0].cols, err);
}

/* Error feedback on grids of equal steps, whose losses can be predicted. */
static bool predictable(const struct pith_transform_job *job)
{
    if (!job->feeds_back) return false;
    for (unsigned i = 0; i < job->count; i++) {
        const struct pith_format *f = job->linear[i].grid.format;
        if (f && f->kind != PITH_KIND_INT) return false;
    }
    return true;
}

/* Rows of the largest linear that is lent. */
static uint32_t most_lent(const struct pith_transform_job *job)
{
    uint32_t most = 0;
    for (unsigned i = 0; i < job->count; i++)
        if (job->linear[i].lent && job->linear[i].rows > most) most = job->linear[i].rows;
    return most;
}

static void layout_awq(struct pith_arena *a, struct search *x)
{
    const struct pith_transform_job *job = x->job;
    const size_t samples = job->loss || !job->stats ? 0 : job->stats->sample_count;
    x->original = pith_arena_take(a, job->count, sizeof *x->original);
    x->lent = pith_arena_take_rows(a, most_lent(job), x->dim, sizeof *x->lent);
    for (unsigned i = 0; i < job->count; i++) {
        const struct pith_transform_linear *l = &job->linear[i];
        float *part = l->lent ? x->lent : pith_arena_take_rows(a, l->rows, l->cols, sizeof *part);
        if (x->original) x->original[i] = part;
    }
    x->stat = pith_arena_take(a, x->dim, sizeof *x->stat);
    x->s = pith_arena_take(a, x->dim, sizeof *x->s);
    x->panel = pith_arena_take_rows(a, samples, PANEL, sizeof *x->panel);
    x->sums = pith_arena_take(a, samples, sizeof *x->sums);
    x->pivots = predictable(job) ? pith_arena_take(a, x->dim, sizeof *x->pivots) : NULL;
}

static enum pith_status take_awq_memory(struct search *x, struct pith_error *err)
{
    struct pith_arena a = {0};
    layout_awq(&a, x);
    if (!pith_arena_open(&a)) return pith_fail_nomem(err, "AWQ's search");
    layout_awq(&a, x);
    x->memory = a.base;
    return PITH_OK;
}

static struct search ratio_search_of(const struct pith_transform_job *job)
{
    return (struct search){
        .job = job, .pool = pith_backend_pool(job->backend), .dim = job->linear[0].cols};
}

/* A trial, the pivots and the clipping come one after the other, in addition to the copies. */
static uint64_t scratch(const struct pith_transform_job *job)
{
    struct pith_arena a = {0};
    struct search x = ratio_search_of(job);
    layout_awq(&a, &x);
    const uint64_t trial = pith_fold_trial_bytes(job);
    const uint64_t other = predictable(job)   ? pith_awq_pivots_scratch(x.dim)
                           : job->clip_search ? pith_awq_clip_scratch(job)
                                              : 0;
    return pith_sum_bytes(pith_arena_bytes(&a), trial > other ? trial : other);
}

/* ---- scales ---- */

/* Mean over the query heads that read one value head, since they must share their scale. */
static void gather_stat(struct search *x)
{
    const struct pith_transform_job *job = x->job;
    const float *mean = job->stats->absmean;
    if (!pith_fold_tied(job)) {
        for (size_t c = 0; c < x->dim; c++) x->stat[c] = (double)mean[c];
        return;
    }
    const size_t block = job->tie_block, span = block * job->repeat;
    for (size_t c = 0; c < x->dim; c++) {
        double sum = 0.0;
        for (size_t r = 0; r < job->repeat; r++)
            sum += (double)mean[c / span * span + r * block + c % block];
        x->stat[c] = sum / job->repeat;
    }
}

static void make_ratio_scales(struct search *x, double ratio)
{
    double least = INFINITY, most = 0.0;
    for (size_t c = 0; c < x->dim; c++) {
        const double v = fmax(pow(x->stat[c], ratio), SMALLEST);
        least = fmin(least, v);
        most = fmax(most, v);
    }
    const double norm = sqrt(least * most);
    for (size_t c = 0; c < x->dim; c++)
        x->s[c] = (float)(fmax(pow(x->stat[c], ratio), SMALLEST) / norm);
}

/* ---- one trial ---- */

static void scale_trial_row(void *ctx, size_t row, unsigned thread)
{
    const struct search *x = ctx;
    (void)thread;
    const float *from = x->original[x->now] + row * x->dim;
    float *to = x->job->linear[x->now].w + row * x->dim;
    for (size_t c = 0; c < x->dim; c++) to[c] = from[c] * x->s[c];
}

static void unscale_row(void *ctx, size_t row, unsigned thread)
{
    const struct search *x = ctx;
    (void)thread;
    const float *from = x->original[x->now] + row * x->dim;
    float *w = x->job->linear[x->now].w + row * x->dim;
    for (size_t c = 0; c < x->dim; c++) w[c] /= x->s[c];
    if (x->job->loss) return;
    for (size_t c = 0; c < x->dim; c++) w[c] -= from[c];
}

static void square_awq_row(void *ctx, size_t row, unsigned thread)
{
    const struct search *x = ctx;
    (void)thread;
    double sum = 0.0;
    for (size_t i = 0; i < PANEL; i++) {
        const double y = (double)x->panel[row * PANEL + i];
        sum += y * y;
    }
    x->sums[row] += sum;
}

/* Squared error of the present linear's outputs over all samples; w holds Q(W s) / s - W. */
static double output_error(struct search *x)
{
    const struct pith_transform_linear *l = &x->job->linear[x->now];
    const size_t n = x->job->stats->sample_count;
    memset(x->sums, 0, n * sizeof *x->sums);
    for (uint32_t first = 0; first < l->rows; first += PANEL) {
        const size_t rows = l->rows - first < PANEL ? l->rows - first : PANEL;
        if (rows < PANEL) memset(x->panel, 0, n * PANEL * sizeof *x->panel);
        const struct pith_gemm g = {.m = n,
                                    .n = rows,
                                    .k = x->dim,
                                    .a = x->job->stats->samples,
                                    .a_rs = x->dim,
                                    .a_cs = 1,
                                    .b = l->w + (size_t)first * x->dim,
                                    .b_rs = 1,
                                    .b_cs = x->dim,
                                    .c = x->panel,
                                    .ldc = PANEL};
        pith_gemm(x->job->backend, &g);
        pith_pool_run(x->pool, n, square_awq_row, x);
    }
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) sum += x->sums[i];
    return sum;
}

static void keep_original(const struct search *x, unsigned i)
{
    const struct pith_transform_linear *l = &x->job->linear[i];
    memcpy(x->original[i], l->w, weights_of(l) * sizeof(float));
}

/* Predicts what the rounder will lose in the present linear. */
static enum pith_status predict(struct search *x, double *sum, struct pith_error *err)
{
    const struct pith_transform_job *job = x->job;
    pith_pool_run(x->pool, job->linear[x->now].rows, scale_trial_row, x);
    return pith_awq_predict(job->backend, &job->linear[x->now], job->scale_dtype, x->pivots, x->s,
                            sum, err);
}

/* The present linear rounded; *sum gains its outputs' error unless the caller judges them. */
static enum pith_status round_trial(struct search *x, double *sum, struct pith_error *err)
{
    const struct pith_transform_linear *l = &x->job->linear[x->now];
    pith_pool_run(x->pool, l->rows, scale_trial_row, x);
    PITH_TRY(pith_pseudo_quantize(x->job->backend, &l->grid, x->job->scale_dtype, l->rows, l->cols,
                                  l->w, err));
    pith_pool_run(x->pool, l->rows, unscale_row, x);
    if (!x->job->loss) *sum += output_error(x);
    return PITH_OK;
}

/* One linear, which is there. */
static enum pith_status try_linear(struct search *x, unsigned i, double *sum,
                                   struct pith_error *err)
{
    x->now = i;
    if (x->job->linear[i].lent) keep_original(x, i);
    return x->pivots ? predict(x, sum, err) : round_trial(x, sum, err);
}

/* A linear for the caller's judge; see struct pith_trial. */
static enum pith_status make_trial(void *ctx, unsigned i, struct pith_error *err)
{
    struct search *x = ctx;
    return x->job->linear[i].grid.format ? try_linear(x, i, NULL, err) : PITH_OK;
}

/* The rounder's own loss, or the outputs' error. */
static enum pith_status try_scales(struct search *x, double *loss, struct pith_error *err)
{
    const struct pith_transform_job *job = x->job;
    const bool judged = job->loss && !x->pivots;
    double sum = 0.0, outputs = 0.0;
    for (unsigned i = 0; i < job->count; i++) {
        const struct pith_transform_linear *l = &job->linear[i];
        outputs += (double)l->rows;
        if (!l->grid.format || (judged && l->lent)) continue;
        PITH_TRY(pith_fold_hold(job, i, err));
        const enum pith_status s = try_linear(x, i, &sum, err);
        pith_fold_drop(job, i);
        if (s != PITH_OK) return s;
    }
    const struct pith_trial trial = {make_trial, x};
    if (judged) return job->loss(job->loss_ctx, &trial, loss, err);
    *loss = x->pivots ? sum : sum / (outputs * (double)job->stats->sample_count);
    return PITH_OK;
}

static void restore(const struct search *x)
{
    for (unsigned i = 0; i < x->job->count; i++)
        if (!x->job->linear[i].lent)
            memcpy(x->job->linear[i].w, x->original[i],
                   weights_of(&x->job->linear[i]) * sizeof(float));
}

static double ratio_of(const struct search *x, int i)
{
    const double step = x->job->ratio_step;
    return step > 0.0 ? i * step : (double)i / RATIOS;
}

static enum pith_status try_ratio(void *ctx, int i, double *loss, struct pith_error *err)
{
    struct search *x = ctx;
    make_ratio_scales(x, ratio_of(x, i));
    return try_scales(x, loss, err);
}

/* The best ratio's scales into s. */
static enum pith_status search(struct search *x, float *s, struct pith_transform_report *report,
                               struct pith_error *err)
{
    enum { MOST = 1000 };
    const double step = x->job->ratio_step;
    const int count = step > 0.0 ? (int)ceil(fmin(1.0 / step, MOST) - 1e-9) : RATIOS;
    double loss[MOST], best = INFINITY;
    gather_stat(x);
    PITH_TRY(pith_fold_try(x->job, count, try_ratio, x, loss, err));
    report->loss_before = loss[0];
    for (int i = 0; i < count; i++) {
        if (!(loss[i] < best)) continue;
        best = report->loss_after = loss[i];
        report->ratio = ratio_of(x, i);
    }
    if (isinf(best)) return pith_fail(err, PITH_NUMERIC, "AWQ: no scale gives a finite error");
    make_ratio_scales(x, report->ratio);
    memcpy(s, x->s, x->dim * sizeof *s);
    return PITH_OK;
}

/* ---- the result ---- */

static enum pith_status transform(struct search *x, float *s, struct pith_transform_report *report,
                                  struct pith_error *err)
{
    const struct pith_transform_job *job = x->job;
    bool any = false;
    for (unsigned i = 0; i < job->count; i++) any = any || job->linear[i].grid.format;
    for (uint32_t c = 0; c < x->dim; c++) s[c] = 1.0f;
    PITH_TRY(take_awq_memory(x, err));
    for (unsigned i = 0; i < job->count; i++)
        if (!job->linear[i].lent) keep_original(x, i);
    enum pith_status st = PITH_OK;
    if (!any) x->pivots = NULL;
    if (x->pivots) st = pith_awq_pivots(job->backend, job->stats, x->pivots, err);
    if (st == PITH_OK && pith_fold_possible(job)) {
        st = search(x, s, report, err);
        if (st == PITH_OK) pith_fold_settle(job, s);
        restore(x);
        if (st == PITH_OK) pith_fold_scale(job, s);
    }
    /* Clipping serves rounding to nearest: error feedback makes better use of the whole range. */
    if (st == PITH_OK && any && job->clip_search && !x->pivots)
        st = pith_awq_clip(job, s, &report->clipped, err);
    if (st == PITH_OK) pith_fold_divide(job, s);
    else restore(x);
    return st;
}

static enum pith_status run(const struct pith_transform_job *job, float *s,
                            struct pith_transform_report *report, struct pith_error *err)
{
    *report = (struct pith_transform_report){0};
    PITH_TRY(check_awq(job, err));
    struct search x = ratio_search_of(job);
    const enum pith_status st = transform(&x, s, report, err);
    pith_free(x.memory);
    return st;
}

const struct pith_transform pith_transform_awq = {
    .name = "awq",
    .summary = "scales up the columns that meet large inputs, then clips outlying weights",
    .needs = PITH_NEED_ABSMEAN | PITH_NEED_SAMPLES,
    .also = PITH_NEED_HESSIAN,
    .run = run,
    .scratch = scratch,
};
