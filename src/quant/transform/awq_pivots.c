/* What a rounder with error feedback will lose, predicted without rounding.
 *
 * GPTQ's loss is the sum over columns of pivot_k (u_k - q_k)^2, pivot_k = R[k,k]^2 of the Hessian's
 * factor (quant/round/gptq.c), and u_k lies anywhere between two grid points: the square is that of
 * a grid's step over 12 on average. With x divided by s the pivots are divided by s^2, so a trial
 * of scales takes no more than the steps of the grids on the scaled weights. */
#include "quant/transform/awq.h"

#include "base/mem.h"
#include "quant/scale.h"

#include <math.h>
#include <stdlib.h>

static const double DAMP = 0.01; /* GPTQ's default */

struct ranked {
    float key;
    uint32_t column;
};

/* By decreasing diagonal, ties by column: the order in which GPTQ goes through them. */
static int compare_keys(const void *x, const void *y)
{
    const struct ranked *a = x, *b = y;
    if (a->key != b->key) return a->key > b->key ? -1 : 1;
    return a->column < b->column ? -1 : a->column > b->column;
}

static void fill(const float *h, const struct ranked *order, size_t n, double more, float *r)
{
    for (size_t i = 0; i < n; i++) {
        const float *row = h + (size_t)order[i].column * n;
        for (size_t j = 0; j < n; j++) r[i * n + j] = row[order[j].column];
        r[i * n + i] = (float)((double)r[i * n + i] + more);
    }
}

enum pith_status pith_awq_pivots(struct pith_backend *b, const struct pith_stats *stats,
                                 double *pivots, struct pith_error *err)
{
    const size_t n = stats->dim;
    const float *h = stats->hessian;
    size_t count;
    float *r = pith_mul_size(n, n, &count) ? pith_alloc_aligned(count, sizeof *r) : NULL;
    struct ranked *order = pith_alloc(n, sizeof *order);
    enum pith_status s = r && order ? PITH_NUMERIC : pith_fail_nomem(err, "AWQ's pivots");
    double mean = 0.0;
    for (size_t i = 0; order && i < n; i++) {
        order[i] = (struct ranked){h[i * n + i], (uint32_t)i};
        mean += (double)h[i * n + i] / (double)n;
    }
    if (order) qsort(order, n, sizeof *order, compare_keys);
    for (double damp = DAMP; s == PITH_NUMERIC && damp <= 1.0; damp *= 10.0) {
        fill(h, order, n, damp * mean, r);
        s = pith_cholesky_upper(b, r, n, NULL, NULL);
    }
    for (size_t i = 0; i < n && s == PITH_OK; i++)
        pivots[order[i].column] = (double)r[i * n + i] * (double)r[i * n + i];
    pith_free(order);
    pith_free(r);
    if (s != PITH_NUMERIC) return s;
    return pith_fail(err, s, "AWQ: the Hessian cannot be factored");
}

uint64_t pith_awq_pivots_scratch(uint32_t dim)
{
    return (uint64_t)dim * dim * sizeof(float) + (uint64_t)dim * 16;
}

enum pith_status pith_awq_predict(struct pith_backend *b, const struct pith_transform_linear *l,
                                  enum pith_dtype scales, const double *pivots, const float *s,
                                  double *loss, struct pith_error *err)
{
    struct pith_qmat q;
    PITH_TRY(pith_qmat_init(&q, l->rows, l->cols, &l->grid, scales, err));
    const enum pith_status st = pith_fit_scales(b, &l->grid, l->w, &q, err);
    for (uint32_t g = 0; g < q.groups && st == PITH_OK; g++) {
        double steps = 0.0, weight = 0.0;
        for (uint32_t r = 0; r < l->rows; r++) {
            const double step = (double)q.scales[pith_qmat_scale_index(&q, r, g)];
            steps += step * step;
        }
        for (uint32_t c = g * q.group; c < q.cols && c < (g + 1) * q.group; c++)
            weight += pivots[c] / ((double)s[c] * (double)s[c]);
        *loss += steps * weight / 12.0;
    }
    pith_qmat_free(&q);
    return st;
}
