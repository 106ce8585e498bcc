/* Few rows of x times a matrix whose rows have levels of their own (SqueezeLLM), as it is stored,
 * and the weights that were kept off the grid. */
#include "backend/parts.h"

bool pith_levels_fit(const struct pith_qmat *q)
{
    const bool bits = q->format->bits == 3 || q->format->bits == 4;
    return q->levels && bits && q->groups == 1 && !q->g_idx && !q->offsets;
}

/* The levels of rows [row, row + count), sixteen a row: where they are, or in `to`. */
static const float *load_levels(const struct pith_qmat *q, size_t row, size_t count, float *to)
{
    const unsigned bits = q->format->bits;
    bool as_stored = bits == 4;
    for (size_t r = row; r < row + count; r++)
        as_stored &= q->scales[pith_qmat_scale_index(q, (uint32_t)r, 0)] == 1.0f;
    if (as_stored) return q->levels + (row << bits);
    for (size_t r = 0; r < count; r++) {
        const float scale = q->scales[pith_qmat_scale_index(q, (uint32_t)(row + r), 0)];
        const float *from = q->levels + ((row + r) << bits);
        for (size_t i = 0; i < 16; i++) to[r * 16 + i] = from[i & ((1u << bits) - 1)] * scale;
    }
    return to;
}

/* Row r of the sparse part times x. */
static float sparse_dot(const struct pith_sparse *p, size_t r, const float *x)
{
    float s = 0.0f;
    for (uint32_t i = p->start[r]; i < p->start[r + 1]; i++) s += p->value[i] * x[p->col[i]];
    return s;
}

void pith_levels_rows(const struct pith_kern *k, const struct pith_qmat *q, size_t row,
                      size_t count, const float *x, float *y)
{
    enum { PART = 16 };
    float level[PART * 16];
    for (size_t done = 0; done < count; done += PART) {
        const size_t n = pith_min(PART, count - done), at = row + done;
        const struct pith_levels m = {.bits = q->format->bits,
                                      .cols = q->cols,
                                      .stride = q->stride,
                                      .codes = q->codes + at * q->stride,
                                      .level = load_levels(q, at, n, level)};
        k->levels_dot(&m, n, x, y + done);
        for (size_t r = 0; q->sparse && r < n; r++) y[done + r] += sparse_dot(q->sparse, at + r, x);
    }
}
