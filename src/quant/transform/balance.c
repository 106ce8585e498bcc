#include "quant/transform/balance.h"

#include "base/arena.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

/* A maximum pulls at all columns near it: by the power 2^SHARPNESS of what they are of it, so that
 * those that come next are not raced past. Rows are looked at in rounds: a thread's part of the
 * powers of one stays in its cache until columns are summed. */
enum { STEPS = 60, SHARPNESS = 4, COLUMNS = 64, ROWS = 8, LANES = 16, ROUND_FLOATS = 64 << 10 };
static const double FARTHEST = 1.0; /* of a step in log s */

struct descent {
    const struct pith_balance *of;
    double *z, *best;   /* [dim] log s */
    double *up, *down;  /* [dim] what wants s larger, and smaller */
    double *own;        /* [dim] what the present side's maxima would have smaller */
    double *partner;    /* [dim] sums of squares of the other operand, scaled */
    float *factor;      /* [dim] of the present side */
    float *share;       /* [rows][blocks] largest magnitude's square over the sum of the powers */
    double *largest;    /* [rows][blocks] its square */
    float *power;       /* [round][dim] of the rows at work */
    size_t now, blocks; /* the present side */
    size_t round;       /* rows at work at once, at most */
    size_t from, to;    /* these */
};

/* Whole tasks of rows. */
static size_t round_of(const struct pith_pool *pool, size_t dim)
{
    const size_t rows = (size_t)pith_pool_threads(pool) * ROUND_FLOATS / dim;
    return rows < ROWS ? ROWS : rows / ROWS * ROWS;
}

static void layout(struct pith_arena *a, struct descent *d, size_t dim, size_t steps)
{
    d->power = pith_arena_take(a, d->round * dim, sizeof *d->power);
    d->z = pith_arena_take(a, dim, sizeof *d->z);
    d->best = pith_arena_take(a, dim, sizeof *d->best);
    d->up = pith_arena_take(a, dim, sizeof *d->up);
    d->down = pith_arena_take(a, dim, sizeof *d->down);
    d->own = pith_arena_take(a, dim, sizeof *d->own);
    d->partner = pith_arena_take(a, dim, sizeof *d->partner);
    d->factor = pith_arena_take(a, dim, sizeof *d->factor);
    d->share = pith_arena_take(a, steps, sizeof *d->share);
    d->largest = pith_arena_take(a, steps, sizeof *d->largest);
}

uint64_t pith_balance_bytes(const struct pith_pool *pool, size_t dim, size_t steps)
{
    struct pith_arena a = {0};
    struct descent d = {.round = round_of(pool, dim)};
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

/* The largest of v f. */
static float largest_of(size_t n, const float *v, const float *f)
{
    float most[LANES] = {0}, largest = 0.0f;
    size_t c = 0;
    for (; c + LANES <= n; c += LANES)
        for (size_t l = 0; l < LANES; l++) {
            const float x = v[c + l] * f[c + l];
            most[l] = x > most[l] ? x : most[l];
        }
    for (; c < n; c++) most[0] = v[c] * f[c] > most[0] ? v[c] * f[c] : most[0];
    for (size_t l = 0; l < LANES; l++) largest = most[l] > largest ? most[l] : largest;
    return largest;
}

static void raise(size_t n, const float *restrict v, const float *restrict f, float inverse,
                  float *restrict to)
{
    size_t c = 0;
    for (; c + LANES <= n; c += LANES)
        for (size_t l = 0; l < LANES; l++) to[c + l] = power(v[c + l] * f[c + l] * inverse);
    for (; c < n; c++) to[c] = power(v[c] * f[c] * inverse);
}

/* Of some rows, each by itself; side by side, so that none waits for the sum before. */
static void sum_powers(const float *power, size_t rows, size_t dim, size_t n, float sum[ROWS])
{
    memset(sum, 0, ROWS * sizeof *sum);
    if (rows == ROWS)
        for (size_t c = 0; c < n; c++)
            for (size_t r = 0; r < ROWS; r++) sum[r] += power[r * dim + c];
    else
        for (size_t r = 0; r < rows; r++)
            for (size_t c = 0; c < n; c++) sum[r] += power[r * dim + c];
}

/* A block of some rows. */
static void survey_block(const struct descent *d, size_t first, size_t rows, size_t block,
                         size_t begin, size_t end)
{
    const size_t dim = d->of->dim, n = end - begin;
    const float *v = d->of->side[d->now].magnitude + first * dim + begin;
    float *p = d->power + (first - d->from) * dim + begin, largest[ROWS], sum[ROWS];
    for (size_t r = 0; r < rows; r++) {
        largest[r] = largest_of(n, v + r * dim, d->factor + begin);
        raise(n, v + r * dim, d->factor + begin, largest[r] > 0.0f ? 1.0f / largest[r] : 0.0f,
              p + r * dim);
    }
    sum_powers(p, rows, dim, n, sum);
    for (size_t r = 0; r < rows; r++) {
        const size_t at = (first + r) * d->blocks + block;
        d->largest[at] = (double)largest[r] * (double)largest[r];
        d->share[at] = sum[r] > 0.0f ? largest[r] * largest[r] / sum[r] : 0.0f;
    }
}

static void survey_rows(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct descent *d = ctx;
    const size_t first = d->from + task * ROWS;
    const size_t rows = d->to - first < ROWS ? d->to - first : ROWS;
    for (size_t i = 0, begin = 0; i < d->blocks; begin = end_of(d, i++))
        survey_block(d, first, rows, i, begin, end_of(d, i));
}

static void add_times(size_t n, const float *restrict x, float times, double *restrict to)
{
    size_t c = 0;
    for (; c + LANES <= n; c += LANES)
        for (size_t l = 0; l < LANES; l++) to[c + l] += (double)(times * x[c + l]);
    for (; c < n; c++) to[c] += (double)(times * x[c]);
}

/* What the maxima of the rows at work have of some columns. */
static void pull_columns(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct descent *d = ctx;
    const size_t begin = task * COLUMNS, dim = d->of->dim;
    const size_t end = begin + COLUMNS < dim ? begin + COLUMNS : dim;
    for (size_t row = d->from; row < d->to; row++) {
        const float *p = d->power + (row - d->from) * dim;
        for (size_t c = begin, i = begin / d->of->side[d->now].span; c < end; i++) {
            const size_t stop = end_of(d, i) < end ? end_of(d, i) : end;
            add_times(stop - c, p + c, d->share[row * d->blocks + i], d->own + c);
            c = stop;
        }
    }
}

static void survey(struct descent *d)
{
    const size_t rows = d->of->side[d->now].rows, dim = d->of->dim;
    memset(d->own, 0, dim * sizeof *d->own);
    for (d->from = 0; d->from < rows; d->from = d->to) {
        d->to = rows - d->from < d->round ? rows : d->from + d->round;
        pith_pool_run(d->of->pool, (d->to - d->from + ROWS - 1) / ROWS, survey_rows, d);
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
    struct descent d = {.of = b, .round = round_of(b->pool, b->dim)};
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
