#include "num/qmat.h"

#include "base/mem.h"
#include "num/codebook.h"
#include "num/gguf/kquant.h"

#include <math.h>
#include <string.h>

/* The type of GGUF that a grid names, or NULL. */
static const struct pith_kquant *gguf_of(const struct pith_grid *grid)
{
    const struct pith_format *f = grid->format;
    return f && f->kind == PITH_KIND_GGUF ? pith_kquant_find(f->name) : NULL;
}

/* The parts of a matrix: where it points to each, and bytes of an element. */
enum part { CODES, SCALES, ZEROS, OFFSETS, OUTER, LEVELS, ORDER, PARTS };
static const struct {
    size_t at, size;
} parts[PARTS] = {
    [CODES] = {offsetof(struct pith_qmat, codes), sizeof(uint8_t)},
    [SCALES] = {offsetof(struct pith_qmat, scales), sizeof(float)},
    [ZEROS] = {offsetof(struct pith_qmat, zeros), sizeof(uint8_t)},
    [OFFSETS] = {offsetof(struct pith_qmat, offsets), sizeof(float)},
    [OUTER] = {offsetof(struct pith_qmat, outer), sizeof(struct pith_outer)},
    [LEVELS] = {offsetof(struct pith_qmat, levels), sizeof(float)},
    [ORDER] = {offsetof(struct pith_qmat, g_idx), sizeof(uint32_t)},
};

/* What a matrix of some spec is: its form, without numbers, and elements of each part. */
struct layout {
    struct pith_qmat form;
    size_t count[PARTS];
};

/* False when codes do not fit. The rest is smaller: no count is above 2^64. */
static bool lay_out(const struct pith_qspec *s, struct layout *l)
{
    enum pith_dtype scale_dtype = s->scale_dtype;
    const struct pith_grid g = pith_grid_elements(&s->grid, &scale_dtype);
    const struct pith_kquant *gguf = gguf_of(&s->grid);
    const struct pith_format *f = g.format;
    const bool block = g.granularity == PITH_PER_BLOCK;
    const bool grouped = (block || g.granularity == PITH_PER_GROUP) && g.group != 0;
    const uint64_t stride = (pith_codec_codes(f->codec, s->cols) * f->bits + 7) / 8;
    struct pith_qmat *q = &l->form;
    *l = (struct layout){.form = {.rows = s->rows,
                                  .cols = s->cols,
                                  .format = f,
                                  .stride = (size_t)stride,
                                  .scale_dtype = scale_dtype,
                                  .global = 1.0f,
                                  .gguf = gguf}};
    q->group = grouped ? g.group : s->cols;
    q->groups = (s->cols - 1) / q->group + 1;
    q->row_group = g.granularity == PITH_PER_TENSOR ? PITH_ALL_ROWS : block ? g.group : 1;
    const bool offsets = g.hqq || (gguf && gguf->minimums);
    l->count[SCALES] = pith_qmat_scale_count(q);
    l->count[ZEROS] = g.asym && !offsets ? l->count[SCALES] : 0;
    l->count[OFFSETS] = offsets ? l->count[SCALES] : 0;
    const bool two_levels = gguf && gguf->scale_most;
    l->count[OUTER] = two_levels ? (size_t)s->rows * (s->cols / gguf->elements) : 0;
    l->count[LEVELS] = pith_qmat_level_count(q);
    l->count[ORDER] = s->ordered ? s->cols : 0;
    return stride == q->stride && pith_mul_size(s->rows, q->stride, &l->count[CODES]);
}

static enum pith_status check_grid(const struct pith_grid *grid, struct pith_error *err)
{
    const struct pith_format *f = grid->format;
    if (!f || !f->codec)
        return pith_fail(err, PITH_ARG, "%s has no codes of at most 8 bits: no quantized matrix",
                         f ? f->name : "none");
    if (grid->granularity == PITH_PER_TOKEN || grid->granularity == PITH_PER_HEAD)
        return pith_fail(err, PITH_ARG, "the scales of weights cannot be by token");
    if (grid->granularity == PITH_PER_BLOCK && grid->group == 0)
        return pith_fail(err, PITH_ARG, "blocks of scales have no size");
    if (grid->asym && f->kind != PITH_KIND_INT)
        return pith_fail(err, PITH_ARG, "%s has no zero point: only integer formats can be asym",
                         f->name);
    return PITH_OK;
}

static void set_part(struct pith_qmat *q, enum part i, void *data)
{
    memcpy((char *)q + parts[i].at, &data, sizeof data);
}

static void *get_part(const struct pith_qmat *q, enum part i)
{
    void *data;
    memcpy(&data, (const char *)q + parts[i].at, sizeof data);
    return data;
}

enum pith_status pith_qmat_init(struct pith_qmat *q, uint32_t rows, uint32_t cols,
                                const struct pith_grid *grid, enum pith_dtype scale_dtype,
                                struct pith_error *err)
{
    const struct pith_qspec spec = {rows, cols, *grid, scale_dtype, 0, false};
    const struct pith_grid elements = pith_grid_elements(grid, NULL);
    const struct pith_kquant *gguf = gguf_of(grid);
    const size_t most = SIZE_MAX / 2;
    struct layout l;
    *q = (struct pith_qmat){0};
    PITH_TRY(check_grid(&elements, err));
    if (gguf && cols % gguf->elements != 0)
        return pith_fail(err, PITH_ARG, "%s needs rows of a multiple of %u weights, not %u",
                         gguf->name, (unsigned)gguf->elements, (unsigned)cols);
    const unsigned side = elements.format->codec->side;
    if (side && (rows % side || cols % side))
        return pith_fail(err, PITH_ARG, "%s needs multiples of %u rows and columns, not %u x %u",
                         elements.format->name, side, (unsigned)rows, (unsigned)cols);
    const size_t bytes = pith_qspec_bytes(&spec);
    if (bytes == 0 || bytes > most || !lay_out(&spec, &l))
        return pith_fail(err, PITH_ARG, "a quantized matrix cannot have %u x %u elements",
                         (unsigned)rows, (unsigned)cols);
    if ((unsigned)l.form.scale_dtype >= PITH_DTYPE_COUNT)
        return pith_fail(err, PITH_ARG, "unknown dtype of scales");
    *q = l.form;
    for (enum part i = 0; i < PARTS; i++) {
        if (l.count[i]) set_part(q, i, pith_zalloc(l.count[i], parts[i].size));
        if (!l.count[i] || get_part(q, i)) continue;
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

enum pith_status pith_qmat_state_zeros(struct pith_qmat *q, bool any, struct pith_error *err)
{
    const size_t count = pith_qmat_scale_count(q);
    if (q->zeros || q->offsets || q->format->kind != PITH_KIND_INT) return PITH_OK;
    if (any) {
        const float middle = (float)pith_format_middle(q->format);
        q->offsets = pith_alloc(count, sizeof *q->offsets);
        if (!q->offsets) return pith_fail_nomem(err, "offsets");
        for (size_t i = 0; i < count; i++) q->offsets[i] = -middle * q->scales[i];
        return PITH_OK;
    }
    q->zeros = pith_alloc(count, 1);
    if (!q->zeros) return pith_fail_nomem(err, "zero points");
    memset(q->zeros, (int)pith_format_middle(q->format), count);
    return PITH_OK;
}

void pith_qmat_free(struct pith_qmat *q)
{
    if (q->borrowed) q->codes = NULL;
    for (enum part i = 0; i < PARTS; i++) pith_free(get_part(q, i));
    pith_sparse_free(q->sparse);
    pith_free(q->nested);
    *q = (struct pith_qmat){0};
}

/* Nested scales' bytes, or 0. */
static size_t nested_bytes(const struct pith_qspec *s, const struct layout *l)
{
    const size_t runs = l->count[SCALES] / PITH_DOUBLE_QUANT_BLOCK + 1;
    return s->grid.double_quant ? l->count[SCALES] + runs * sizeof(float) : 0;
}

size_t pith_qspec_bytes(const struct pith_qspec *s)
{
    const struct pith_format *f = pith_grid_elements(&s->grid, NULL).format;
    struct layout l;
    if (!f || !f->codec || s->rows == 0 || s->cols == 0) return 0;
    if (!lay_out(s, &l)) return SIZE_MAX;
    size_t total = nested_bytes(s, &l) +
                   (s->outliers ? pith_sparse_bytes(s->rows, s->outliers) : 0),
           bytes;
    for (enum part i = 0; i < PARTS; i++)
        if (!pith_mul_size(l.count[i], parts[i].size, &bytes) ||
            !pith_add_size(total, bytes, &total))
            return SIZE_MAX;
    return total;
}

bool pith_qspec_form(const struct pith_qspec *s, struct pith_qform *out)
{
    const size_t bytes = pith_qspec_bytes(s);
    struct layout l;
    if (bytes == 0 || bytes == SIZE_MAX || !lay_out(s, &l)) return false;
    *out = (struct pith_qform){.q = l.form,
                               .zeros = l.count[ZEROS] > 0,
                               .offsets = l.count[OFFSETS] > 0,
                               .outer = l.count[OUTER] > 0,
                               .ordered = s->ordered,
                               .sparse = s->outliers > 0};
    return true;
}

struct pith_qform pith_qmat_form(const struct pith_qmat *q)
{
    return (struct pith_qform){.q = *q,
                               .zeros = q->zeros != NULL,
                               .offsets = q->offsets != NULL,
                               .outer = q->outer != NULL,
                               .ordered = q->g_idx != NULL,
                               .sparse = q->sparse != NULL};
}

size_t pith_qmat_bytes(uint32_t rows, uint32_t cols, const struct pith_grid *grid)
{
    return pith_qspec_bytes(&(struct pith_qspec){.rows = rows, .cols = cols, .grid = *grid});
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
        .format = q->format,
        .asym = q->zeros || q->offsets,
        .double_quant = q->nested != NULL,
        .hqq = q->offsets != NULL,
    };
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

unsigned pith_qmat_parts(const struct pith_qmat *q)
{
    unsigned has = 0;
    if (q->offsets) has |= PITH_QMAT_OFFSETS;
    if (q->sparse) has |= PITH_QMAT_SPARSE;
    for (uint32_t c = 0; q->g_idx && c < q->cols; c++)
        if (q->g_idx[c] != c / q->group) has |= PITH_QMAT_ORDER;
    return has;
}

const char *pith_qmat_beyond(const struct pith_qmat *q, unsigned supported)
{
    const unsigned beyond = pith_qmat_parts(q) & ~supported;
    return beyond & PITH_QMAT_ORDER     ? "permuted groups"
           : beyond & PITH_QMAT_SPARSE  ? "weights off its grid"
           : beyond & PITH_QMAT_OFFSETS ? "offsets"
                                        : NULL;
}

struct pith_qspec pith_qmat_spec(const struct pith_qmat *q)
{
    return (struct pith_qspec){.rows = q->rows,
                               .cols = q->cols,
                               .grid = pith_qmat_grid(q),
                               .scale_dtype = q->scale_dtype,
                               .outliers = q->sparse ? q->sparse->start[q->rows] : 0,
                               .ordered = q->g_idx != NULL};
}

double pith_qspec_bits(const struct pith_qspec *s)
{
    const struct pith_kquant *gguf = gguf_of(&s->grid);
    struct layout l;
    if (gguf) return 8.0 * gguf->bytes / gguf->elements;
    if (pith_qspec_bytes(s) == 0) return 0;
    (void)lay_out(s, &l);
    const struct pith_qmat *q = &l.form;
    const double codes = (double)s->rows * pith_qmat_codes(q), scales = (double)l.count[SCALES];
    const unsigned width = pith_dtype_bits(q->scale_dtype);
    double bits = codes * q->format->bits + scales * width;
    if (s->grid.double_quant) bits += scales * (8.0 + 32.0 / PITH_DOUBLE_QUANT_BLOCK - width);
    bits += (double)l.count[OFFSETS] * width + (double)l.count[ZEROS] * q->format->bits;
    bits += 32.0 * (double)l.count[ORDER] + 16.0 * (double)l.count[LEVELS];
    if (q->format->codec->table == PITH_TABLE_ROWS) bits -= scales * width; /* all are 1 */
    if (s->outliers) bits += 48.0 * (double)s->outliers + 32.0 * (s->rows + 1.0);
    return bits / ((double)s->rows * s->cols);
}

double pith_qmat_bits_per_weight(const struct pith_qmat *q)
{
    const struct pith_qspec spec = pith_qmat_spec(q);
    return pith_qspec_bits(&spec);
}
