#include "quantize/time_estimate.h"

#include "base/file.h"
#include "base/mem.h"
#include "quantize/prediction.h"

#include <stdio.h>

/* Shares of the peak that products and rounding column by column reach: plan/time/quantize_time.h.
 */
static const double products = 0.45, rounding = 0.176;
/* Of the backward pass through a layer, in forward passes, what does not depend on grids; of a
 * transform forward; and what attention and norms take compared with products. Measured on the
 * model that ships alone (docs/mixed.md). */
static const double back = 3.3, transform = PITH_EXPECT_TRANSFORM, others = 1.2;

/* --- the machine ------------------------------------------------------------------------------ */

enum { ROWS = 256, COLS = 512, TOKENS = 64, LEAST = 5 };

double pith_expect_speed(struct pith_backend *be)
{
    const double each = 2.0 * ROWS * COLS * TOKENS, enough = 0.03;
    float *room = pith_alloc_aligned(ROWS * COLS + TOKENS * (COLS + ROWS), sizeof *room);
    double best = 0, all = 0;
    if (!room) return 0;
    for (size_t i = 0; i < ROWS * COLS + TOKENS * COLS; i++) room[i] = (float)(i % 17) - 8;
    const struct pith_weight w = {.rows = ROWS, .cols = COLS, .dtype = PITH_F32, .dense = room};
    float *x = room + ROWS * COLS, *y = x + TOKENS * COLS;
    for (int i = 0; i < LEAST || all < enough; i++) {
        const double start = pith_clock();
        pith_linear(be, &w, NULL, x, TOKENS, y);
        const double took = pith_clock() - start;
        all += took;
        if (took > 0 && each / took > best) best = each / took;
    }
    pith_free(room);
    return best / products;
}

/* --- quantizing ------------------------------------------------------------------------------- */

struct pith_quantize_task pith_expect_task(const struct pith_job *job,
                                           const struct pith_recipe *recipe, size_t tokens)
{
    const struct pith_shape *s = &job->model->shape;
    const size_t length = job->calib.length ? job->calib.length : 1;
    struct pith_quantize_task t = {.plans = &job->model->plans,
                                   .recipe = recipe,
                                   .tokens = tokens > length ? tokens : length,
                                   .length = length,
                                   .hidden = s->hidden,
                                   .ends = s->ends.tied ? 1 : 2};
    t.common = pith_experts_common(job->experts, t.tokens);
    t.routed = job->experts != PITH_EXPERTS_ALL;
    t.outside = (uint64_t)s->vocab * s->hidden * t.ends * sizeof(uint16_t);
    return t;
}

double pith_expect_quantize(const struct pith_job *job, const struct pith_recipe *recipe,
                            size_t tokens, double speed)
{
    struct pith_quantize_task t = pith_expect_task(job, recipe, tokens);
    t.f32 = speed;
    if (!(speed > 0) || pith_quantize_no_estimate(&t)) return 0;
    struct pith_ranks_cost all = pith_quantize_cost(&t);
    pith_quantize_outside(&t, &all);
    for (uint32_t i = 0; i < t.plans->layers; i++)
        pith_quantize_layer(&t, pith_plan(t.plans, i), &all);
    return pith_ranks_cost_seconds(&all);
}

/* --- sensitivities ---------------------------------------------------------------------------- */

/* Weights of a layer that a token meets, and the operations of rounding all of them once. */
static double weights_of(const struct pith_job *job, uint32_t layer, double *rounds)
{
    const struct pith_plans *plans = &job->model->plans;
    const struct pith_layer_plan *l = pith_plan(plans, layer);
    double sum = 0;
    *rounds = 0;
    for (uint32_t i = 0; i < l->linears; i++) {
        const double n = (double)l->linear[i].rows * l->linear[i].cols;
        const bool expert = l->linear[i].expert != PITH_NO_PART;
        sum += expert && plans->experts ? n * plans->taken / plans->experts : n;
        if (!l->linear[i].stays) *rounds += n * l->linear[i].cols;
    }
    return sum;
}

static double tokens_of(const struct pith_job *job)
{
    return (double)job->calib.windows * (double)job->calib.length;
}

struct pith_sense_effort pith_expect_effort(const struct pith_job *job, size_t grids)
{
    const struct pith_shape *s = &job->model->shape;
    double sum = 0, rounds = 0;
    for (uint32_t i = 0; i < s->layers; i++) {
        double r;
        sum += weights_of(job, i, &r);
        rounds += r;
    }
    const double there = 2 * sum * tokens_of(job) / products;
    struct pith_sense_effort e = {.back = back, .transform = job->needs_transform ? transform : 0};
    if (there <= 0) return e;
    if (job->recipe.round->form == PITH_SWEEP_GPTAQ)
        e.back += (double)grids * rounds / rounding / there;
    e.back += e.transform;
    /* The head, there and back. */
    e.head = 2 * (double)s->vocab * pith_shape_embed(s) / sum * s->layers;
    return e;
}

double pith_expect_sense(const struct pith_job *job, size_t grids, double speed)
{
    const uint32_t layers = job->model->shape.layers;
    const struct pith_sense_effort e = pith_expect_effort(job, grids);
    double sum = 0, r;
    for (uint32_t i = 0; i < layers; i++) sum += weights_of(job, i, &r);
    if (!(speed > 0) || layers == 0) return 0;
    const double there = others * 2 * sum * tokens_of(job) / products / speed;
    return there * (1 + e.back + e.head / layers);
}

double pith_expect_check(const struct pith_job *job, double speed)
{
    const struct pith_shape *s = &job->model->shape;
    double sum = (double)s->vocab * pith_shape_embed(s), r;
    for (uint32_t i = 0; i < s->layers; i++) sum += weights_of(job, i, &r);
    const double judged = (double)job->judge.windows * (double)job->judge.length;
    const double tokens = judged > 0 ? judged + PITH_PREDICTION_FITTED : PITH_PREDICTION_TOKENS;
    return speed > 0 ? 2 * 2 * sum * tokens / products / speed : 0;
}

const char *pith_expect_text(double seconds, char text[PITH_EXPECT_TEXT])
{
    const long s = (long)(seconds + 0.5);
    if (s < 60) (void)snprintf(text, PITH_EXPECT_TEXT, "about %ld s", s < 1 ? 1 : s);
    else if (s < 3600)
        (void)snprintf(text, PITH_EXPECT_TEXT, "about %ld min %02ld s", s / 60, s % 60);
    else (void)snprintf(text, PITH_EXPECT_TEXT, "about %ld h %02ld min", s / 3600, s % 3600 / 60);
    return text;
}
