#include "quant/round/kron.h"

#include <math.h>
#include <string.h>

static const double DAMP_FIRST = 1e-6, DAMP_LIMIT = 10.0;
enum { COLUMNS = 64, TILE = 32 }; /* of a task; of what registers hold */

static uint32_t rows_of(const struct pith_outputs *o, uint32_t first)
{
    return o->rows - first < o->block ? o->rows - first : o->block;
}

static uint32_t rows_from(const struct pith_outputs_parts *p, uint32_t first)
{
    return p->rows - first < p->block ? p->rows - first : p->block;
}

static float *part_at(const struct pith_outputs_parts *p, uint32_t first)
{
    return p->s + pith_outputs_at(p->rows, p->block, first);
}

/* The mean of the diagonal. */
static enum pith_status find_mean(const struct pith_outputs_parts *p, double *mean,
                                  struct pith_error *err)
{
    *mean = 0;
    for (uint32_t first = 0; first < p->rows; first += p->block) {
        const size_t n = rows_from(p, first);
        const float *s = part_at(p, first);
        PITH_TRY(p->take(p->ctx, first, err));
        for (size_t i = 0; i < n; i++) *mean += (double)s[i * (n + 1)];
    }
    *mean /= p->rows;
    return PITH_OK;
}

static enum pith_status factor_part(const struct pith_outputs_parts *p, struct pith_backend *be,
                                    double by, uint32_t first, double damp)
{
    const size_t n = rows_from(p, first);
    float *s = part_at(p, first);
    for (size_t i = 0; i < n * n; i++) s[i] = (float)((double)s[i] * by);
    for (size_t i = 0; i < n; i++) s[i * (n + 1)] = (float)((double)s[i * (n + 1)] + damp);
    PITH_TRY(pith_cholesky_upper(be, s, n, NULL, NULL));
    p->finish(p->ctx, first, n);
    return PITH_OK;
}

enum pith_status pith_outputs_factor(const struct pith_outputs_parts *p, struct pith_backend *be,
                                     double damp, struct pith_error *err)
{
    double mean;
    PITH_TRY(find_mean(p, &mean, err));
    const double by = mean > 0 ? 1 / mean : 0;
    for (uint32_t first = 0; first < p->rows; first += p->block)
        for (double more = mean > 0 ? damp : 1;;) {
            PITH_TRY(p->take(p->ctx, first, err));
            const enum pith_status s = factor_part(p, be, by, first, more);
            if (s == PITH_OK) break;
            if (s != PITH_NUMERIC) return pith_fail(err, s, "cannot factor the outputs' Hessian");
            more = more > 0 ? more * 10 : DAMP_FIRST;
            if (more > DAMP_LIMIT)
                return pith_fail(err, s, "the Hessian of outputs from %u on stays singular", first);
        }
    return PITH_OK;
}

struct making {
    const struct pith_outputs *o;
    const struct pith_outputs_felt *felt;
};

/* h, to where its S will be. */
static enum pith_status take_block(void *ctx, uint32_t first, struct pith_error *err)
{
    const struct making *m = ctx;
    const struct pith_outputs *o = m->o;
    const size_t n = rows_of(o, first), at = pith_outputs_at(o->rows, o->block, first);
    const float *h = m->felt->h + at, *by = m->felt->by ? m->felt->by + first : NULL;
    float *s = o->s + at;
    for (size_t i = 0; i < n * n; i++) {
        s[i] = by ? (float)((double)h[i] * (double)by[i / n] * (double)by[i % n]) : h[i];
        if (!isfinite(s[i]))
            return pith_fail(err, PITH_NUMERIC, "the Hessian of outputs has %g at output %zu",
                             (double)s[i], first + i / n);
    }
    return PITH_OK;
}

static void divide_columns(void *ctx, uint32_t first, size_t n)
{
    const struct making *m = ctx;
    const struct pith_outputs *o = m->o;
    float *s = o->s + pith_outputs_at(o->rows, o->block, first);
    for (size_t i = 0; i < n; i++) o->diagonal[first + i] = s[i * (n + 1)];
    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n; j++) s[i * n + j] /= o->diagonal[first + j];
}

enum pith_status pith_outputs_make(struct pith_outputs *o, struct pith_backend *be,
                                   const struct pith_outputs_felt *felt, double damp,
                                   struct pith_error *err)
{
    struct making m = {o, felt};
    const struct pith_outputs_parts parts = {o->rows,    o->block,       o->s,
                                             take_block, divide_columns, &m};
    return pith_outputs_factor(&parts, be, damp, err);
}

void pith_outputs_sweep(const struct pith_outputs *o, uint32_t first, const float *u, float *values,
                        pith_outputs_round_fn *round, void *ctx)
{
    const size_t n = rows_of(o, first);
    const float *s = o->s + pith_outputs_at(o->rows, o->block, first);
    memcpy(values, u, n * sizeof *u); /* what a row is wanted to be, until it is rounded */
    for (size_t i = 0; i < n; i++, s += n) {
        values[i] = round(ctx, first + (uint32_t)i, values[i]);
        const float missed = u[i] - values[i];
        for (size_t j = i + 1; j < n; j++) values[j] += missed * s[j];
    }
}

struct weighing {
    const struct pith_outputs *o;
    float *d;
    size_t cols;
};

/* own[c] += s[k][i] * before[k][c] for all k < i, upwards, in registers: c below TILE. */
static void add_before(const float *s, size_t n, size_t i, const struct weighing *w,
                       const float *before, float *own)
{
    float sum[TILE];
    memcpy(sum, own, sizeof sum);
    for (size_t k = 0; k < i; k++)
        for (size_t c = 0; c < TILE; c++) sum[c] += s[k * n + i] * before[k * w->cols + c];
    memcpy(own, sum, sizeof sum);
}

/* Some columns of one block, from the last row to the first. */
static void weigh_block(const struct weighing *w, uint32_t first, size_t from, size_t to)
{
    const struct pith_outputs *o = w->o;
    const size_t n = rows_of(o, first), whole = from + (to - from) / TILE * TILE;
    const float *s = o->s + pith_outputs_at(o->rows, o->block, first);
    float *d = w->d + first * w->cols;
    for (size_t i = n; i-- > 0;) {
        float *own = d + i * w->cols;
        for (size_t c = from; c < whole; c += TILE) add_before(s, n, i, w, d + c, own + c);
        for (size_t k = 0; k < i; k++)
            for (size_t c = whole; c < to; c++) own[c] += s[k * n + i] * d[k * w->cols + c];
        for (size_t c = from; c < to; c++) own[c] *= o->diagonal[first + i];
    }
}

static void weigh_columns(void *ctx, size_t task, unsigned thread)
{
    const struct weighing *w = ctx;
    const size_t from = task * COLUMNS, to = from + COLUMNS < w->cols ? from + COLUMNS : w->cols;
    (void)thread;
    for (uint32_t first = 0; first < w->o->rows; first += w->o->block)
        weigh_block(w, first, from, to);
}

void pith_outputs_weigh(const struct pith_outputs *o, struct pith_backend *be, float *d,
                        size_t cols)
{
    struct weighing w = {o, d, cols};
    pith_pool_run(pith_backend_pool(be), (cols + COLUMNS - 1) / COLUMNS, weigh_columns, &w);
}

/* Rows from..to of S^T x, the sums over k upwards. */
static void multiply_rows(const float *s, size_t n, const float *x, size_t from, size_t to,
                          double *sum)
{
    for (size_t i = from; i < to; i++) sum[i - from] = 0;
    for (size_t k = 0; k < to; k++)
        for (size_t i = k > from ? k : from; i < to; i++)
            sum[i - from] += (double)s[k * n + i] * (double)x[k];
}

double pith_outputs_square(const struct pith_outputs *o, const float *x)
{
    double squares = 0, sum[COLUMNS];
    for (uint32_t first = 0; first < o->rows; first += o->block) {
        const size_t n = rows_of(o, first);
        const float *s = o->s + pith_outputs_at(o->rows, o->block, first);
        for (size_t from = 0; from < n; from += COLUMNS) {
            const size_t to = n - from < COLUMNS ? n : from + COLUMNS;
            multiply_rows(s, n, x + first, from, to, sum);
            for (size_t i = from; i < to; i++) {
                const double all = sum[i - from] * (double)o->diagonal[first + i];
                squares += all * all;
            }
        }
    }
    return squares;
}
