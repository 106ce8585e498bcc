#include "pipe/closeness.h"

#include "base/mem.h"

#include <math.h>

struct fit {
    const struct pith_weight *q, *w;
    float *qrow, *wrow;
    double *row, *column; /* factors: Q ~ diag(row) W diag(column) */
    double *above, *below;
};

static void load_row(const struct fit *f, uint32_t i)
{
    pith_weight_decode(f->q, i, 1, f->qrow);
    pith_weight_decode(f->w, i, 1, f->wrow);
}

/* The least-squares factors of all columns, given those of the rows. */
static void fit_columns(struct fit *f)
{
    for (uint32_t c = 0; c < f->w->cols; c++) f->above[c] = f->below[c] = 0;
    for (uint32_t i = 0; i < f->w->rows; i++) {
        load_row(f, i);
        for (uint32_t c = 0; c < f->w->cols; c++) {
            const double x = f->row[i] * f->wrow[c];
            f->above[c] += x * f->qrow[c];
            f->below[c] += x * x;
        }
    }
    for (uint32_t c = 0; c < f->w->cols; c++)
        f->column[c] = f->below[c] > 0 ? f->above[c] / f->below[c] : 1;
}

/* The same for the rows; returns the squares that these factors leave. */
static double fit_rows(struct fit *f)
{
    double left = 0;
    for (uint32_t i = 0; i < f->w->rows; i++) {
        double above = 0, below = 0, squares = 0;
        load_row(f, i);
        for (uint32_t c = 0; c < f->w->cols; c++) {
            const double x = f->column[c] * f->wrow[c], q = f->qrow[c];
            above += x * q;
            below += x * x;
            squares += q * q;
        }
        f->row[i] = below > 0 ? above / below : 1;
        left += squares - above * f->row[i];
    }
    return left;
}

/* Alternating least squares until it no longer helps much. */
static void fit_factors(struct fit *f)
{
    enum { ROUNDS = 16 };
    double before = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        fit_columns(f);
        const double left = fit_rows(f);
        if (!(left < 0.95 * before)) return;
        before = left;
    }
}

static double residual(struct fit *f)
{
    double difference = 0, total = 0;
    for (uint32_t i = 0; i < f->w->rows; i++) {
        load_row(f, i);
        for (uint32_t c = 0; c < f->w->cols; c++) {
            const double x = f->row[i] * f->wrow[c] * f->column[c], d = x - f->qrow[c];
            difference += d * d;
            total += x * x;
        }
    }
    return total > 0 ? sqrt(difference / total) : sqrt(difference);
}

bool pith_relative_error(const struct pith_weight *q, const struct pith_weight *w, bool rescaled,
                         double *error)
{
    struct fit f = {
        .q = q,
        .w = w,
        .qrow = pith_alloc(w->cols, sizeof(float)),
        .wrow = pith_alloc(w->cols, sizeof(float)),
        .row = pith_alloc(w->rows, sizeof(double)),
        .column = pith_alloc(w->cols, sizeof(double)),
        .above = pith_alloc(w->cols, sizeof(double)),
        .below = pith_alloc(w->cols, sizeof(double)),
    };
    const bool ok = f.qrow && f.wrow && f.row && f.column && f.above && f.below;
    if (ok) {
        for (uint32_t i = 0; i < w->rows; i++) f.row[i] = 1;
        for (uint32_t c = 0; c < w->cols; c++) f.column[c] = 1;
        if (rescaled) fit_factors(&f);
        *error = residual(&f);
    }
    pith_free(f.qrow);
    pith_free(f.wrow);
    pith_free(f.row);
    pith_free(f.column);
    pith_free(f.above);
    pith_free(f.below);
    return ok;
}
