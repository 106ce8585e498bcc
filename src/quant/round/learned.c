/* quant/round/learned.c: rounding learned by signed gradient descent on what a block gives
 * (AutoRound: Cheng et al. 2023, arXiv 2309.05516). Every step draws some samples, and moves every
 * offset and range by the step's rate against the sign of its gradient; the rate falls linearly to
 * 0. The result is the step that looked best, the last one, or rounding to nearest, whichever has
 * the least loss over all samples.
 *
 * Losses of different samples do not compare, so a step is judged by its loss relative to that of
 * rounding to nearest on the same samples. */
#include "quant/tables.h"

#include "base/mem.h"
#include "base/rng.h"
#include "quant/round/learned_matrix.h"

#include <math.h>
#include <string.h>

enum { ITERATIONS = 200, BATCH = 8, MANY_ITERATIONS = 1000, FEW_BITS = 3 };

/* --- samples ---------------------------------------------------------------------------------- */

/* Hands out samples in shuffled order, shuffled anew when fewer than a batch remain. */
struct deck {
    struct pith_rng rng;
    size_t *order;
    size_t count, next;
};

static void shuffle(struct deck *d)
{
    for (size_t i = d->count; i > 1; i--) {
        const size_t j = (size_t)pith_rng_below(&d->rng, i), t = d->order[i - 1];
        d->order[i - 1] = d->order[j];
        d->order[j] = t;
    }
    d->next = 0;
}

static enum pith_status deck_init(struct deck *d, size_t count, uint64_t seed,
                                  struct pith_error *err)
{
    d->order = pith_alloc(count, sizeof *d->order);
    if (!d->order) return pith_fail_nomem(err, "the order of samples");
    d->count = count;
    for (size_t i = 0; i < count; i++) d->order[i] = i;
    pith_rng_seed(&d->rng, seed);
    shuffle(d);
    return PITH_OK;
}

static const size_t *deal(struct deck *d, size_t batch)
{
    if (d->next + batch > d->count) shuffle(d);
    d->next += batch;
    return d->order + d->next - batch;
}

/* --- the descent ------------------------------------------------------------------------------ */

struct learning {
    const struct pith_round_block *job;
    struct pith_learned_matrix *matrix; /* [count] */
    struct deck deck;
    double *nearest; /* [samples] the loss of rounding to nearest */
    double *loss;    /* [samples] scratch */
    uint32_t iterations;
    size_t batch;
    double best;        /* least relative loss of a step */
    uint32_t best_step; /* and its number, from 1 */
};

static double rate_of(const struct learning *l, const struct pith_round_member *m)
{
    const struct pith_round_options *o = &l->job->options;
    if (o->learning_rate > 0.0) return o->learning_rate;
    const bool twice = l->iterations >= MANY_ITERATIONS && m->grid.format->bits <= FEW_BITS;
    return (twice ? 2.0 : 1.0) / l->iterations;
}

/* The loss of every sample with the values as they are, and its sum. */
static enum pith_status measure(const struct learning *l, double *each, double *sum,
                                struct pith_error *err)
{
    const struct pith_round_block *job = l->job;
    *sum = 0.0;
    PITH_TRY(job->objective(job->ctx, NULL, job->samples, false, each, err));
    for (size_t i = 0; i < job->samples; i++) {
        if (!isfinite(each[i]))
            return pith_fail(err, PITH_NUMERIC, "the loss of sample %zu is not finite", i);
        *sum += each[i];
    }
    return PITH_OK;
}

static double relative(double loss, double nearest)
{
    return nearest > 0.0 ? loss / nearest : loss;
}

static enum pith_status step(struct learning *l, uint32_t number, struct pith_error *err)
{
    const struct pith_round_block *job = l->job;
    const size_t *sample = deal(&l->deck, l->batch);
    double loss = 0.0, nearest = 0.0;
    for (unsigned i = 0; i < job->count; i++) pith_learned_values(&l->matrix[i]);
    PITH_TRY(job->objective(job->ctx, sample, l->batch, true, l->loss, err));
    for (size_t i = 0; i < l->batch; i++) {
        loss += l->loss[i];
        nearest += l->nearest[sample[i]];
    }
    if (!isfinite(loss))
        return pith_fail(err, PITH_NUMERIC, "the loss of step %u is %g", number, loss);
    const double now = relative(loss, nearest);
    if (now < l->best) {
        l->best = now;
        l->best_step = number;
        for (unsigned i = 0; i < job->count; i++) pith_learned_keep(&l->matrix[i]);
    }
    const double left = 1.0 - (double)(number - 1) / l->iterations;
    for (unsigned i = 0; i < job->count; i++)
        pith_learned_step(&l->matrix[i], (float)(rate_of(l, &job->member[i]) * left));
    return PITH_OK;
}

/* Of the best step, the last one and rounding to nearest, the best over all samples. */
static enum pith_status choose(struct learning *l, struct pith_round_block_report *report,
                               struct pith_error *err)
{
    const struct pith_round_block *job = l->job;
    double at_best, last;
    for (unsigned i = 0; i < job->count; i++) pith_learned_values(&l->matrix[i]);
    PITH_TRY(measure(l, l->loss, &last, err));
    for (unsigned i = 0; i < job->count; i++)
        pith_learned_decode(&l->matrix[i], &l->matrix[i].best);
    PITH_TRY(measure(l, l->loss, &at_best, err));
    report->loss = at_best;
    report->step = l->best_step;
    if (last < report->loss) {
        report->loss = last;
        report->step = l->iterations + 1;
        for (unsigned i = 0; i < job->count; i++) pith_learned_keep(&l->matrix[i]);
    }
    if (report->nearest_loss > report->loss) return PITH_OK;
    report->loss = report->nearest_loss;
    report->step = 0;
    for (unsigned i = 0; i < job->count; i++) {
        PITH_TRY(pith_learned_nearest(&l->matrix[i], err));
        pith_learned_keep_codes(&l->matrix[i]);
    }
    return PITH_OK;
}

static enum pith_status learn(struct learning *l, struct pith_round_block_report *report,
                              struct pith_error *err)
{
    const struct pith_round_block *job = l->job;
    for (unsigned i = 0; i < job->count; i++) {
        PITH_TRY(pith_learned_nearest(&l->matrix[i], err));
        pith_learned_decode(&l->matrix[i], &l->matrix[i].now);
    }
    PITH_TRY(measure(l, l->nearest, &report->nearest_loss, err));
    for (unsigned i = 0; i < job->count; i++) pith_learned_reset(&l->matrix[i]);
    for (uint32_t i = 1; i <= l->iterations; i++) PITH_TRY(step(l, i, err));
    report->iterations = l->iterations;
    return choose(l, report, err);
}

static enum pith_status begin(struct learning *l, struct pith_error *err)
{
    const struct pith_round_block *job = l->job;
    l->iterations = job->options.iterations ? job->options.iterations : ITERATIONS;
    l->batch = job->options.batch ? job->options.batch : BATCH;
    if (l->batch > job->samples) l->batch = job->samples;
    l->best = INFINITY;
    l->nearest = pith_alloc(job->samples, 2 * sizeof *l->nearest);
    l->matrix = pith_zalloc(job->count, sizeof *l->matrix);
    if (!l->nearest || !l->matrix) return pith_fail_nomem(err, "learned rounding");
    l->loss = l->nearest + job->samples;
    PITH_TRY(deck_init(&l->deck, job->samples, job->seed, err));
    for (unsigned i = 0; i < job->count; i++)
        PITH_TRY(pith_learned_begin(&l->matrix[i], job->backend, &job->member[i], err));
    return PITH_OK;
}

static enum pith_status block(const struct pith_round_block *job, struct pith_qmat *q,
                              struct pith_round_block_report *report, struct pith_error *err)
{
    struct learning l = {.job = job};
    *report = (struct pith_round_block_report){0};
    memset(q, 0, job->count * sizeof *q);
    if (job->samples == 0) return pith_fail(err, PITH_ARG, "there is nothing to learn from");
    enum pith_status s = begin(&l, err);
    if (s == PITH_OK) s = learn(&l, report, err);
    for (unsigned i = 0; l.matrix && i < job->count; i++) {
        if (s == PITH_OK) {
            q[i] = l.matrix[i].best;
            l.matrix[i].best = (struct pith_qmat){0};
        }
        pith_learned_free(&l.matrix[i]);
    }
    pith_free(l.matrix);
    pith_free(l.nearest);
    pith_free(l.deck.order);
    return s;
}

/* --- one matrix ------------------------------------------------------------------------------- */

/* A matrix alone learns from tr((W - Q) H (W - Q)^T). */
struct alone {
    const struct pith_round_job *job;
    const struct pith_round_member *member;
    float *difference; /* [rows][cols] */
};

static enum pith_status alone_objective(void *ctx, const size_t *sample, size_t count,
                                        bool gradient, double *loss, struct pith_error *err)
{
    const struct alone *a = ctx;
    const struct pith_round_job *job = a->job;
    const size_t n = (size_t)job->rows * job->cols;
    (void)sample, (void)count; /* there is one */
    for (size_t i = 0; i < n; i++) a->difference[i] = a->member->values[i] - job->w[i];
    PITH_TRY(pith_round_loss(job->backend, a->difference, job->rows, job->cols, job->stats->hessian,
                             loss, err));
    if (!gradient) return PITH_OK;
    pith_gemm(job->backend, &(struct pith_gemm){.m = job->rows,
                                                .n = job->cols,
                                                .k = job->cols,
                                                .a = a->difference,
                                                .a_rs = job->cols,
                                                .a_cs = 1,
                                                .b = job->stats->hessian,
                                                .b_rs = job->cols,
                                                .b_cs = 1,
                                                .c = a->member->grad,
                                                .ldc = job->cols,
                                                .accumulate = true});
    return PITH_OK;
}

static enum pith_status run_alone(struct alone *a, struct pith_round_member *m, struct pith_qmat *q,
                                  struct pith_round_report *report, struct pith_error *err)
{
    const struct pith_round_job *job = a->job;
    const struct pith_round_block all = {.backend = job->backend,
                                         .options = job->options,
                                         .member = m,
                                         .count = 1,
                                         .samples = 1,
                                         .objective = alone_objective,
                                         .ctx = a};
    struct pith_round_block_report learned;
    PITH_TRY(block(&all, q, &learned, err));
    report->loss = learned.loss;
    report->nearest_loss = learned.nearest_loss;
    pith_qmat_decode(q, 0, q->rows, m->values);
    for (size_t i = 0; i < (size_t)job->rows * job->cols; i++) job->w[i] -= m->values[i];
    return PITH_OK;
}

static enum pith_status run(const struct pith_rounder *rounder, const struct pith_round_job *job,
                            struct pith_qmat *q, struct pith_round_report *report,
                            struct pith_error *err)
{
    size_t n;
    (void)rounder;
    *report = (struct pith_round_report){0};
    *q = (struct pith_qmat){0};
    if (!job->stats || !job->stats->hessian || job->stats->dim != job->cols)
        return pith_fail(err, PITH_ARG, "learned rounding needs the Hessian of %u inputs",
                         job->cols);
    float *memory = pith_mul_size(job->rows, job->cols, &n) && pith_mul_size(n, 3, &n)
                        ? pith_alloc_aligned(n, sizeof *memory)
                        : NULL;
    if (!memory) return pith_fail_nomem(err, "learned rounding");
    n /= 3;
    struct pith_round_member m = {.grid = job->grid,
                                  .scale_dtype = job->scale_dtype,
                                  .global = job->global,
                                  .rows = job->rows,
                                  .cols = job->cols,
                                  .w = job->w,
                                  .values = memory,
                                  .grad = memory + n};
    struct alone a = {.job = job, .member = &m, .difference = memory + 2 * n};
    const enum pith_status s = run_alone(&a, &m, q, report, err);
    pith_free(memory);
    return s;
}

static uint64_t scratch(const struct pith_rounder *rounder, const struct pith_round_job *job,
                        const struct pith_split *split)
{
    const struct pith_round_member member = {
        .grid = job->grid, .rows = job->rows, .cols = job->cols};
    (void)rounder;
    (void)split;
    return 3ull * job->rows * job->cols * sizeof(float) +
           pith_learned_bytes(&member, pith_pool_threads(pith_backend_pool(job->backend))) +
           pith_round_loss_scratch(job->rows);
}

const struct pith_rounding pith_round_by_learning = {
    .run = run,
    .scratch = scratch,
    .block = block,
    .member_scratch = pith_learned_bytes,
};
