/* Cholesky factorization H = R R^T from the bottom right corner upwards, in blocks of NB columns:
 *
 *     +-----------+-----+
 *     | H' - P P^T|  P  |   1. D = T T^T, the small factor, in double by one thread
 *     |           |     |   2. P = H_P T^-T, in double, rows over the threads
 *     +-----------+-----+   3. H' -= P P^T, upper triangle only, by the blocked multiplication
 *     |           |  D  |      and on with H'
 *     +-----------+-----+
 *
 * T is kept transposed (t[p * NB + j] = T[j][p], j <= p), so both inner loops run along memory. */
#include "backend/parts.h"

#include <math.h>
#include <string.h>

enum { NB = 128 };

_Static_assert(NB *NB * 2 <= PITH_KC * PITH_NC, "the small factor fits into packed B");

struct chol {
    const struct pith_backend *b;
    float *h;
    size_t d, first, count; /* columns of the present block */
    double *t;
};

/* Factors the diagonal block; false with *bad set when a pivot is not a positive number. */
static bool factor_corner(const struct chol *c, size_t *bad)
{
    double *t = c->t;
    for (size_t p = 0; p < c->count; p++)
        for (size_t j = 0; j <= p; j++) t[p * NB + j] = c->h[(c->first + j) * c->d + c->first + p];
    for (size_t p = c->count; p-- > 0;) {
        double *col = t + p * NB;
        if (!(col[p] > 0.0) || isinf(col[p])) {
            *bad = c->first + p;
            return false;
        }
        col[p] = sqrt(col[p]);
        for (size_t j = 0; j < p; j++) col[j] /= col[p];
        for (size_t l = 0; l < p; l++) c->b->kern.axmy_f64(l + 1, col[l], col, t + l * NB);
    }
    for (size_t p = 0; p < c->count; p++)
        for (size_t j = 0; j <= p; j++)
            c->h[(c->first + j) * c->d + c->first + p] = (float)t[p * NB + j];
    return true;
}

/* Solves X T^T = H for PITH_SOLVE_LANES rows above the corner; rows that are missing at the end
 * count as 0. */
static void solve_task(void *ctx, size_t task, unsigned thread)
{
    enum { LANES = PITH_SOLVE_LANES };
    const struct chol *c = ctx;
    (void)thread;
    double x[NB * LANES] = {0};
    const size_t first = task * LANES, rows = pith_min(LANES, c->first - first);
    float *h = c->h + first * c->d + c->first;
    for (size_t i = 0; i < rows; i++)
        for (size_t p = 0; p < c->count; p++) x[p * LANES + i] = (double)h[i * c->d + p];
    c->b->kern.solve_f64(c->count, c->t, NB, x);
    for (size_t i = 0; i < rows; i++)
        for (size_t p = 0; p < c->count; p++) h[i * c->d + p] = (float)x[p * LANES + i];
}

static void update_rest(struct pith_backend *b, const struct chol *c)
{
    const float *panel = c->h + c->first;
    const struct pith_mul mul = {.m = c->first,
                                 .n = c->first,
                                 .k = c->count,
                                 .a = panel,
                                 .a_rs = c->d,
                                 .a_cs = 1,
                                 .negate_a = true,
                                 .b = panel,
                                 .b_rs = 1,
                                 .b_cs = c->d,
                                 .c = c->h,
                                 .ldc = c->d,
                                 .accumulate = true,
                                 .upper = true};
    pith_mul_run(b, &mul);
}

enum pith_status pith_cholesky_upper(struct pith_backend *b, float *h, size_t d, size_t *pivot,
                                     struct pith_error *err)
{
    struct chol c = {.b = b, .h = h, .d = d, .t = (double *)(void *)b->scratch[0].b};
    for (size_t end = d; end > 0; end = c.first) {
        c.count = pith_min(NB, end);
        c.first = end - c.count;
        size_t bad;
        if (!factor_corner(&c, &bad)) {
            if (pivot) *pivot = bad;
            return pith_fail(err, PITH_NUMERIC, "pivot %zu of %zu is not positive", bad, d);
        }
        pith_pool_run(b->pool, (c.first + PITH_SOLVE_LANES - 1) / PITH_SOLVE_LANES, solve_task, &c);
        update_rest(b, &c);
    }
    for (size_t i = 1; i < d; i++) memset(h + i * d, 0, i * sizeof *h);
    return PITH_OK;
}
