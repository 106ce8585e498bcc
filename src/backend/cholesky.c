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
 * large k and the small factor with a small NB. T is stored transposed (t[p * NB + j] = T[j][p], j
 * <= p), so both inner loops run along memory.
 *
 * Ranks share the rows above the corner of the WIDE columns, which stand alone in steps 2 and 3:
 * runs of rows go to them back and forth (0 1 2 2 1 0 0 1 ...), so that each has about as much of
 * the triangle at any time. The corner, which all factor again, is everyone's before, and P
 * afterwards. */
#include "backend/parts.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { NB = 64, WIDE = PITH_KC };

_Static_assert(WIDE % NB == 0, "wide columns are whole blocks");

_Static_assert(NB *NB * 2 <= PITH_KC * PITH_NC, "the small factor fits into packed B");

_Static_assert(NB % PITH_SOLVE_LANES == 0, "runs of rows are whole lanes");

struct chol {
    struct pith_backend *b;
    struct pith_ranks *ranks;
    unsigned count_ranks;
    float *h;
    size_t d, first, count; /* columns of the present block */
    size_t height;          /* of a run of rows that is one rank's */
    size_t row, rows;       /* that are solved now */
    double *t;
    float *packed; /* of several ranks: what they send each other */
    size_t *edges; /* and whose it is: pith_ranks_share_runs() */
};

/* --- whose rows ------------------------------------------------------------------------------- */

static bool is_shared(unsigned ranks, size_t d)
{
    return ranks > 1 && d > WIDE;
}

/* Of a run: some for each rank, and not so low that packing takes more than multiplying. */
static size_t run_height(unsigned ranks, size_t d)
{
    enum { EACH = 4, MOST = 512 };
    const size_t rows = d / EACH / ranks / NB * NB;
    return rows < NB ? NB : pith_min(rows, MOST);
}

static unsigned run_owner(unsigned ranks, size_t run)
{
    const size_t sweep = run / ranks, at = run % ranks;
    return (unsigned)(sweep % 2 ? ranks - 1 - at : at);
}

/* Some rows of H. */
struct rows {
    size_t first, end;
};

/* The next of a rank's rows behind `at` and below `limit`; false when there are none. One rank has
 * all of them. */
static bool next_rows(const struct chol *c, unsigned rank, size_t limit, struct rows *at)
{
    const size_t height = c->height ? c->height : c->d;
    for (size_t run = (at->end + height - 1) / height; run * height < limit; run++) {
        if (run_owner(c->count_ranks, run) != rank) continue;
        *at = (struct rows){run * height, pith_min(run * height + height, limit)};
        return true;
    }
    return false;
}

/* How many of a rank's rows lie in these. */
static size_t rows_in(const struct chol *c, unsigned rank, const struct rows *of)
{
    size_t n = 0;
    for (struct rows at = {0}; next_rows(c, rank, of->end, &at);)
        if (at.end > of->first) n += at.end - (at.first > of->first ? at.first : of->first);
    return n;
}

/* A rank's part of the rows, of columns [col, col + width), from or to its part of c->packed. */
static void copy_packed(const struct chol *c, unsigned rank, const struct rows *of, size_t col,
                        size_t width, bool out)
{
    float *packed = c->packed + c->edges[rank] / sizeof *packed;
    for (struct rows at = {0}; next_rows(c, rank, of->end, &at);)
        for (size_t i = at.first > of->first ? at.first : of->first; i < at.end; i++) {
            float *row = c->h + i * c->d + col;
            memcpy(out ? packed : row, out ? row : packed, width * sizeof *row);
            packed += width;
        }
}

/* What each rank has of the rows, of columns [col, end), becomes everyone's. */
static enum pith_status share_rows(const struct chol *c, const struct rows *of, size_t col,
                                   size_t end, struct pith_error *err)
{
    const unsigned own = pith_ranks_own(c->ranks);
    if (!c->height) return PITH_OK;
    c->edges[0] = 0;
    for (unsigned rank = 0; rank < c->count_ranks; rank++)
        c->edges[rank + 1] = c->edges[rank] +
                             rows_in(c, rank, of) * (end - col) * sizeof *c->packed;
    copy_packed(c, own, of, col, end - col, true);
    PITH_TRY(pith_ranks_share_runs(c->ranks, c->packed, c->edges, err));
    for (unsigned rank = 0; rank < c->count_ranks; rank++)
        if (rank != own) copy_packed(c, rank, of, col, end - col, false);
    return PITH_OK;
}

uint64_t pith_cholesky_scratch(unsigned ranks, size_t d)
{
    return is_shared(ranks, d) ? (uint64_t)d * WIDE * sizeof(float) : 0;
}

/* --- the factor ------------------------------------------------------------------------------- */

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

/* Solves X T^T = H for PITH_SOLVE_LANES of the rows above the corner; rows that are missing at the
 * end count as 0. */
static void solve_task(void *ctx, size_t task, unsigned thread)
{
    enum { LANES = PITH_SOLVE_LANES };
    const struct chol *c = ctx;
    (void)thread;
    double x[NB * LANES] = {0};
    const size_t first = task * LANES, rows = pith_min(LANES, c->rows - first);
    float *h = c->h + (c->row + first) * c->d + c->first;
    for (size_t p = 0; p < c->count; p++)
        for (size_t i = 0; i < rows; i++) x[p * LANES + i] = (double)h[i * c->d + p];
    c->b->kern.solve_f64(c->count, c->t, NB, x);
    for (size_t p = 0; p < c->count; p++)
        for (size_t i = 0; i < rows; i++) h[i * c->d + p] = (float)x[p * LANES + i];
}

static void solve_rows(struct chol *c, const struct rows *at)
{
    c->row = at->first;
    c->rows = at->end - at->first;
    pith_pool_run(c->b->pool, (c->rows + PITH_SOLVE_LANES - 1) / PITH_SOLVE_LANES, solve_task, c);
}

/* H(i, j) -= sum of R(i, p) R(j, p) over k columns p from `from` on, for the block `at` of H: on
 * the diagonal its upper triangle only. */
static void update(const struct chol *c, const struct pith_tile_block *at, size_t from, size_t k)
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
    pith_mul_run(c->b, &mul);
}

/* Factors the columns [first, end), with everything to their right done and taken off: the corner,
 * and this rank's rows above it. */
static bool factor_wide(struct chol *c, size_t first, size_t end, size_t *bad)
{
    const unsigned own = pith_ranks_own(c->ranks);
    for (size_t last = end; last > first; last = c->first) {
        c->count = pith_min(NB, last - first);
        c->first = last - c->count;
        if (!factor_corner(c, bad)) return false;
        const size_t n = c->first - first; /* columns of this wide block still to do */
        for (struct rows at = {0}; next_rows(c, own, first, &at);) solve_rows(c, &at);
        if (n) solve_rows(c, &(struct rows){first, c->first});
        for (struct rows at = {0}; n && next_rows(c, own, first, &at);)
            update(c, &(struct pith_tile_block){at.first, first, at.end - at.first, n}, c->first,
                   c->count);
        update(c, &(struct pith_tile_block){.i = first, .j = first, .m = n, .n = n}, c->first,
               c->count);
    }
    return true;
}

static enum pith_status factor(struct chol *c, size_t *pivot, struct pith_error *err)
{
    const unsigned own = pith_ranks_own(c->ranks);
    for (size_t end = c->d, first; end > 0; end = first) {
        size_t bad;
        first = end - pith_min(WIDE, end);
        if (end < c->d) PITH_TRY(share_rows(c, &(struct rows){first, end}, first, end, err));
        if (!factor_wide(c, first, end, &bad)) {
            if (pivot) *pivot = bad;
            return pith_fail(err, PITH_NUMERIC, "pivot %zu of %zu is not positive", bad, c->d);
        }
        PITH_TRY(share_rows(c, &(struct rows){0, first}, first, end, err));
        for (struct rows at = {0}; next_rows(c, own, first, &at);)
            update(
                c,
                &(struct pith_tile_block){at.first, at.first, at.end - at.first, first - at.first},
                first, end - first);
    }
    for (size_t i = 1; i < c->d; i++) memset(c->h + i * c->d, 0, i * sizeof *c->h);
    return PITH_OK;
}

enum pith_status pith_cholesky_shared(struct pith_backend *b, struct pith_ranks *ranks, float *h,
                                      size_t d, size_t *pivot, struct pith_error *err)
{
    const unsigned count = pith_ranks_count(ranks);
    const bool shared = is_shared(count, d);
    struct chol c = {.b = b,
                     .ranks = shared ? ranks : NULL,
                     .count_ranks = shared ? count : 1,
                     .h = h,
                     .d = d,
                     .height = shared ? run_height(count, d) : 0,
                     .t = (double *)(void *)b->scratch[0].b};
    if (shared) {
        c.packed = pith_alloc_aligned(d * WIDE, sizeof *c.packed);
        c.edges = pith_alloc(count + 1, sizeof *c.edges);
    }
    const enum pith_status s = shared && !(c.packed && c.edges) ? pith_fail_nomem(err, "a factor")
                                                                : factor(&c, pivot, err);
    pith_free(c.packed);
    pith_free(c.edges);
    return s;
}

enum pith_status pith_cholesky_upper(struct pith_backend *b, float *h, size_t d, size_t *pivot,
                                     struct pith_error *err)
{
    return pith_cholesky_shared(b, NULL, h, d, pivot, err);
}
