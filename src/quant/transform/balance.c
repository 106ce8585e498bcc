#include "quant/transform/balance.h"

#include "base/arena.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

/* A maximum pulls at all columns near it: by the power 2^SHARPNESS of what they are of it, so that
 * those that come next are not raced past. */
enum { STEPS = 60, SHARPNESS = 4, COLUMNS = 64, ROUND_FLOATS = 128 << 10 };
static const double FARTHEST = 1.0; /* of a step in log s */

struct descent {
    const struct pith_balance *of;
    double *z, *best;    /* [dim] log s */
    double *up, *down;   /* [dim] what wants s larger, and smaller */
    double *own;         /* [dim] what the present side's maxima would have smaller */
    double *partner;     /* [dim] sums of squares of the other operand, scaled */
    float *factor;       /* [dim] of the present side */
    float *inverse;      /* [rows][blocks] 1 / a block's largest magnitude; 0: it has none */
    float *share;        /* [rows][blocks] its square over the sum of the powers */
    double *largest;     /* [rows][blocks] its square */
    size_t now, blocks;  /* the present side */
    size_t from, to;     /* of its rows, those at work: as many as stay in a cache */
};

static void layout(struct pith_arena *a, struct descent *d, size_t dim, size_t steps)
{
    d->z = pith_arena_take(a, dim, sizeof *d->z);
    d->best = pith_arena_take(a, dim, sizeof *d->best);
    d->up = pith_arena_take(a, dim, sizeof *d->up);
    d->down = pith_arena_take(a, dim, sizeof *d->down);
    d->own = pith_arena_take(a, dim, sizeof *d->own);
    d->partner = pith_arena_take(a, dim, sizeof *d->partner);
    d->factor = pith_arena_take(a, dim, sizeof *d->factor);
    d->inverse = pith_arena_take(a, steps, sizeof *d->inverse);
    d->share = pith_arena_take(a, steps, sizeof *d->share);
    d->largest = pith_arena_take(a, steps, sizeof *d->largest);
}

uint64_t pith_balance_bytes(size_t dim, size_t steps)
{
    struct pith_arena a = {0};
    struct descent d = {0};
    layout(&a, &d, dim, steps);
    return pith_arena_bytes(&a);
}

static size_t most_steps(const struct pith_balance *b)
{
    size_t most = 0;
    for (size_t i = 0; i < b->sides; i++) {
        const struct pith_balance_side *side = &b->side[i];
        if (!(side->each > 0.0)) continue;
        const size_t n = side->rows * pith_balance_blocks(b->dim, side->span);
        if (n > most) most = n;
    }
    return most;
}

static float power(float ratio)
{
    for (int i = 0; i < SHARPNESS; i++) ratio *= ratio;
    return ratio;
}

/* Where the block after block i begins. */
static size_t end_of(const struct descent *d, size_t i)
{
    const size_t end = (i + 1) * d->of->side[d->now].span;
    return end < d->of->dim ? end : d->of->dim;
}

static void survey_row(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct descent *d = ctx;
    const size_t row = d->from + task;
    const float *v = d->of->side[d->now].magnitude + row * d->of->dim;
    for (size_t i = 0, c = 0; i < d->blocks; i++) {
        const size_t at = row * d->blocks + i, begin = c, end = end_of(d, i);
        float largest = 0.0f, sum = 0.0f;
        for (; c < end; c++) {
            const float x = v[c] * d->factor[c];
            largest = x > largest ? x : largest;
        }
        const float inverse = largest > 0.0f ? 1.0f / largest : 0.0f;
        for (c = begin; c < end; c++) sum += power(v[c] * d->factor[c] * inverse);
        d->inverse[at] = inverse;
        d->largest[at] = (double)largest * (double)largest;
        d->share[at] = sum > 0.0f ? largest * largest / sum : 0.0f;
    }
}

/* What the maxima of the rows at work have of some columns. */
static void pull_columns(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct descent *d = ctx;
    const struct pith_balance_side *side = &d->of->side[d->now];
    const size_t begin = task * COLUMNS;
    const size_t end = begin + COLUMNS < d->of->dim ? begin + COLUMNS : d->of->dim;
    for (size_t row = d->from; row < d->to; row++) {
        const float *v = side->magnitude + row * d->of->dim;
        for (size_t c = begin, i = begin / side->span; c < end; i++) {
            const size_t stop = end_of(d, i) < end ? end_of(d, i) : end;
            const float share = d->share[row * d->blocks + i];
            const float inverse = d->inverse[row * d->blocks + i];
            for (; c < stop; c++)
                d->own[c] += (double)(share * power(v[c] * d->factor[c] * inverse));
        }
    }
}

/* Rows a round, one at least. */
static void survey(struct descent *d)
{
    const size_t rows = d->of->side[d->now].rows, dim = d->of->dim;
    const size_t round = ROUND_FLOATS / dim > 0 ? ROUND_FLOATS / dim : 1;
    memset(d->own, 0, dim * sizeof *d->own);
    for (d->from = 0; d->from < rows; d->from = d->to) {
        d->to = rows - d->from < round ? rows : d->from + round;
        pith_pool_run(d->of->pool, d->to - d->from, survey_row, d);
        pith_pool_run(d->of->pool, (dim + COLUMNS - 1) / COLUMNS, pull_columns, d);
    }
}

/* The loss of one side; `shrink` and `grow` gain what wants its factors smaller, and larger. */
static double weigh_side(struct descent *d, double *shrink, double *grow)
{
    const struct pith_balance_side *side = &d->of->side[d->now];
    double loss = 0.0;
    survey(d);
    for (size_t i = 0, c = 0; i < d->blocks; i++) {
        const size_t begin = c, end = end_of(d, i);
        double squares = 0.0, partners = 0.0;
        for (size_t row = 0; row < side->rows; row++) squares += d->largest[row * d->blocks + i];
        for (; c < end; c++) partners += d->partner[c];
        for (c = begin; c < end; c++) {
            shrink[c] += side->each * partners * d->own[c];
            grow[c] += side->each * squares * d->partner[c];
        }
        loss += side->each * squares * partners;
    }
    return loss;
}

/* The loss at d->z, and what pulls there. */
static double weigh(struct descent *d)
{
    const struct pith_balance *b = d->of;
    double loss = 0.0;
    memset(d->up, 0, b->dim * sizeof *d->up);
    memset(d->down, 0, b->dim * sizeof *d->down);
    for (d->now = 0; d->now < b->sides; d->now++) {
        if (!(b->side[d->now].each > 0.0)) continue;
        const bool inputs = d->now == 0;
        const double *energy = inputs ? b->weights : b->inputs, sign = inputs ? 1.0 : -1.0;
        d->blocks = pith_balance_blocks(b->dim, b->side[d->now].span);
        for (size_t c = 0; c < b->dim; c++) {
            d->factor[c] = (float)exp(-sign * d->z[c]);
            d->partner[c] = energy[c] * exp(2.0 * sign * d->z[c]);
        }
        loss += weigh_side(d, inputs ? d->up : d->down, inputs ? d->down : d->up);
    }
    return loss;
}

/* Tied columns move by what pulls at all of them. A column that nothing pulls at stays. */
static void step(struct descent *d, double length)
{
    const struct pith_balance *b = d->of;
    for (size_t c = 0; c < b->dim; c++) {
        const size_t first = b->first[c];
        if (first == c) continue;
        d->up[first] += d->up[c];
        d->down[first] += d->down[c];
    }
    for (size_t c = 0; c < b->dim; c++) {
        const size_t first = b->first[c];
        const double up = d->up[first], down = d->down[first];
        if (!(up > 0.0) || !(down > 0.0) || isinf(up) || isinf(down)) continue;
        const double way = 0.5 * (log(up) - log(down));
        d->z[c] += length * fmax(-FARTHEST, fmin(FARTHEST, way));
    }
}

enum pith_status pith_balance(const struct pith_balance *b, float *s, double *loss,
                              struct pith_error *err)
{
    struct pith_arena a = {0};
    struct descent d = {.of = b};
    const size_t steps = most_steps(b);
    layout(&a, &d, b->dim, steps);
    if (!pith_arena_open(&a)) return pith_fail_nomem(err, "the balance of a site");
    layout(&a, &d, b->dim, steps);
    *loss = INFINITY;
    for (size_t c = 0; c < b->dim; c++) d.z[c] = d.best[c] = log((double)s[c]);
    for (int i = 0; i < STEPS; i++) {
        const double here = weigh(&d);
        if (here < *loss) memcpy(d.best, d.z, b->dim * sizeof *d.best);
        *loss = fmin(*loss, here);
        step(&d, 1.0 / sqrt(1.0 + i / 10.0));
    }
    for (size_t c = 0; c < b->dim; c++) s[c] = (float)exp(d.best[c]);
    pith_free(a.base);
    return PITH_OK;
}
