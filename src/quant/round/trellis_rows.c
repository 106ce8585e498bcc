#include "quant/round/trellis_rows.h"

#include <math.h>
#include <string.h>

enum { TILE = PITH_TRELLIS_TILE, BLOCK = PITH_TRELLIS_BLOCK };

static uint32_t rows_at(const struct pith_trellis_rows *t, uint32_t first)
{
    return t->rows - first < t->block ? t->rows - first : t->block;
}

/* H_O of the rows [at, ...), which are some of the block [first, ...), to their place in it. */
static enum pith_status take_part(const struct pith_trellis_rows *t,
                                  const struct pith_trellis_felt *felt, uint32_t first, uint32_t at,
                                  struct pith_error *err)
{
    const size_t n = rows_at(t, first);
    const size_t m = t->rows - at < felt->outputs ? t->rows - at : felt->outputs;
    const float *h = felt->of.h + pith_outputs_at(t->rows, felt->outputs, at);
    float *s = t->s + pith_outputs_at(t->rows, t->block, first) + (at - first) * (n + 1);
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < m; j++) {
            double x = (double)h[i * m + j];
            if (!isfinite(x))
                return pith_fail(err, PITH_NUMERIC, "the Hessian of outputs has %g at output %zu",
                                 x, at + i);
            x *= (double)felt->scales[at + i] * (double)felt->scales[at + j];
            if (felt->of.by) x *= (double)felt->of.by[at + i] * (double)felt->of.by[at + j];
            s[i * n + j] = (float)x;
        }
    return PITH_OK;
}

struct making {
    const struct pith_trellis_rows *t;
    const struct pith_trellis_felt *felt;
};

/* H_O' of a block, to where its S will be. */
static enum pith_status take_tiles(void *ctx, uint32_t first, struct pith_error *err)
{
    const struct making *m = ctx;
    const struct pith_trellis_rows *t = m->t;
    const size_t n = rows_at(t, first);
    float *s = t->s + pith_outputs_at(t->rows, t->block, first);
    memset(s, 0, n * n * sizeof *s);
    for (uint32_t at = first; at < first + n; at += m->felt->outputs)
        PITH_TRY(take_part(t, m->felt, first, at, err));
    for (size_t j = 0; j < n; j += BLOCK) pith_trellis_across(s + j, n, n);
    for (size_t i = 0; i < n; i += BLOCK) pith_trellis_down(s + i * n, n, n);
    for (size_t i = 0; i < n * n; i++) s[i] /= BLOCK;
    return PITH_OK;
}

/* Each row reads the diagonal tiles alone, which no row's own part behind its tile touches. */
static void divide_tiles(void *ctx, uint32_t of, size_t n)
{
    const struct making *m = ctx;
    float *s = m->t->s + pith_outputs_at(m->t->rows, m->t->block, of);
    for (size_t i = 0; i < n; i++)
        for (size_t first = (i / TILE + 1) * TILE; first < n; first += TILE)
            for (size_t j = first; j < first + TILE; j++) {
                float sum = s[i * n + j];
                for (size_t k = first; k < j; k++) sum -= s[i * n + k] * s[k * n + j];
                s[i * n + j] = sum / s[j * n + j];
            }
}

enum pith_status pith_trellis_rows_make(struct pith_trellis_rows *t, struct pith_backend *be,
                                        const struct pith_trellis_felt *felt, double damp,
                                        struct pith_error *err)
{
    struct making m = {t, felt};
    const struct pith_outputs_parts parts = {t->rows, t->block, t->s, take_tiles, divide_tiles, &m};
    return pith_outputs_factor(&parts, be, damp, err);
}

void pith_trellis_rows_correct(const struct pith_trellis_rows *t, const float *missed, size_t ld,
                               uint32_t row, float correction[TILE][TILE])
{
    const uint32_t first = row / t->block * t->block;
    const size_t n = rows_at(t, first);
    const float *s = t->s + pith_outputs_at(t->rows, t->block, first) + (row - first);
    for (size_t c = 0; c < TILE; c++) {
        const float *own = missed + c * ld + first;
        for (size_t j = 0; j < TILE; j++) correction[c][j] = 0;
        for (size_t i = 0; i < row - first; i++)
            for (size_t j = 0; j < TILE; j++) correction[c][j] += own[i] * s[i * n + j];
    }
}
