#include "quant/round/trellis_rows.h"

#include <math.h>
#include <string.h>

enum { TILE = PITH_TRELLIS_TILE, BLOCK = PITH_TRELLIS_BLOCK };
static const double DAMP_FIRST = 1e-6, DAMP_LIMIT = 10.0;

static uint32_t rows_of(const struct pith_trellis_rows *t, uint32_t first)
{
    return t->rows - first < t->block ? t->rows - first : t->block;
}

/* H_O of the rows [at, ...), which are some of the block [first, ...), to their place in it. */
static enum pith_status take_part(const struct pith_trellis_rows *t,
                                  const struct pith_trellis_felt *felt, uint32_t first, uint32_t at,
                                  struct pith_error *err)
{
    const size_t n = rows_of(t, first);
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

/* H_O' of a block, to where its S will be. */
static enum pith_status take_block(const struct pith_trellis_rows *t,
                                   const struct pith_trellis_felt *felt, uint32_t first,
                                   struct pith_error *err)
{
    const size_t n = rows_of(t, first);
    float *s = t->s + pith_outputs_at(t->rows, t->block, first);
    memset(s, 0, n * n * sizeof *s);
    for (uint32_t at = first; at < first + n; at += felt->outputs)
        PITH_TRY(take_part(t, felt, first, at, err));
    for (size_t j = 0; j < n; j += BLOCK) pith_trellis_across(s + j, n, n);
    for (size_t i = 0; i < n; i += BLOCK) pith_trellis_down(s + i * n, n, n);
    for (size_t i = 0; i < n * n; i++) s[i] /= BLOCK;
    return PITH_OK;
}

static enum pith_status find_mean(const struct pith_trellis_rows *t,
                                  const struct pith_trellis_felt *felt, double *mean,
                                  struct pith_error *err)
{
    *mean = 0;
    for (uint32_t first = 0; first < t->rows; first += t->block) {
        const size_t n = rows_of(t, first);
        const float *s = t->s + pith_outputs_at(t->rows, t->block, first);
        PITH_TRY(take_block(t, felt, first, err));
        for (size_t i = 0; i < n; i++) *mean += (double)s[i * (n + 1)];
    }
    *mean /= t->rows;
    return PITH_OK;
}

/* Each row reads the diagonal tiles alone, which no row's own part behind its tile touches. */
static void normalise(float *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t first = (i / TILE + 1) * TILE; first < n; first += TILE)
            for (size_t j = first; j < first + TILE; j++) {
                float sum = s[i * n + j];
                for (size_t k = first; k < j; k++) sum -= s[i * n + k] * s[k * n + j];
                s[i * n + j] = sum / s[j * n + j];
            }
}

static enum pith_status factor_block(const struct pith_trellis_rows *t, struct pith_backend *be,
                                     uint32_t first, double by, double damp)
{
    const size_t n = rows_of(t, first);
    float *s = t->s + pith_outputs_at(t->rows, t->block, first);
    for (size_t i = 0; i < n * n; i++) s[i] = (float)((double)s[i] * by);
    for (size_t i = 0; i < n; i++) s[i * (n + 1)] = (float)((double)s[i * (n + 1)] + damp);
    PITH_TRY(pith_cholesky_upper(be, s, n, NULL, NULL));
    normalise(s, n);
    return PITH_OK;
}

enum pith_status pith_trellis_rows_make(struct pith_trellis_rows *t, struct pith_backend *be,
                                        const struct pith_trellis_felt *felt, double damp,
                                        struct pith_error *err)
{
    double mean;
    PITH_TRY(find_mean(t, felt, &mean, err));
    const double by = mean > 0 ? 1 / mean : 0;
    for (uint32_t first = 0; first < t->rows; first += t->block)
        for (double more = mean > 0 ? damp : 1;;) {
            PITH_TRY(take_block(t, felt, first, err));
            const enum pith_status s = factor_block(t, be, first, by, more);
            if (s == PITH_OK) break;
            if (s != PITH_NUMERIC) return pith_fail(err, s, "cannot factor the outputs' Hessian");
            more = more > 0 ? more * 10 : DAMP_FIRST;
            if (more > DAMP_LIMIT)
                return pith_fail(err, s, "the Hessian of outputs from %u on stays singular", first);
        }
    return PITH_OK;
}

void pith_trellis_rows_ask(const struct pith_trellis_rows *t, const float *missed, size_t ld,
                           uint32_t row, float asked[TILE][TILE])
{
    const uint32_t first = row / t->block * t->block;
    const size_t n = rows_of(t, first);
    const float *s = t->s + pith_outputs_at(t->rows, t->block, first) + (row - first);
    for (size_t c = 0; c < TILE; c++) {
        const float *own = missed + c * ld + first;
        for (size_t j = 0; j < TILE; j++) asked[c][j] = 0;
        for (size_t i = 0; i < row - first; i++)
            for (size_t j = 0; j < TILE; j++) asked[c][j] += own[i] * s[i * n + j];
    }
}
