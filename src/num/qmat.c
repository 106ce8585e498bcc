#include "num/qmat.h"

#include "base/mem.h"
#include "num/codebook.h"
#include "num/kquant.h"

#include <math.h>
#include <string.h>

/* What a matrix of some shape and grid takes. */
struct layout {
    uint32_t group, groups, row_group;
    size_t stride, code_bytes, scale_count, zero_bytes, offset_count, outer_count, level_count;
    size_t total;
};

/* The type of GGUF that a grid names, or NULL. */
static const struct pith_kquant *gguf_of(const struct pith_grid *grid)
{
    const struct pith_format *f = grid->format;
    return f && f->kind == PITH_KIND_GGUF ? pith_kquant_find(f->name) : NULL;
}

/* False when a size does not fit. */
static bool lay_out(uint32_t rows, uint32_t cols, const struct pith_grid *grid,
                    const struct pith_kquant *gguf, struct layout *l)
{
    const bool block = grid->granularity == PITH_PER_BLOCK;
    const bool grouped = (block || grid->granularity == PITH_PER_GROUP) && grid->group != 0;
    l->group = grouped ? grid->group : cols;
    l->row_group = grid->granularity == PITH_PER_TENSOR ? PITH_ALL_ROWS : block ? grid->group : 1;
    l->groups = (uint32_t)(((uint64_t)cols + l->group - 1) / l->group);
    const struct pith_format *f = grid->format;
    const uint64_t stride = (pith_codec_codes(f->codec, cols) * f->bits + 7) / 8;
    l->stride = (size_t)stride;
    if (l->stride != stride || !pith_mul_size(rows, l->stride, &l->code_bytes)) return false;
    if (!pith_mul_size((rows - 1) / l->row_group + 1, l->groups, &l->scale_count)) return false;
    l->zero_bytes = grid->asym ? l->scale_count : 0;
    l->offset_count = grid->hqq || (gguf && gguf->minimums) ? l->scale_count : 0;
    /* At most two for a block, which has at least eight scales. */
    l->outer_count = gguf && gguf->scale_most ? (size_t)rows * (cols / gguf->elements) * 2 : 0;
    l->level_count = (size_t)pith_codec_floats(f->codec, f->bits, rows);
    size_t floats;
    return pith_add_size(l->scale_count, l->offset_count, &floats) &&
           pith_add_size(floats, l->outer_count, &floats) &&
           pith_add_size(floats, l->level_count, &floats) &&
           pith_mul_size(floats, sizeof(float), &l->total) &&
           pith_add_size(l->total, l->zero_bytes, &l->total) &&
           pith_add_size(l->total, l->code_bytes, &l->total) && l->total <= SIZE_MAX / 2;
}

static enum pith_status check_grid(const struct pith_grid *grid, struct pith_error *err)
{
    const struct pith_format *f = grid->format;
    if (!f || !f->codec)
        return pith_fail(err, PITH_ARG, "%s has no codes of at most 8 bits: no quantized matrix",
                         f ? f->name : "none");
    if (grid->granularity == PITH_PER_TOKEN)
        return pith_fail(err, PITH_ARG, "the scales of weights cannot be by token");
    if (grid->granularity == PITH_PER_BLOCK && grid->group == 0)
        return pith_fail(err, PITH_ARG, "blocks of scales have no size");
    if (grid->asym && f->kind != PITH_KIND_INT)
        return pith_fail(err, PITH_ARG, "%s has no zero point: only integer formats can be asym",
                         f->name);
    return PITH_OK;
}

enum pith_status pith_qmat_init(struct pith_qmat *q, uint32_t rows, uint32_t cols,
                                const struct pith_grid *grid, enum pith_dtype scale_dtype,
                                struct pith_error *err)
{
    const struct pith_grid elements = pith_grid_elements(grid, &scale_dtype);
    *q = (struct pith_qmat){0};
    PITH_TRY(check_grid(&elements, err));
    const struct pith_kquant *gguf = gguf_of(grid);
    if (gguf && cols % gguf->elements != 0)
        return pith_fail(err, PITH_ARG, "%s needs rows of a multiple of %u weights, not %u",
                         gguf->name, (unsigned)gguf->elements, (unsigned)cols);
    struct layout l;
    if (rows == 0 || cols == 0 || !lay_out(rows, cols, &elements, gguf, &l))
        return pith_fail(err, PITH_ARG, "a quantized matrix cannot have %u x %u elements",
                         (unsigned)rows, (unsigned)cols);
    if ((unsigned)scale_dtype >= PITH_DTYPE_COUNT)
        return pith_fail(err, PITH_ARG, "unknown dtype of scales");
    q->rows = rows;
    q->cols = cols;
    q->format = elements.format;
    q->row_group = l.row_group;
    q->group = l.group;
    q->groups = l.groups;
    q->stride = l.stride;
    q->scale_dtype = scale_dtype;
    q->global = 1.0f;
    q->gguf = gguf;
    q->codes = pith_zalloc(l.code_bytes, 1);
    q->scales = pith_zalloc(l.scale_count, sizeof *q->scales);
    if (l.zero_bytes) q->zeros = pith_zalloc(l.zero_bytes, 1);
    if (l.offset_count) q->offsets = pith_zalloc(l.offset_count, sizeof *q->offsets);
    if (l.outer_count) q->outer = pith_zalloc(l.outer_count, sizeof *q->outer);
    if (l.level_count) q->levels = pith_zalloc(l.level_count, sizeof *q->levels);
    if (!q->codes || !q->scales || (l.zero_bytes && !q->zeros) || (l.offset_count && !q->offsets) ||
        (l.outer_count && !q->outer) || (l.level_count && !q->levels)) {
        pith_qmat_free(q);
        return pith_fail_nomem(err, "a quantized matrix");
    }
    return PITH_OK;
}

void pith_qmat_borrow(struct pith_qmat *q, const uint8_t *codes)
{
    if (!q->borrowed) pith_free(q->codes);
    q->codes = (uint8_t *)(uintptr_t)codes;
    q->borrowed = true;
}

enum pith_status pith_qmat_state_zeros(struct pith_qmat *q, struct pith_error *err)
{
    const size_t count = pith_qmat_scale_count(q);
    if (q->zeros || q->offsets || q->format->kind != PITH_KIND_INT) return PITH_OK;
    q->zeros = pith_alloc(count, 1);
    if (!q->zeros) return pith_fail_nomem(err, "zero points");
    memset(q->zeros, (int)pith_format_middle(q->format), count);
    return PITH_OK;
}

void pith_qmat_free(struct pith_qmat *q)
{
    if (!q->borrowed) pith_free(q->codes);
    pith_free(q->scales);
    pith_free(q->zeros);
    pith_free(q->g_idx);
    pith_free(q->offsets);
    pith_free(q->outer);
    pith_free(q->levels);
    pith_sparse_free(q->sparse);
    pith_free(q->nested);
    *q = (struct pith_qmat){0};
}

size_t pith_qmat_bytes(uint32_t rows, uint32_t cols, const struct pith_grid *grid)
{
    const struct pith_grid elements = pith_grid_elements(grid, NULL);
    struct layout l;
    if (!elements.format || !elements.format->codec || rows == 0 || cols == 0) return 0;
    if (!lay_out(rows, cols, &elements, gguf_of(grid), &l)) return SIZE_MAX;
    const size_t runs = l.scale_count / PITH_DOUBLE_QUANT_BLOCK + 1;
    const size_t nested = grid->double_quant ? l.scale_count + runs * sizeof(float) : 0;
    return pith_add_size(l.total, nested, &l.total) ? l.total : SIZE_MAX;
}

void pith_qmat_get_codes(const struct pith_qmat *q, uint32_t row, uint8_t *codes)
{
    pith_bits_get(q->codes + row * q->stride, 0, q->format->bits, pith_qmat_codes(q), codes);
}

void pith_qmat_set_codes(struct pith_qmat *q, uint32_t row, const uint8_t *codes)
{
    pith_bits_put(q->codes + row * q->stride, 0, q->format->bits, pith_qmat_codes(q), codes);
}

/* The block format of such elements and scales; the elements' own when there is none. */
static const struct pith_format *block_format(const struct pith_qmat *q)
{
    size_t count;
    const struct pith_format *f = pith_formats(&count);
    for (size_t i = 0; i < count; i++) {
        if (f[i].kind != PITH_KIND_BLOCK || f[i].block != q->group) continue;
        enum pith_dtype scales = q->scale_dtype;
        const struct pith_grid grid = {.format = &f[i]};
        const struct pith_grid elements = pith_grid_elements(&grid, &scales);
        if (elements.format == q->format && scales == q->scale_dtype) return &f[i];
    }
    return q->format;
}

struct pith_grid pith_qmat_grid(const struct pith_qmat *q)
{
    struct pith_grid grid = {
        .format = q->format, .asym = q->zeros != NULL, .double_quant = q->nested != NULL};
    grid.hqq = q->offsets != NULL;
    if (q->gguf)
        return (struct pith_grid){.format = pith_format_find(q->gguf->format),
                                  .granularity = PITH_PER_GROUP,
                                  .group = q->group};
    if (pith_qmat_per_tensor(q)) {
        grid.granularity = PITH_PER_TENSOR;
    } else if (q->row_group > 1) {
        grid.granularity = PITH_PER_BLOCK;
        grid.group = q->group;
    } else if (q->scale_dtype == PITH_F8_E8M0 || q->scale_dtype == PITH_F8_E4M3) {
        grid.format = block_format(q); /* one block may be a whole row */
        grid.granularity = PITH_PER_GROUP;
        grid.group = q->group;
    } else if (q->groups > 1) {
        grid.granularity = PITH_PER_GROUP;
        grid.group = q->group;
    } else {
        grid.granularity = PITH_PER_CHANNEL;
    }
    return grid;
}

double pith_qmat_bits_per_weight(const struct pith_qmat *q)
{
    const double weights = (double)q->rows * q->cols;
    if (q->gguf) return 8.0 * q->gguf->bytes / q->gguf->elements;
    const double scales = (double)pith_qmat_scale_count(q);
    const unsigned width = pith_dtype_bits(q->scale_dtype);
    double bits = (double)q->rows * pith_qmat_codes(q) * q->format->bits + scales * width;
    if (q->nested) bits += scales * (8.0 + 32.0 / PITH_DOUBLE_QUANT_BLOCK - width);
    if (q->offsets) bits += scales * width;
    else if (q->zeros) bits += scales * q->format->bits;
    if (q->g_idx) bits += 32.0 * q->cols;
    bits += 16.0 * (double)pith_qmat_level_count(q);
    if (q->format->codec->table == PITH_TABLE_ROWS) bits -= scales * width; /* all are 1 */
    if (q->sparse) bits += 48.0 * q->sparse->start[q->rows] + 32.0 * (q->rows + 1.0);
    return bits / weights;
}
