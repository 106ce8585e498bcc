#include "serve/embed.h"

void pith_embedding_add(struct pith_embedding *e, const struct pith_model *m,
                        struct pith_backend *be, const float *x, size_t n)
{
    const size_t hidden = m->shape.hidden;
    for (size_t i = 0; i < n; i += PITH_HEAD_ROWS) {
        const size_t rows = n - i < PITH_HEAD_ROWS ? n - i : PITH_HEAD_ROWS;
        const float *normal = pith_model_last_norm(m, be, x + i * hidden, rows);
        for (size_t r = 0; r < rows; r++)
            for (size_t k = 0; k < hidden; k++) e->sum[k] += (double)normal[r * hidden + k];
    }
    e->rows += n;
}
