#include "quant/round/factor.h"

#include "base/mem.h"
#include "quant/round/column_order.h"
#include "quant/round/hessian.h"

#include <string.h>

static const double DAMP_FIRST = 1e-6, DAMP_LIMIT = 1.0;
enum { BLOCK = 128 };

void pith_factor_layout(struct pith_arena *a, struct pith_factor *f)
{
    f->perm = pith_arena_take(a, f->cols, sizeof *f->perm);
    f->dead = pith_arena_take_zeros(a, f->cols, 1, sizeof *f->dead);
    f->diagonal = pith_arena_take(a, f->cols, sizeof *f->diagonal);
    f->r = pith_arena_take_rows(a, f->cols, f->cols, sizeof *f->r);
}

/* Dead inputs, and the mean of the others' diagonal: a dead input's 1 must not set the damping. */
static enum pith_status scan(struct pith_factor *f, struct pith_error *err)
{
    const float *h = f->h;
    double sum = 0.0;
    for (size_t i = 0; i < f->cols; i++) {
        const float x = h[i * f->cols + i];
        f->dead[i] = !(x > 0.0f);
        f->dead_count += f->dead[i];
        sum += (double)x;
    }
    if (f->dead_count == f->cols)
        return pith_fail(err, PITH_NUMERIC,
                         "no input was ever non-zero: nothing to calibrate with");
    f->mean = sum / (f->cols - f->dead_count);
    return PITH_OK;
}

/* Row k of the damped Hessian in solving order. A dead input is uncoupled from the others: its
 * weight is 0, stays 0, and gives no error to feed on. */
static void fill_row(void *ctx, size_t k, unsigned thread)
{
    const struct pith_factor *f = ctx;
    (void)thread;
    const float *h = f->h + (size_t)f->perm[k] * f->cols;
    float *r = f->r + k * f->cols;
    if (f->dead[f->perm[k]]) {
        memset(r, 0, f->cols * sizeof *r);
        r[k] = 1.0f;
        return;
    }
    for (uint32_t j = 0; j < f->cols; j++) r[j] = f->dead[f->perm[j]] ? 0.0f : h[f->perm[j]];
    r[k] = (float)((double)r[k] + f->lambda);
}

static void normalise_row(void *ctx, size_t k, unsigned thread)
{
    const struct pith_factor *f = ctx;
    (void)thread;
    float *r = f->r + k * f->cols;
    for (size_t j = k; j < f->cols; j++) r[j] /= f->diagonal[j];
}

/* Decreasing diag(H), dead inputs last. */
static enum pith_status order_columns(struct pith_factor *f, struct pith_error *err)
{
    for (uint32_t k = 0; k < f->cols; k++) f->perm[k] = k;
    if (f->by.order == PITH_ORDER_NONE) return PITH_OK;
    return pith_column_order(f->h, f->cols, f->by.width, f->by.block, f->perm, err);
}

static enum pith_status damp_and_factor(struct pith_factor *f, struct pith_error *err)
{
    double damp = f->by.damp;
    if (!(damp >= 0.0 && damp <= DAMP_LIMIT))
        return pith_fail(err, PITH_ARG, "a damping of %g is outside 0..1", damp);
    for (f->retries = 0;; f->retries++) {
        size_t pivot = 0;
        struct pith_error why = {0};
        f->lambda = damp * f->mean;
        pith_pool_run(pith_backend_pool(f->backend), f->cols, fill_row, f);
        const enum pith_status st =
            pith_cholesky_shared(f->backend, f->ranks, f->r, f->cols, &pivot, &why);
        f->damp = damp;
        if (st == PITH_OK) return PITH_OK;
        if (st != PITH_NUMERIC) return pith_fail(err, st, "%s", why.text);
        const double next = damp > 0.0 ? damp * 10.0 : DAMP_FIRST;
        if (next > DAMP_LIMIT * (1 + 1e-9))
            return pith_fail(
                err, PITH_NUMERIC,
                "the Hessian stays singular at input %u with %g of its mean diagonal added",
                f->perm[pivot < f->cols ? pivot : 0], damp);
        damp = next;
    }
}

enum pith_status pith_factor_make(struct pith_factor *f, struct pith_error *err)
{
    PITH_TRY(pith_hessian_check(f->h, f->cols, err));
    PITH_TRY(scan(f, err));
    PITH_TRY(order_columns(f, err));
    PITH_TRY(damp_and_factor(f, err));
    for (size_t k = 0; k < f->cols; k++) f->diagonal[k] = f->r[k * f->cols + k];
    pith_pool_run(pith_backend_pool(f->backend), f->cols, normalise_row, f);
    return PITH_OK;
}

bool pith_factor_is(const struct pith_factor *f, const struct pith_factor *of)
{
    return f->h == of->h && f->cols == of->cols && f->by.order == of->by.order &&
           f->by.width == of->by.width && f->by.block == of->by.block && f->by.damp == of->by.damp;
}

enum pith_status pith_factor_keep(const struct pith_factor *of, struct pith_factor **out,
                                  struct pith_error *err)
{
    struct pith_arena a = {0};
    struct pith_factor *f = pith_alloc(1, sizeof *f);
    if (!f) return pith_fail_nomem(err, "a factor");
    *f = *of;
    pith_factor_layout(&a, f);
    enum pith_status s = pith_arena_open(&a) ? PITH_OK : pith_fail_nomem(err, "a factor");
    if (s == PITH_OK) pith_factor_layout(&a, f);
    f->memory = a.base;
    if (s == PITH_OK) s = pith_factor_make(f, err);
    if (s == PITH_OK) *out = f;
    else pith_round_factor_free(f);
    return s;
}

void pith_round_factor_free(struct pith_factor *f)
{
    if (f) pith_free(f->memory);
    pith_free(f);
}

/* --- drift ------------------------------------------------------------------------------------ */

struct drifting {
    const struct pith_factor *f;
    const float *drift;
    double strength;
    float *y;
    size_t first, end; /* the block of columns */
};

static void fill_drift(void *ctx, size_t j, unsigned thread)
{
    const struct drifting *d = ctx;
    const struct pith_factor *f = d->f;
    const float *from = d->drift + (size_t)f->perm[j] * f->cols;
    float *to = d->y + j * f->cols;
    const bool dead = f->dead[f->perm[j]];
    (void)thread;
    for (uint32_t k = 0; k < f->cols; k++)
        to[k] = dead || f->dead[f->perm[k]] ? 0.0f
                                            : (float)(d->strength * (double)from[f->perm[k]]);
}

/* Columns of the block, from the last on, for one row. */
static void substitute_row(void *ctx, size_t j, unsigned thread)
{
    const struct drifting *d = ctx;
    const size_t cols = d->f->cols;
    float *y = d->y + j * cols;
    (void)thread;
    for (size_t k = d->end; k-- > d->first;) {
        const float *r = d->f->r + k * cols;
        float sum = y[k];
        for (size_t i = k + 1; i < d->end; i++) sum -= y[i] * r[i];
        y[k] = sum;
    }
}

static void divide_row(void *ctx, size_t j, unsigned thread)
{
    const struct drifting *d = ctx;
    float *y = d->y + j * d->f->cols;
    (void)thread;
    for (size_t k = 0; k < d->f->cols; k++) y[k] /= d->f->diagonal[k] * d->f->diagonal[k];
}

/* With Z = y diagonal^2 and r as it is stored, Z r^T = D: from the last column to the first. */
void pith_factor_drift(const struct pith_factor *f, const float *drift, double strength, float *y)
{
    struct pith_pool *pool = pith_backend_pool(f->backend);
    struct drifting d = {.f = f, .drift = drift, .strength = strength, .y = y};
    const size_t cols = f->cols;
    pith_pool_run(pool, cols, fill_drift, &d);
    for (d.end = cols; d.end > 0; d.end = d.first) {
        d.first = (d.end - 1) / BLOCK * BLOCK;
        if (d.end < cols)
            pith_gemm(f->backend, &(struct pith_gemm){.m = cols,
                                                      .n = d.end - d.first,
                                                      .k = cols - d.end,
                                                      .a = y + d.end,
                                                      .a_rs = cols,
                                                      .a_cs = 1,
                                                      .b = f->r + d.first * cols + d.end,
                                                      .b_rs = 1,
                                                      .b_cs = cols,
                                                      .c = y + d.first,
                                                      .ldc = cols,
                                                      .accumulate = true,
                                                      .negate = true});
        pith_pool_run(pool, cols, substitute_row, &d);
    }
    pith_pool_run(pool, cols, divide_row, &d);
}

double pith_factor_correct(const struct pith_factor *f, const float *y, const float *w,
                           uint32_t rows, size_t ld, float *correction)
{
    double sum = 0;
    pith_gemm(f->backend, &(struct pith_gemm){.m = f->cols,
                                              .n = rows,
                                              .k = f->cols,
                                              .a = y,
                                              .a_rs = 1,
                                              .a_cs = f->cols,
                                              .b = w,
                                              .b_rs = ld,
                                              .b_cs = 1,
                                              .c = correction,
                                              .ldc = ld});
    for (uint32_t k = 0; k < f->cols; k++) {
        double squares = 0;
        float *column = correction + k * ld;
        for (uint32_t r = 0; r < rows; r++) squares += (double)column[r] * (double)column[r];
        for (size_t r = rows; r < ld; r++) column[r] = 0;
        sum += squares * (double)f->diagonal[k] * (double)f->diagonal[k];
    }
    return sum;
}
