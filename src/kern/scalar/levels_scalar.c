/* The definition of products with rows that have levels of their own: see kern/ops.h. */
#include "kern/ops.h"

#include <math.h>

/* Code c of a row: nothing past its last byte is read. */
static unsigned code_at(const struct pith_levels *m, size_t row, size_t c)
{
    const uint8_t *stream = m->codes + row * m->stride + c * m->bits / 8;
    const unsigned shift = (unsigned)(c * m->bits % 8), mask = (1u << m->bits) - 1;
    unsigned v = (unsigned)stream[0] >> shift;
    if (shift + m->bits > 8) v |= (unsigned)stream[1] << (8 - shift);
    return v & mask;
}

void pith_levels_dot_scalar(const struct pith_levels *m, size_t rows, const float *x, float *y)
{
    for (size_t r = 0; r < rows; r++) {
        float acc[PITH_LANES] = {0};
        for (size_t c = 0; c < m->cols; c++)
            acc[c % PITH_LANES] =
                fmaf(m->level[r * 16 + code_at(m, r, c)], x[c], acc[c % PITH_LANES]);
        y[r] = pith_lanes_sum(acc);
    }
}
