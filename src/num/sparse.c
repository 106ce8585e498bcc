/* Weights off the grid, and how inputs compare: the lesser parts of a quantized matrix. */
#include "num/qmat.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

size_t pith_sparse_count(uint32_t rows, uint32_t cols, double percent)
{
    const double all = (double)rows * cols, count = floor(all * percent / 100.0 + 0.5);
    return (size_t)(count < all ? count : all);
}

size_t pith_sparse_bytes(uint32_t rows, size_t count)
{
    return ((size_t)rows + 1) * sizeof(uint32_t) + count * (sizeof(uint32_t) + sizeof(float));
}

struct pith_sparse *pith_sparse_new(uint32_t rows, size_t count)
{
    if (count > UINT32_MAX) return NULL;
    struct pith_sparse *s = pith_zalloc(sizeof *s + pith_sparse_bytes(rows, count), 1);
    if (!s) return NULL;
    s->start = (uint32_t *)(void *)(s + 1);
    s->col = s->start + rows + 1;
    s->value = (float *)(void *)(s->col + count);
    return s;
}

void pith_sparse_free(struct pith_sparse *s)
{
    pith_free(s);
}

bool pith_sparse_equal(const struct pith_sparse *a, const struct pith_sparse *b, uint32_t rows)
{
    if (!a || !b) return a == b;
    const size_t count = a->start[rows];
    return memcmp(a->start, b->start, ((size_t)rows + 1) * sizeof *a->start) == 0 &&
           memcmp(a->col, b->col, count * sizeof *a->col) == 0 &&
           memcmp(a->value, b->value, count * sizeof *a->value) == 0;
}

enum pith_status pith_sparse_check(const struct pith_sparse *s, uint32_t rows, uint32_t cols,
                                   struct pith_error *err)
{
    for (uint32_t r = 0; r < rows; r++) {
        if (s->start[r] > s->start[r + 1] || s->start[r + 1] > s->start[rows])
            return pith_fail(err, PITH_FORMAT, "the sparse weights of row %u end before they begin",
                             (unsigned)r);
        for (uint32_t i = s->start[r]; i < s->start[r + 1]; i++) {
            if (s->col[i] >= cols || (i > s->start[r] && s->col[i] <= s->col[i - 1]))
                return pith_fail(err, PITH_FORMAT,
                                 "row %u: column %u of a sparse weight is out of range or order",
                                 (unsigned)r, (unsigned)s->col[i]);
            if (!isfinite(s->value[i]))
                return pith_fail(err, PITH_FORMAT, "row %u: a sparse weight is not finite",
                                 (unsigned)r);
        }
    }
    return PITH_OK;
}

bool pith_input_equal(const struct pith_input *a, const struct pith_input *b)
{
    const struct pith_grid *x = &a->grid, *y = &b->grid;
    return x->format == y->format && x->granularity == y->granularity && x->group == y->group &&
           x->asym == y->asym && x->is_static == y->is_static &&
           memcmp(&a->scale, &b->scale, sizeof a->scale) == 0 &&
           memcmp(&a->zero, &b->zero, sizeof a->zero) == 0 &&
           memcmp(&a->threshold, &b->threshold, sizeof a->threshold) == 0 &&
           a->hadamard == b->hadamard &&
           (!x->format || (a->rule == b->rule && a->scale_dtype == b->scale_dtype));
}
