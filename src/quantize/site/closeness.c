#include "quantize/site/closeness.h"

#include "base/mem.h"
#include "kern/ops.h"

#include <math.h>
#include <string.h>

/* Sums over rows are taken in this many parts, which do not depend on the threads. */
enum { PARTS = 16 };

struct fit {
    struct pith_backend *be;
    const struct pith_weight *q, *w;
    size_t cols;
    float *qrows, *wrows;             /* [threads][cols] */
    struct pith_row_squares *squares; /* [rows] */
    double *row, *column;             /* factors: Q ~ diag(row) W diag(column); NULL: all 1 */
    double *above, *below;            /* [PARTS][cols] */
    double *residual;                 /* [rows] squares that remain with a row's factor */
};

static uint32_t part_begin(const struct fit *f, size_t part)
{
    return (uint32_t)(f->w->rows * (uint64_t)part / PARTS);
}

static void load_row(const struct fit *f, uint32_t row, unsigned thread, float **q, float **w)
{
    *q = f->qrows + thread * f->cols;
    *w = f->wrows + thread * f->cols;
    pith_decode_rows(f->be, f->q, row, 1, *q);
    pith_decode_rows(f->be, f->w, row, 1, *w);
}

static void add_columns(void *ctx, size_t part, unsigned thread)
{
    const struct fit *f = ctx;
    double *above = f->above + part * f->cols, *below = f->below + part * f->cols;
    float *q, *w;
    memset(above, 0, f->cols * sizeof *above);
    memset(below, 0, f->cols * sizeof *below);
    for (uint32_t i = part_begin(f, part); i < part_begin(f, part + 1); i++) {
        load_row(f, i, thread, &q, &w);
        for (size_t c = 0; c < f->cols; c++) {
            const double x = f->row[i] * w[c];
            above[c] += x * q[c];
            below[c] += x * x;
        }
    }
}

/* The least-squares factors of all columns, given those of the rows. */
static void fit_columns(struct fit *f)
{
    pith_pool_run(pith_backend_pool(f->be), PARTS, add_columns, f);
    for (size_t c = 0; c < f->cols; c++) {
        double above = 0, below = 0;
        for (size_t part = 0; part < PARTS; part++) {
            above += f->above[part * f->cols + c];
            below += f->below[part * f->cols + c];
        }
        f->column[c] = below > 0 ? above / below : 1;
    }
}

static void fit_row(void *ctx, size_t row, unsigned thread)
{
    const struct fit *f = ctx;
    double above = 0, below = 0, squares = 0;
    float *qrow, *w;
    load_row(f, (uint32_t)row, thread, &qrow, &w);
    for (size_t c = 0; c < f->cols; c++) {
        const double x = f->column[c] * w[c], q = qrow[c];
        above += x * q;
        below += x * x;
        squares += q * q;
    }
    f->row[row] = below > 0 ? above / below : 1;
    f->residual[row] = squares - above * f->row[row];
}

/* The same for the rows; returns the squares that remain with these factors. */
static double fit_rows(struct fit *f)
{
    double residual = 0;
    pith_pool_run(pith_backend_pool(f->be), f->w->rows, fit_row, f);
    for (uint32_t i = 0; i < f->w->rows; i++) residual += f->residual[i];
    return residual;
}

/* Alternating least squares until it no longer helps much. */
static void fit_factors(struct fit *f)
{
    enum { ROUNDS = 16 };
    double before = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        fit_columns(f);
        const double residual = fit_rows(f);
        if (!(residual < 0.95 * before)) return;
        before = residual;
    }
}

static void square_row(void *ctx, size_t row, unsigned thread)
{
    const struct fit *f = ctx;
    const struct pith_kern *k = pith_backend_kern(f->be);
    float *q, *w;
    load_row(f, (uint32_t)row, thread, &q, &w);
    struct pith_row_squares s = {0};
    if (f->row) {
        for (size_t c = 0; c < f->cols; c++) {
            const double x = f->row[row] * w[c] * f->column[c], d = x - q[c];
            s.difference += d * d;
            s.original += x * x;
        }
    } else {
        s.difference = k->sumsq_diff(f->cols, w, q);
        s.original = k->sumsq(f->cols, w);
    }
    f->squares[row] = s;
}

double pith_relative_from_squares(const struct pith_row_squares *rows, uint32_t count)
{
    double difference = 0, total = 0;
    for (uint32_t i = 0; i < count; i++) {
        difference += rows[i].difference;
        total += rows[i].original;
    }
    return total > 0 ? sqrt(difference / total) : sqrt(difference);
}

static bool take_factors(struct fit *f)
{
    f->row = pith_alloc(f->w->rows, sizeof *f->row);
    f->column = pith_alloc(f->cols, sizeof *f->column);
    f->above = pith_alloc(PARTS * f->cols, sizeof *f->above);
    f->below = pith_alloc(PARTS * f->cols, sizeof *f->below);
    f->residual = pith_alloc(f->w->rows, sizeof *f->residual);
    if (!f->row || !f->column || !f->above || !f->below || !f->residual) return false;
    for (uint32_t i = 0; i < f->w->rows; i++) f->row[i] = 1;
    return true;
}

uint64_t pith_relative_error_bytes(uint32_t rows, uint32_t cols, unsigned threads, bool rescaled)
{
    const uint64_t factors = (rows * 2ull + cols * (2ull * PARTS + 1)) * sizeof(double);
    return cols * 2ull * threads * sizeof(float) + rows * sizeof(struct pith_row_squares) +
           (rescaled ? factors : 0);
}

bool pith_relative_error(struct pith_backend *be, const struct pith_weight *q,
                         const struct pith_weight *w, bool rescaled, double *error)
{
    struct pith_pool *pool = pith_backend_pool(be);
    const size_t floats = pith_pool_threads(pool) * (size_t)w->cols;
    struct fit f = {
        .be = be,
        .q = q,
        .w = w,
        .cols = w->cols,
        .qrows = pith_alloc(floats, sizeof(float)),
        .wrows = pith_alloc(floats, sizeof(float)),
        .squares = pith_alloc(w->rows, sizeof *f.squares),
    };
    const bool ok = f.qrows && f.wrows && f.squares && (!rescaled || take_factors(&f));
    if (ok) {
        if (rescaled) fit_factors(&f);
        pith_pool_run(pool, w->rows, square_row, &f);
        *error = pith_relative_from_squares(f.squares, w->rows);
    }
    pith_free(f.qrows);
    pith_free(f.wrows);
    pith_free(f.squares);
    pith_free(f.row);
    pith_free(f.column);
    pith_free(f.above);
    pith_free(f.below);
    pith_free(f.residual);
    return ok;
}
