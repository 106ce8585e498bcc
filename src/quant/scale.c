#include "quant/scale.h"

#include "base/arena.h"
#include "base/mem.h"
#include "num/gguf/kmat.h"
#include "num/trellis.h"
#include "quant/grid/line.h"
#include "quant/round.h"

#include <math.h>
#include <string.h>

static size_t group_width(const struct pith_qmat *q, uint32_t group)
{
    const size_t first = (size_t)group * q->group;
    return q->cols - first < q->group ? q->cols - first : q->group;
}

static const struct pith_gridder *gridder_of(const struct pith_qmat *q)
{
    const struct pith_format *f = q->gguf ? pith_format_find(q->gguf->format) : q->format;
    const bool own = f->kind == PITH_KIND_LEVELS;
    const bool hqq = q->offsets && !q->gguf;
    return pith_gridder_for(
        &(struct pith_grid){.format = f,
                            .granularity = own ? PITH_PER_CHANNEL : PITH_PER_TENSOR,
                            .asym = hqq,
                            .hqq = hqq});
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
    const struct pith_weights x = {w, n, 1};
    pith_grid_fit(pith_gridder_for(rule->grid), rule, &x, &scale, &zero);
    q->scales[index] = scale;
    if (q->offsets) q->offsets[index] = -(zero * scale);
    else if (q->zeros) q->zeros[index] = (uint8_t)zero;
}

static void fit_blocks(const struct pith_grid_rule *rule, const struct pith_gridder *gridder,
                       const float *w, const float *weight, struct pith_qmat *q, uint32_t row)
{
    const size_t width = q->gguf->elements;
    struct pith_kblock b;
    for (uint32_t at = 0; at < q->cols / width; at++) {
        gridder->fit_block(rule, w + at * width, weight ? weight + at * width : NULL, &b);
        pith_kmat_set_scales(q, row, at, &b);
    }
}

void pith_fit_row(const struct pith_grid_rule *rule, const float *w, struct pith_qmat *q,
                  uint32_t row)
{
    const struct pith_gridder *gridder = pith_gridder_for(rule->grid);
    if (gridder->fit_block) {
        fit_blocks(rule, gridder, w, NULL, q, row);
        return;
    }
    if (gridder->scale_for) {
        pith_line_fit_row(rule, gridder->scale_for, w, q->cols, q->group,
                          &q->scales[pith_qmat_scale_index(q, row, 0)]);
        return;
    }
    struct pith_grid_rule part = *rule;
    for (uint32_t g = 0; g < q->groups; g++) {
        const size_t first = (size_t)g * q->group;
        if (rule->weight) part.weight = rule->weight + first;
        fit_one(&part, w + first, group_width(q, g), q, pith_qmat_scale_index(q, row, g));
    }
}

/* Rows that share the scales of `row`, from it on. */
static uint32_t band_rows(const struct pith_qmat *q, uint32_t row)
{
    return q->rows - row < q->row_group ? q->rows - row : q->row_group;
}

void pith_fit_band(const struct pith_grid_rule *rule, const float *w, struct pith_qmat *q,
                   uint32_t row, float *tile)
{
    const uint32_t rows = band_rows(q, row);
    for (uint32_t g = 0; g < q->groups; g++) {
        const size_t n = group_width(q, g);
        for (uint32_t r = 0; r < rows; r++)
            memcpy(tile + r * n, w + (size_t)r * q->cols + (size_t)g * q->group, n * sizeof *tile);
        fit_one(rule, tile, rows * n, q, pith_qmat_scale_index(q, row, g));
    }
}

void pith_fit_range(const struct pith_grid_rule *rule, float lo, float hi, struct pith_qmat *q)
{
    const float ends[] = {lo, hi};
    fit_one(rule, ends, PITH_COUNT(ends), q, 0);
}

enum pith_fit_scope pith_fit_scope(const struct pith_grid *grid)
{
    const bool searched = grid->mse || grid->hqq;
    if (grid->format->kind == PITH_KIND_LEVELS || pith_trellis_is(grid->format))
        return PITH_FIT_MATRIX;
    if (grid->granularity == PITH_PER_TENSOR) return searched ? PITH_FIT_MATRIX : PITH_FIT_RANGE;
    if (grid->double_quant) return PITH_FIT_ALL;
    return pith_round_global(grid, 1.0f) != 1.0f ? PITH_FIT_RANGE : PITH_FIT_ROWS;
}

struct fit_job {
    struct pith_grid_rule rule;
    const float *w, *weight; /* weight NULL: all alike */
    struct pith_qmat *q;
    float *tiles; /* [threads][tile] */
    size_t tile;
};

static void fit_row(void *ctx, size_t row, unsigned thread)
{
    const struct fit_job *j = ctx;
    (void)thread;
    const struct pith_gridder *gridder = pith_gridder_for(j->rule.grid);
    const float *w = j->w + row * j->q->cols;
    if (gridder->fit_block) fit_blocks(&j->rule, gridder, w, j->weight, j->q, (uint32_t)row);
    else pith_fit_row(&j->rule, w, j->q, (uint32_t)row);
}

static void fit_band(void *ctx, size_t band, unsigned thread)
{
    const struct fit_job *j = ctx;
    const size_t row = band * j->q->row_group;
    pith_fit_band(&j->rule, j->w + row * j->q->cols, j->q, (uint32_t)row,
                  j->tiles + thread * j->tile);
}

static enum pith_status fit_bands(struct pith_pool *pool, struct fit_job *j, struct pith_error *err)
{
    j->tile = pith_fit_tile(j->q);
    j->tiles = pith_alloc(pith_pool_threads(pool) * j->tile, sizeof *j->tiles);
    if (!j->tiles) return pith_fail_nomem(err, "the scales of blocks");
    pith_pool_run(pool, pith_qmat_scale_rows(j->q), fit_band, j);
    pith_free(j->tiles);
    return PITH_OK;
}

enum pith_status pith_check_row_scales(const struct pith_qmat *q, uint32_t first, uint32_t rows,
                                       struct pith_error *err)
{
    for (size_t r = first; r < (size_t)first + rows; r++)
        for (uint32_t g = 0; g < q->groups; g++)
            if (!isfinite(q->scales[r * q->groups + g]) ||
                (q->offsets && !isfinite(q->offsets[r * q->groups + g])))
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
    return pith_fit_scales_for(b, grid, w, NULL, q, err);
}

enum pith_status pith_fit_scales_for(struct pith_backend *b, const struct pith_grid *grid,
                                     const float *w, const float *weight, struct pith_qmat *q,
                                     struct pith_error *err)
{
    struct fit_job j = {
        .rule = {kern_of(b), grid, q->scale_dtype, q->global, q->row_group == 1 ? weight : NULL},
        .w = w,
        .weight = weight,
        .q = q};
    enum pith_status s = PITH_OK;
    const struct pith_gridder *gridder = pith_gridder_for(grid);
    if (!gridder || gridder->whole) {
        char text[PITH_GRID_TEXT];
        pith_grid_format(grid, text);
        return pith_fail(err, PITH_UNSUPPORTED, "%s cannot be put on the grid %s",
                         gridder ? "single weights" : "weights", text);
    }
    if (q->levels) return pith_fit_levels(b, &(struct pith_level_rule){0}, w, q, err);
    if (pith_qmat_per_tensor(q)) fit_one(&j.rule, w, (size_t)q->rows * q->cols, q, 0);
    else if (q->row_group > 1) s = fit_bands(pool_of(b), &j, err);
    else pith_pool_run(pool_of(b), q->rows, fit_row, &j);
    if (s == PITH_OK) s = pith_check_scales(q, err);
    return s == PITH_OK && grid->double_quant ? pith_qmat_nest_scales(q, err) : s;
}

static const float *levels_of(const struct pith_qmat *q, uint32_t row)
{
    return q->levels ? q->levels + ((size_t)row << q->format->bits) : NULL;
}

void pith_quantize_row(const struct pith_kern *k, const struct pith_qmat *q, uint32_t row,
                       const float *w, uint8_t *codes, float *values)
{
    const struct pith_gridder *gridder = gridder_of(q);
    if (gridder->scale_for) { /* no zero points: all groups at once */
        const struct pith_grid_line line = {.kern = k,
                                            .n = q->cols,
                                            .w = w,
                                            .scale = &q->scales[pith_qmat_scale_index(q, row, 0)],
                                            .step = 1,
                                            .run = q->group,
                                            .codes = codes,
                                            .values = values};
        gridder->quantize(q->format, &line);
        return;
    }
    for (uint32_t group = 0; group < q->groups; group++) {
        const size_t index = pith_qmat_scale_index(q, row, group), first = (size_t)group * q->group;
        const float zero = pith_qmat_zero(q, index);
        const struct pith_grid_line line = {.kern = k,
                                            .n = group_width(q, group),
                                            .w = w + first,
                                            .scale = &q->scales[index],
                                            .zero = &zero,
                                            .offset = q->offsets ? &q->offsets[index] : NULL,
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
    const struct pith_weights all = {w, (size_t)rows * cols, 1};
    const bool ranged = pith_round_global(grid, 1.0f) != 1.0f;
    const float most = ranged ? pith_weights_most(kern_of(b), &all) : 0.0f;
    return pith_pseudo_quantize_within(b, grid, scale_dtype, pith_round_global(grid, most), rows,
                                       cols, w, err);
}

enum pith_status pith_pseudo_quantize_within(struct pith_backend *b, const struct pith_grid *grid,
                                             enum pith_dtype scale_dtype, float global,
                                             uint32_t rows, uint32_t cols, float *w,
                                             struct pith_error *err)
{
    struct pith_qmat q;
    PITH_TRY(pith_qmat_init(&q, rows, cols, grid, scale_dtype, err));
    q.global = global;
    const enum pith_status s = pith_fit_scales(b, grid, w, &q, err);
    if (s == PITH_OK) {
        struct pseudo_job j = {kern_of(b), &q, w};
        pith_pool_run(pool_of(b), rows, pseudo_row, &j);
    }
    pith_qmat_free(&q);
    return s;
}

uint64_t pith_pseudo_quantize_bytes(const struct pith_backend *b, const struct pith_grid *grid,
                                    enum pith_dtype scale_dtype, uint32_t rows, uint32_t cols)
{
    const struct pith_qspec q = {
        .rows = rows, .cols = cols, .grid = *grid, .scale_dtype = scale_dtype};
    if (!grid->format) return 0;
    return pith_sum_bytes(pith_qspec_bytes(&q),
                          pith_fit_levels_scratch(grid, cols, pith_pool_threads(pool_of(b))));
}
