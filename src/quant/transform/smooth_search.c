#include "quant/transform/smooth.h"

#include "base/arena.h"
#include "base/mem.h"
#include "quant/transform/balance.h"
#include "quant/transform/fold.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows of all matrices together that stand for the others, but for LEAST of each. */
enum { ROWS = 1024, LEAST = 8 };

struct search {
    const struct pith_transform_job *job;
    struct pith_balance balance;
    struct pith_balance_side *side; /* [1 + count] */
    float *inputs;                  /* [samples][dim] magnitudes, weighed */
    float *weights;                 /* [rows of all][dim] magnitudes */
    double *input_energy, *weight_energy, *token, *ordered;
    size_t *first;
    size_t samples, dim;
};

/* --- what is rounded -------------------------------------------------------------------------- */

/* A step at a largest magnitude of 1, squared; 0 where a range has no one step. */
static double step_of(const struct pith_grid *g)
{
    if (!g->format || g->format->kind != PITH_KIND_INT) return 0.0;
    const double step = 2.0 / (double)((1 << g->format->bits) - 1);
    return step * step;
}

/* Columns of a row that share a step. */
static size_t span_of(const struct pith_grid *g, uint32_t dim)
{
    return g->format ? pith_grid_group(g, dim) : dim;
}

static size_t rows_tried(const struct pith_transform_job *job,
                         const struct pith_transform_linear *l)
{
    const size_t fair = ROWS / job->count > LEAST ? ROWS / job->count : LEAST;
    if (!l->grid.format) return 0;
    if (l->grid.granularity == PITH_PER_TENSOR) return 1;
    return l->rows < fair ? l->rows : fair;
}

static void layout_search(struct pith_arena *a, struct search *x)
{
    size_t rows = 0;
    for (unsigned i = 0; i < x->job->count; i++) rows += rows_tried(x->job, &x->job->linear[i]);
    x->side = pith_arena_take(a, x->job->count + 1, sizeof *x->side);
    x->inputs = pith_arena_take_rows(a, x->samples, x->dim, sizeof *x->inputs);
    x->weights = pith_arena_take_rows(a, rows, x->dim, sizeof *x->weights);
    x->input_energy = pith_arena_take_zeros(a, x->dim, 1, sizeof *x->input_energy);
    x->weight_energy = pith_arena_take_zeros(a, x->dim, 1, sizeof *x->weight_energy);
    x->token = pith_arena_take(a, x->samples, sizeof *x->token);
    x->ordered = pith_arena_take(a, x->samples, sizeof *x->ordered);
    x->first = pith_arena_take(a, x->dim, sizeof *x->first);
}

static struct search search_of(const struct pith_transform_job *job)
{
    return (struct search){.job = job,
                           .samples = job->stats ? job->stats->sample_count : 0,
                           .dim = job->linear[0].cols};
}

/* --- the inputs ------------------------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What a token's numbers are multiplied by: one over the root of its energy, so that tokens which
 * are much larger than the others (the first, as a rule) do not outvote all of them. */
static void weigh_tokens(const struct search *x)
{
    const float *v = x->job->stats->samples;
    for (size_t i = 0; i < x->samples; i++) {
        double sum = 0.0;
        for (size_t c = 0; c < x->dim; c++) {
            const double y = (double)v[i * x->dim + c];
            sum += y * y;
        }
        x->token[i] = x->ordered[i] = sum;
    }
    qsort(x->ordered, x->samples, sizeof *x->ordered, compare_numbers);
    const double middle = x->ordered[x->samples / 2];
    for (size_t i = 0; i < x->samples; i++) {
        const double energy = fmax(x->token[i], middle);
        x->token[i] = energy > 0.0 ? 1.0 / sqrt(energy) : 0.0;
    }
}

static void gather_inputs(struct search *x)
{
    const struct pith_stats *st = x->job->stats;
    const struct pith_grid *g = &x->job->input.grid;
    weigh_tokens(x);
    for (size_t i = 0, e = 0; i < x->samples; i++)
        for (size_t c = 0; c < x->dim; c++, e++) {
            const double v = fabs((double)st->samples[e]) * x->token[i];
            x->inputs[e] = (float)v;
            x->input_energy[c] += v * v;
        }
    x->side[0] = (struct pith_balance_side){
        x->inputs, x->samples, span_of(g, (uint32_t)x->dim), step_of(g)};
    if (g->granularity != PITH_PER_TENSOR) return;
    /* One step for all of them, from the range of all tokens. */
    x->side[0].rows = 1;
    double tokens = 0.0;
    for (size_t i = 0; i < x->samples; i++) tokens += x->token[i] * x->token[i];
    x->side[0].each *= tokens;
    for (size_t c = 0; c < x->dim; c++) x->inputs[c] = fmaxf(-st->lo[c], st->hi[c]);
}

/* --- the matrices ----------------------------------------------------------------------------- */

static void gather_energy(const struct search *x, const struct pith_transform_linear *l)
{
    for (size_t row = 0; row < l->rows; row++)
        for (size_t c = 0; c < x->dim; c++) {
            const double w = (double)l->w[row * x->dim + c];
            x->weight_energy[c] += w * w;
        }
}

static void gather_columns(const struct search *x, const struct pith_transform_linear *l, float *to)
{
    memset(to, 0, x->dim * sizeof *to);
    for (size_t row = 0; row < l->rows; row++)
        for (size_t c = 0; c < x->dim; c++) to[c] = fmaxf(to[c], fabsf(l->w[row * x->dim + c]));
}

static void gather_rows(const struct search *x, const struct pith_transform_linear *l, float *to,
                        size_t rows)
{
    for (size_t i = 0; i < rows; i++) {
        const float *from = l->w + (uint64_t)l->rows * i / rows * x->dim;
        for (size_t c = 0; c < x->dim; c++) to[i * x->dim + c] = fabsf(from[c]);
    }
}

static enum pith_status gather_weights(struct search *x, struct pith_error *err)
{
    float *to = x->weights;
    for (unsigned i = 0; i < x->job->count; i++) {
        const struct pith_transform_linear *l = &x->job->linear[i];
        const size_t rows = rows_tried(x->job, l);
        x->side[i + 1] = (struct pith_balance_side){0};
        if (rows == 0) continue;
        PITH_TRY(pith_fold_hold(x->job, i, err));
        gather_energy(x, l);
        if (l->grid.granularity == PITH_PER_TENSOR) gather_columns(x, l, to);
        else gather_rows(x, l, to, rows);
        pith_fold_drop(x->job, i);
        x->side[i + 1] = (struct pith_balance_side){
            to, rows, span_of(&l->grid, (uint32_t)x->dim),
            step_of(&l->grid) * (double)l->rows / (double)rows};
        to += rows * x->dim;
    }
    return PITH_OK;
}

/* --- the whole -------------------------------------------------------------------------------- */

static enum pith_status balance(struct search *x, float *s, struct pith_error *err)
{
    double loss = 0.0, rounded = 0.0;
    gather_inputs(x);
    PITH_TRY(gather_weights(x, err));
    for (size_t c = 0; c < x->dim; c++) x->first[c] = pith_fold_first(x->job, c);
    const struct pith_balance b = {.pool = pith_backend_pool(x->job->backend),
                                   .dim = x->dim,
                                   .sides = x->job->count + 1,
                                   .side = x->side,
                                   .inputs = x->input_energy,
                                   .weights = x->weight_energy,
                                   .first = x->first};
    for (size_t i = 0; i < b.sides; i++) rounded += b.side[i].each;
    if (rounded > 0.0) return pith_balance(&b, s, &loss, err);
    for (size_t c = 0; c < x->dim; c++) s[c] = 1.0f;
    return PITH_OK;
}

enum pith_status pith_smooth_search(const struct pith_transform_job *job, float *s,
                                    struct pith_error *err)
{
    struct pith_arena a = {0};
    struct search x = search_of(job);
    layout_search(&a, &x);
    if (!pith_arena_open(&a)) return pith_fail_nomem(err, "the search for scales");
    layout_search(&a, &x);
    const enum pith_status st = balance(&x, s, err);
    pith_free(a.base);
    return st;
}

/* The most rows times blocks of an operand. */
static size_t most_search_steps(const struct search *x)
{
    const struct pith_transform_job *job = x->job;
    const uint32_t dim = (uint32_t)x->dim;
    size_t most = x->samples * pith_balance_blocks(x->dim, span_of(&job->input.grid, dim));
    for (unsigned i = 0; i < job->count; i++) {
        const struct pith_transform_linear *l = &job->linear[i];
        const size_t n = rows_tried(job, l) * pith_balance_blocks(x->dim, span_of(&l->grid, dim));
        if (n > most) most = n;
    }
    return most;
}

uint64_t pith_smooth_search_bytes(const struct pith_transform_job *job)
{
    struct pith_arena a = {0};
    struct search x = search_of(job);
    layout_search(&a, &x);
    const struct pith_pool *pool = pith_backend_pool(job->backend);
    return pith_sum_bytes(pith_arena_bytes(&a),
                          pith_balance_bytes(pool, x.dim, most_search_steps(&x)));
}
