#include "quant/scale.h"

#include "base/mem.h"

#include <math.h>

static size_t group_width(const struct pith_qmat *q, uint32_t group)
{
    const size_t first = (size_t)group * q->group;
    return q->cols - first < q->group ? q->cols - first : q->group;
}

static float zero_of(const struct pith_qmat *q, size_t index)
{
    return q->zeros ? (float)q->zeros[index] : (float)(1u << (q->format->bits - 1));
}

struct fit_job {
    const struct pith_gridder *gridder;
    const struct pith_grid *grid;
    const float *w;
    struct pith_qmat *q;
};

static void fit_one(const struct fit_job *j, const float *w, size_t n, size_t index)
{
    float scale, zero;
    j->gridder->fit(j->grid, j->q->scale_dtype, w, n, 1, &scale, &zero);
    j->q->scales[index] = scale;
    if (j->q->zeros) j->q->zeros[index] = (uint8_t)zero;
}

static void fit_row(void *ctx, size_t row, unsigned thread)
{
    const struct fit_job *j = ctx;
    (void)thread;
    const float *w = j->w + row * j->q->cols;
    for (uint32_t g = 0; g < j->q->groups; g++)
        fit_one(j, w + (size_t)g * j->q->group, group_width(j->q, g),
                pith_qmat_scale_index(j->q, (uint32_t)row, g));
}

enum pith_status pith_check_scales(const struct pith_qmat *q, struct pith_error *err)
{
    const size_t rows = q->per_tensor ? 1 : q->rows;
    for (size_t r = 0; r < rows; r++)
        for (uint32_t g = 0; g < q->groups; g++)
            if (!isfinite(q->scales[r * q->groups + g]))
                return pith_fail(
                    err, PITH_NUMERIC,
                    "row %zu, group %u: the weights are not finite, or too large for a scale "
                    "stored as %s",
                    r, g, pith_dtype_name(q->scale_dtype));
    return PITH_OK;
}

enum pith_status pith_fit_scales(struct pith_pool *pool, const struct pith_grid *grid,
                                 const float *w, struct pith_qmat *q, struct pith_error *err)
{
    struct fit_job j = {pith_gridder_for(grid), grid, w, q};
    if (!j.gridder) {
        char text[PITH_GRID_TEXT];
        pith_grid_format(grid, text);
        return pith_fail(err, PITH_UNSUPPORTED, "weights cannot be put on the grid %s", text);
    }
    if (q->per_tensor) fit_one(&j, w, (size_t)q->rows * q->cols, 0);
    else pith_pool_run(pool, q->rows, fit_row, &j);
    return pith_check_scales(q, err);
}

void pith_quantize_row(const struct pith_gridder *g, const struct pith_qmat *q, uint32_t row,
                       const float *w, uint8_t *codes, float *values)
{
    for (uint32_t group = 0; group < q->groups; group++) {
        const size_t index = pith_qmat_scale_index(q, row, group), first = (size_t)group * q->group;
        const float zero = zero_of(q, index);
        const struct pith_grid_line line = {.n = group_width(q, group),
                                            .w = w + first,
                                            .scale = &q->scales[index],
                                            .zero = &zero,
                                            .codes = codes ? codes + first : NULL,
                                            .values = values ? values + first : NULL};
        g->quantize(q->format, &line);
    }
}

struct pseudo_job {
    const struct pith_gridder *gridder;
    const struct pith_qmat *q;
    float *w;
};

static void pseudo_row(void *ctx, size_t row, unsigned thread)
{
    const struct pseudo_job *j = ctx;
    (void)thread;
    float *w = j->w + row * j->q->cols;
    pith_quantize_row(j->gridder, j->q, (uint32_t)row, w, NULL, w);
}

enum pith_status pith_pseudo_quantize(struct pith_pool *pool, const struct pith_grid *grid,
                                      enum pith_dtype scale_dtype, uint32_t rows, uint32_t cols,
                                      float *w, struct pith_error *err)
{
    struct pith_qmat q;
    PITH_TRY(pith_qmat_init(&q, rows, cols, grid, scale_dtype, err));
    const enum pith_status s = pith_fit_scales(pool, grid, w, &q, err);
    if (s == PITH_OK) {
        struct pseudo_job j = {pith_gridder_for(grid), &q, w};
        pith_pool_run(pool, rows, pseudo_row, &j);
    }
    pith_qmat_free(&q);
    return s;
}
