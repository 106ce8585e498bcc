/* quant/transform/smooth.c: SmoothQuant (Xiao et al. 2023): what is hard to round moves from the
 * inputs to the weights.
 *
 * Column j of the linears is multiplied by s_j = max|x_j|^a / max|w_j|^(1-a), at least 1e-5, and
 * its input divided by it: at a = 1/2 both then have the same largest magnitude, their geometric
 * mean. Magnitudes below 1e-5 count as 1e-5, as in the authors' code; an input that is always zero
 * stays unchanged. The option is a, or "auto": of 0.05, 0.10, ... 0.95 and no scaling at all, the
 * one with the smallest error in the linears' outputs, both operands rounded; or "search", which is
 * no strength: each column's scale by itself, for the least error to be expected (balance.h). */
#include "base/arena.h"
#include "base/mem.h"
#include "num/input.h"
#include "quant/scale.h"
#include "quant/tables.h"
#include "quant/transform/fold.h"
#include "quant/transform/smooth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PANEL = 256, STEPS = 20 };
static const float SMALLEST = 1e-5f;
static const double AUTO = -1.0, SEARCH = -2.0;

/* --- the option ------------------------------------------------------------------------------- */

static enum pith_status option(const char *text, double *value, struct pith_error *err)
{
    char *end;
    *value = 0.5;
    if (text[0] == '\0') return PITH_OK;
    if (strcmp(text, "auto") == 0) {
        *value = AUTO;
        return PITH_OK;
    }
    if (strcmp(text, "search") == 0) {
        *value = SEARCH;
        return PITH_OK;
    }
    *value = strtod(text, &end);
    if (*end == '\0' && text[0] >= '0' && text[0] <= '9' && *value >= 0.0 && *value <= 1.0)
        return PITH_OK;
    return pith_fail(err, PITH_ARG,
                     "smooth:%.24s: expected a strength from 0 to 1, auto, or search", text);
}

/* --- scales ----------------------------------------------------------------------------------- */

struct smooth {
    const struct pith_transform_job *job;
    struct pith_pool *pool;
    uint32_t dim;
    size_t samples;
    float *act, *weight; /* [dim] largest magnitudes, tied where s must be */
    float *s;            /* [dim] of the present trial */
    float *x;            /* [samples][dim] divided by s and rounded */
    float *w;            /* one linear, times s and rounded */
    float *panel;        /* [samples][PANEL] */
    double *sums;        /* [samples] */
    float *found;        /* [dim] what the search found; NULL without it */
    const struct pith_transform_linear *now;
    void *memory; /* of the arrays */
};

/* The largest of the inputs that share a scale, into each of them. */
static void tie(const struct smooth *t, float *v)
{
    for (size_t c = 0; c < t->dim; c++) {
        const size_t first = pith_fold_first(t->job, c);
        v[first] = fmaxf(v[first], v[c]);
    }
    for (size_t c = 0; c < t->dim; c++) v[c] = v[pith_fold_first(t->job, c)];
}

static enum pith_status gather(const struct smooth *t, struct pith_error *err)
{
    const struct pith_stats *st = t->job->stats;
    for (size_t c = 0; c < t->dim; c++) {
        t->act[c] = fmaxf(-st->lo[c], st->hi[c]);
        t->weight[c] = 0.0f;
        if (!isfinite(st->lo[c]) || !isfinite(st->hi[c]))
            return pith_fail(err, PITH_NUMERIC, "input %zu reached %g", c, (double)t->act[c]);
    }
    for (unsigned i = 0; i < t->job->count; i++) {
        const struct pith_transform_linear *l = &t->job->linear[i];
        PITH_TRY(pith_fold_hold(t->job, i, err));
        for (size_t e = 0, c = 0; e < (size_t)l->rows * t->dim; e++, c = c + 1 < t->dim ? c + 1 : 0)
            t->weight[c] = fmaxf(t->weight[c], fabsf(l->w[e]));
        pith_fold_drop(t->job, i);
    }
    tie(t, t->act);
    tie(t, t->weight);
    return PITH_OK;
}

static void make_strength_scales(const struct smooth *t, double a)
{
    for (size_t c = 0; c < t->dim; c++) {
        const double x = (double)fmaxf(t->act[c], SMALLEST), w = fmaxf(t->weight[c], SMALLEST);
        const float s = (float)(pow(x, a) / pow(w, 1.0 - a));
        t->s[c] = t->act[c] > 0.0f ? fmaxf(s, SMALLEST) : 1.0f;
    }
    pith_fold_settle(t->job, t->s);
}

/* --- the judge -------------------------------------------------------------------------------- */

static void smooth_row(void *ctx, size_t row, unsigned thread)
{
    (void)thread;
    const struct smooth *t = ctx;
    for (size_t c = 0; c < t->dim; c++)
        t->w[row * t->dim + c] = t->now->w[row * t->dim + c] * t->s[c];
}

static void square_row(void *ctx, size_t row, unsigned thread)
{
    (void)thread;
    const struct smooth *t = ctx;
    double sum = 0.0;
    for (size_t i = 0; i < PANEL; i++) {
        const double y = (double)t->panel[row * PANEL + i];
        sum += y * y;
    }
    t->sums[row] += sum;
}

/* x / s, rounded as the linears' input will be; static scales from the range that x / s has. */
static void make_inputs(const struct smooth *t)
{
    const struct pith_stats *st = t->job->stats;
    struct pith_input in = t->job->input;
    float lo = 0.0f, hi = 0.0f;
    for (size_t c = 0; c < t->dim; c++) {
        lo = fminf(lo, st->lo[c] / t->s[c]);
        hi = fmaxf(hi, st->hi[c] / t->s[c]);
    }
    for (size_t i = 0; i < t->samples; i++)
        for (size_t c = 0; c < t->dim; c++)
            t->x[i * t->dim + c] = st->samples[i * t->dim + c] / t->s[c];
    in.threshold = 0.0f; /* which columns are outliers depends on the call: judged as if none were
                          */
    pith_input_calibrate(&in, lo, hi);
    pith_input_rows(&in, t->x, t->samples, t->dim, NULL, t->x);
}

/* Rows [first, first + rows) of a linear: the rounded product less the original. */
static void panel_error(const struct smooth *t, size_t first, size_t rows)
{
    const struct pith_gemm made = {.m = t->samples,
                                   .n = rows,
                                   .k = t->dim,
                                   .a = t->x,
                                   .a_rs = t->dim,
                                   .a_cs = 1,
                                   .b = t->w + first * t->dim,
                                   .b_rs = 1,
                                   .b_cs = t->dim,
                                   .c = t->panel,
                                   .ldc = PANEL};
    struct pith_gemm original = made;
    original.a = t->job->stats->samples;
    original.b = t->now->w + first * t->dim;
    original.accumulate = original.negate = true;
    if (rows < PANEL) memset(t->panel, 0, t->samples * PANEL * sizeof *t->panel);
    pith_gemm(t->job->backend, &made);
    pith_gemm(t->job->backend, &original);
    pith_pool_run(t->pool, t->samples, square_row, (void *)(uintptr_t)t);
}

/* The error of one linear, which is there, grows t->sums. */
static enum pith_status judge_linear(struct smooth *t, struct pith_error *err)
{
    const uint32_t rows = t->now->rows;
    pith_pool_run(t->pool, rows, smooth_row, t);
    PITH_TRY(pith_pseudo_quantize(t->job->backend, &t->now->grid, t->job->scale_dtype, rows, t->dim,
                                  t->w, err));
    for (size_t first = 0; first < rows; first += PANEL)
        panel_error(t, first, rows - first < PANEL ? rows - first : PANEL);
    return PITH_OK;
}

/* Mean squared error of an output at the present scales. */
static enum pith_status judge(struct smooth *t, double *loss, struct pith_error *err)
{
    const struct pith_transform_job *job = t->job;
    double sum = 0.0, outputs = 0.0;
    make_inputs(t);
    memset(t->sums, 0, t->samples * sizeof *t->sums);
    for (unsigned i = 0; i < job->count; i++) {
        t->now = &job->linear[i];
        if (!t->now->grid.format) continue;
        outputs += (double)t->now->rows;
        PITH_TRY(pith_fold_hold(job, i, err));
        const enum pith_status s = judge_linear(t, err);
        pith_fold_drop(job, i);
        if (s != PITH_OK) return s;
    }
    for (size_t i = 0; i < t->samples; i++) sum += t->sums[i];
    *loss = sum / (outputs * (double)t->samples);
    return PITH_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Number 0 is none: s stays 1. */
static double strength(const struct smooth *t, int i)
{
    return t->job->value == AUTO ? (double)i / STEPS : t->job->value;
}

/* Scales of choice i into t->s. */
static void make_choice(const struct smooth *t, int i)
{
    if (t->found) memcpy(t->s, t->found, t->dim * sizeof *t->s);
    else make_strength_scales(t, strength(t, i));
}

/* The search's scales into t->found; it begins at the middle of the strengths. */
static enum pith_status find(struct smooth *t, struct pith_error *err)
{
    make_strength_scales(t, 0.5);
    memcpy(t->found, t->s, t->dim * sizeof *t->s);
    PITH_TRY(pith_smooth_search(t->job, t->found, err));
    pith_fold_settle(t->job, t->found);
    return PITH_OK;
}

/* What one of them loses. t->s holds ones until it is another's. */
static enum pith_status try_strength(void *ctx, int i, double *loss, struct pith_error *err)
{
    struct smooth *t = ctx;
    if (i > 0) make_choice(t, i);
    return judge(t, loss, err);
}

/* The best of the strengths' scales into s, which holds ones. */
static enum pith_status choose_strength(struct smooth *t, float *s,
                                        struct pith_transform_report *report,
                                        struct pith_error *err)
{
    const bool several = t->job->value == AUTO;
    const int count = several ? STEPS : 2;
    int chosen = 0;
    double loss[STEPS], best = INFINITY;
    PITH_TRY(gather(t, err));
    if (t->found) PITH_TRY(find(t, err));
    memcpy(t->s, s, t->dim * sizeof *s);
    PITH_TRY(pith_fold_try(t->job, count, try_strength, t, loss, err));
    report->loss_before = loss[0];
    if (several) best = report->loss_after = report->loss_before;
    for (int i = 1; i < count; i++) {
        if (several && !(loss[i] < best)) continue;
        best = report->loss_after = loss[i];
        report->ratio = fmax(strength(t, i), 0.0);
        chosen = i;
    }
    if (chosen) make_choice(t, chosen);
    if (chosen) memcpy(s, t->s, t->dim * sizeof *s);
    return isfinite(best) ? PITH_OK
                          : pith_fail(err, PITH_NUMERIC, "smooth: the error is not finite");
}

static size_t most_rows(const struct pith_transform_job *job)
{
    size_t most = 0;
    for (unsigned i = 0; i < job->count; i++)
        if (job->linear[i].grid.format && job->linear[i].rows > most) most = job->linear[i].rows;
    return most;
}

static void layout_smooth(struct pith_arena *a, struct smooth *t)
{
    t->act = pith_arena_take(a, t->dim, sizeof *t->act);
    t->weight = pith_arena_take(a, t->dim, sizeof *t->weight);
    t->s = pith_arena_take(a, t->dim, sizeof *t->s);
    t->x = pith_arena_take_rows(a, t->samples, t->dim, sizeof *t->x);
    t->w = pith_arena_take_rows(a, most_rows(t->job), t->dim, sizeof *t->w);
    t->panel = pith_arena_take_rows(a, t->samples, PANEL, sizeof *t->panel);
    t->sums = pith_arena_take(a, t->samples, sizeof *t->sums);
    t->found = t->job->value == SEARCH ? pith_arena_take(a, t->dim, sizeof *t->found) : NULL;
}

static struct smooth smooth_of(const struct pith_transform_job *job)
{
    return (struct smooth){.job = job,
                           .pool = pith_backend_pool(job->backend),
                           .dim = job->linear[0].cols,
                           .samples = job->stats ? job->stats->sample_count : 0};
}

static uint64_t scratch(const struct pith_transform_job *job)
{
    struct pith_arena a = {0};
    struct smooth t = smooth_of(job);
    layout_smooth(&a, &t);
    const uint64_t trial = pith_fold_trial_bytes(job);
    const uint64_t search = job->value == SEARCH ? pith_smooth_search_bytes(job) : 0;
    return pith_sum_bytes(pith_arena_bytes(&a), trial > search ? trial : search);
}

static enum pith_status take_smooth_memory(struct smooth *t, struct pith_error *err)
{
    struct pith_arena a = {0};
    layout_smooth(&a, t);
    if (!pith_arena_open(&a)) return pith_fail_nomem(err, "smoothing");
    layout_smooth(&a, t);
    t->memory = a.base;
    return PITH_OK;
}

static enum pith_status check_smooth(const struct pith_transform_job *job, struct pith_error *err)
{
    const struct pith_stats *st = job->stats;
    PITH_TRY(pith_fold_check(job, "smooth", err));
    if (!st || !st->lo || !st->hi || !st->samples || st->sample_count == 0)
        return pith_fail(err, PITH_ARG, "smooth needs the inputs' ranges and samples of them");
    if (st->dim != job->linear[0].cols)
        return pith_fail(err, PITH_ARG, "the statistics are over %u inputs, the matrix has %u",
                         st->dim, job->linear[0].cols);
    return PITH_OK;
}

static enum pith_status run(const struct pith_transform_job *job, float *s,
                            struct pith_transform_report *report, struct pith_error *err)
{
    *report = (struct pith_transform_report){0};
    PITH_TRY(check_smooth(job, err));
    struct smooth t = smooth_of(job);
    for (uint32_t c = 0; c < t.dim; c++) s[c] = 1.0f;
    if (!pith_fold_possible(job)) return PITH_OK;
    enum pith_status st = take_smooth_memory(&t, err);
    if (st == PITH_OK) st = choose_strength(&t, s, report, err);
    pith_free(t.memory);
    if (st != PITH_OK) return st;
    pith_fold_scale(job, s);
    pith_fold_divide(job, s);
    return PITH_OK;
}

const struct pith_transform pith_transform_smooth = {
    .name = "smooth",
    .summary = "moves outliers of the inputs into the weights (smooth:ALPHA, :auto, :search)",
    .needs = PITH_NEED_RANGE | PITH_NEED_SAMPLES,
    .option = option,
    .run = run,
    .scratch = scratch,
};
