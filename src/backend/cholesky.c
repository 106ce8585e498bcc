/* Cholesky factorization H = R R^T from the bottom right corner upwards, NB columns at a time:
 *
 *     +-----------+-----+
 *     |     H'    |  P  |   1. D = T T^T, the small factor, in double by one thread
 *     |           |     |   2. P = H_P T^-T, in double, rows over the threads
 *     +-----------+-----+   3. H' -= P P^T, upper triangle only, by the blocked multiplication
 *     |           |  D  |      and on with H'
 *     +-----------+-----+
 *
 * Step 3 is put off: after NB columns it is done for the other columns of the same WIDE ones only,
 * and for all of H' once the WIDE columns are finished, since the multiplication is best with a
 * large k and the small factor with a small NB. T is kept transposed (t[p * NB + j] = T[j][p],
 * j <= p), so both inner loops run along memory. */
#include "backend/parts.h"

#include <math.h>
#include <string.h>

enum { NB = 64, WIDE = PITH_KC };

_Static_assert(WIDE % NB == 0, "wide columns are whole blocks");

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
    for (size_t p = 0; p < c->count; p++)
        for (size_t i = 0; i < rows; i++) x[p * LANES + i] = (double)h[i * c->d + p];
    c->b->kern.solve_f64(c->count, c->t, NB, x);
    for (size_t p = 0; p < c->count; p++)
        for (size_t i = 0; i < rows; i++) h[i * c->d + p] = (float)x[p * LANES + i];
}

/* H(i, j) -= sum of R(i, p) R(j, p) over k columns p from `from` on, for the block `at` of H: on
 * the diagonal its upper triangle only. */
static void update(struct pith_backend *b, const struct chol *c, const struct pith_tile_block *at,
                   size_t from, size_t k)
{
    float *h = c->h + at->i * c->d;
    const struct pith_mul mul = {.m = at->m,
                                 .n = at->n,
                                 .k = k,
                                 .a = h + from,
                                 .a_rs = c->d,
                                 .a_cs = 1,
                                 .negate_a = true,
                                 .b = c->h + at->j * c->d + from,
                                 .b_rs = 1,
                                 .b_cs = c->d,
                                 .c = h + at->j,
                                 .ldc = c->d,
                                 .accumulate = true,
                                 .upper = at->i == at->j};
    pith_mul_run(b, &mul);
}

/* Factors the columns [first, end), with everything to their right done and taken off. */
static bool factor_wide(struct pith_backend *b, struct chol *c, size_t first, size_t end,
                        size_t *bad)
{
    for (size_t last = end; last > first; last = c->first) {
        c->count = pith_min(NB, last - first);
        c->first = last - c->count;
        if (!factor_corner(c, bad)) return false;
        pith_pool_run(b->pool, (c->first + PITH_SOLVE_LANES - 1) / PITH_SOLVE_LANES, solve_task, c);
        const size_t n = c->first - first; /* columns of this wide block still to do */
        update(b, c, &(struct pith_tile_block){.i = 0, .j = first, .m = first, .n = n}, c->first,
               c->count);
        update(b, c, &(struct pith_tile_block){.i = first, .j = first, .m = n, .n = n}, c->first,
               c->count);
    }
    return true;
}

enum pith_status pith_cholesky_upper(struct pith_backend *b, float *h, size_t d, size_t *pivot,
                                     struct pith_error *err)
{
    struct chol c = {.b = b, .h = h, .d = d, .t = (double *)(void *)b->scratch[0].b};
    for (size_t end = d; end > 0;) {
        const size_t first = end - pith_min(WIDE, end);
        size_t bad;
        if (!factor_wide(b, &c, first, end, &bad)) {
            if (pivot) *pivot = bad;
            return pith_fail(err, PITH_NUMERIC, "pivot %zu of %zu is not positive", bad, d);
        }
        update(b, &c, &(struct pith_tile_block){.m = first, .n = first}, first, end - first);
        end = first;
    }
    for (size_t i = 1; i < d; i++) memset(h + i * d, 0, i * sizeof *h);
    return PITH_OK;
}
