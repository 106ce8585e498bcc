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

static const struct pith_gridder *gridder_of(const struct pith_format *format)
{
    const bool own = format->kind == PITH_KIND_LEVELS;
    return pith_gridder_for(&(struct pith_grid){
        .format = format, .granularity = own ? PITH_PER_CHANNEL : PITH_PER_TENSOR});
}

static const struct pith_kern *kern_of(const struct pith_backend *b)
{
    return b ? pith_backend_kern(b) : NULL;
}

static struct pith_pool *pool_of(const struct pith_backend *b)
{
    return b ? pith_backend_pool(b) : NULL;
}

static void fit_one(const struct pith_grid_rule *rule, const float *w, size_t n,
                    struct pith_qmat *q, size_t index)
{
    float scale, zero;
    pith_gridder_for(rule->grid)->fit(rule, w, n, 1, &scale, &zero);
    q->scales[index] = scale;
    if (q->zeros) q->zeros[index] = (uint8_t)zero;
}

void pith_fit_row(const struct pith_grid_rule *rule, const float *w, struct pith_qmat *q,
                  uint32_t row)
{
    for (uint32_t g = 0; g < q->groups; g++)
        fit_one(rule, w + (size_t)g * q->group, group_width(q, g), q,
                pith_qmat_scale_index(q, row, g));
}

struct fit_job {
    struct pith_grid_rule rule;
    const float *w;
    struct pith_qmat *q;
};

static void fit_row(void *ctx, size_t row, unsigned thread)
{
    const struct fit_job *j = ctx;
    (void)thread;
    pith_fit_row(&j->rule, j->w + row * j->q->cols, j->q, (uint32_t)row);
}

enum pith_status pith_check_row_scales(const struct pith_qmat *q, uint32_t first, uint32_t rows,
                                       struct pith_error *err)
{
    for (size_t r = first; r < (size_t)first + rows; r++)
        for (uint32_t g = 0; g < q->groups; g++)
            if (!isfinite(q->scales[r * q->groups + g]))
                return pith_fail(
                    err, PITH_NUMERIC,
                    "row %zu, group %u: the weights are not finite, or too large for a scale "
                    "stored as %s",
                    r, g, pith_dtype_name(q->scale_dtype));
    return PITH_OK;
}

enum pith_status pith_check_scales(const struct pith_qmat *q, struct pith_error *err)
{
    return pith_check_row_scales(q, 0, pith_qmat_scale_rows(q), err);
}

enum pith_status pith_fit_scales(struct pith_backend *b, const struct pith_grid *grid,
                                 const float *w, struct pith_qmat *q, struct pith_error *err)
{
    struct fit_job j = {{kern_of(b), grid, q->scale_dtype, q->global}, w, q};
    if (!pith_gridder_for(grid)) {
        char text[PITH_GRID_TEXT];
        pith_grid_format(grid, text);
        return pith_fail(err, PITH_UNSUPPORTED, "weights cannot be put on the grid %s", text);
    }
    if (q->levels) return pith_fit_levels(b, &(struct pith_level_rule){0}, w, q, err);
    if (pith_qmat_per_tensor(q)) fit_one(&j.rule, w, (size_t)q->rows * q->cols, q, 0);
    else pith_pool_run(pool_of(b), q->rows, fit_row, &j);
    PITH_TRY(pith_check_scales(q, err));
    return grid->double_quant ? pith_qmat_nest_scales(q, err) : PITH_OK;
}

static const float *levels_of(const struct pith_qmat *q, uint32_t row)
{
    return q->levels ? q->levels + ((size_t)row << q->format->bits) : NULL;
}

void pith_quantize_row(const struct pith_kern *k, const struct pith_qmat *q, uint32_t row,
                       const float *w, uint8_t *codes, float *values)
{
    const struct pith_gridder *gridder = gridder_of(q->format);
    for (uint32_t group = 0; group < q->groups; group++) {
        const size_t index = pith_qmat_scale_index(q, row, group), first = (size_t)group * q->group;
        const float zero = zero_of(q, index);
        const struct pith_grid_line line = {.kern = k,
                                            .n = group_width(q, group),
                                            .w = w + first,
                                            .scale = &q->scales[index],
                                            .zero = &zero,
                                            .levels = levels_of(q, row),
                                            .codes = codes ? codes + first : NULL,
                                            .values = values ? values + first : NULL};
        gridder->quantize(q->format, &line);
    }
}

struct pseudo_job {
    const struct pith_kern *kern;
    const struct pith_qmat *q;
    float *w;
};

static void pseudo_row(void *ctx, size_t row, unsigned thread)
{
    const struct pseudo_job *j = ctx;
    (void)thread;
    float *w = j->w + row * j->q->cols;
    pith_quantize_row(j->kern, j->q, (uint32_t)row, w, NULL, w);
}

enum pith_status pith_pseudo_quantize(struct pith_backend *b, const struct pith_grid *grid,
                                      enum pith_dtype scale_dtype, uint32_t rows, uint32_t cols,
                                      float *w, struct pith_error *err)
{
    struct pith_qmat q;
    PITH_TRY(pith_qmat_init(&q, rows, cols, grid, scale_dtype, err));
    const enum pith_status s = pith_fit_scales(b, grid, w, &q, err);
    if (s == PITH_OK) {
        struct pseudo_job j = {kern_of(b), &q, w};
        pith_pool_run(pool_of(b), rows, pseudo_row, &j);
    }
    pith_qmat_free(&q);
    return s;
}
