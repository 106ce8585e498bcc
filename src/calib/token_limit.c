#include "calib/token_limit.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEWEST = 16 }; /* rows */

uint64_t pith_token_limit_bytes(size_t rows)
{
    return (uint64_t)rows * 2 * sizeof(double);
}

bool pith_token_limit_init(struct pith_token_limit *t, double most, size_t rows)
{
    *t = (struct pith_token_limit){.most = most};
    if (most > 0) t->squares = pith_alloc(2 * rows + 1, sizeof *t->squares);
    return most <= 0 || t->squares;
}

void pith_token_limit_free(struct pith_token_limit *t)
{
    pith_free(t->squares);
    *t = (struct pith_token_limit){0};
}

struct squaring {
    const float *x;
    size_t dim;
    double *squares;
};

static void square_row(void *ctx, size_t i, unsigned thread)
{
    const struct squaring *s = ctx;
    const float *x = s->x + i * s->dim;
    double sum[4] = {0}; /* one after the other would wait for each addition */
    (void)thread;
    for (size_t j = 0; j < s->dim; j++) sum[j % 4] += (double)x[j] * (double)x[j];
    s->squares[i] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void pith_token_limit_find(struct pith_token_limit *t, struct pith_pool *pool, const float *x,
                           size_t n, size_t dim)
{
    double *sorted = t->squares + n;
    t->length = 0;
    if (!t->squares || n < FEWEST) return;
    pith_pool_run(pool, n, square_row, &(struct squaring){x, dim, t->squares});
    memcpy(sorted, t->squares, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare);
    const double limit = t->most * sorted[n / 2];
    if (limit > 0 && sorted[n - 1] > limit) t->length = limit;
}

float pith_token_limit_of(const struct pith_token_limit *t, size_t i)
{
    const bool above = t->length > 0 && t->squares[i] > t->length;
    return above ? (float)sqrt(t->length / t->squares[i]) : 1;
}
