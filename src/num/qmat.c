#include "num/qmat.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

/* What a matrix of some shape and grid takes. */
struct layout {
    uint32_t group, groups;
    size_t stride, code_bytes, scale_count, zero_bytes, total;
};

static bool has_codes(const struct pith_format *f)
{
    return f && f->decode && f->bits <= 8;
}

/* False when a size does not fit. */
static bool lay_out(uint32_t rows, uint32_t cols, const struct pith_grid *grid, struct layout *l)
{
    const bool grouped = grid->granularity == PITH_PER_GROUP && grid->group != 0;
    l->group = grouped ? grid->group : cols;
    l->groups = (uint32_t)(((uint64_t)cols + l->group - 1) / l->group);
    const uint64_t stride = ((uint64_t)cols * grid->format->bits + 7) / 8;
    l->stride = (size_t)stride;
    if (l->stride != stride || !pith_mul_size(rows, l->stride, &l->code_bytes)) return false;
    const bool tensor = grid->granularity == PITH_PER_TENSOR;
    if (!pith_mul_size(tensor ? 1 : rows, tensor ? 1 : l->groups, &l->scale_count)) return false;
    l->zero_bytes = grid->asym ? l->scale_count : 0;
    return pith_mul_size(l->scale_count, sizeof(float), &l->total) &&
           pith_add_size(l->total, l->zero_bytes, &l->total) &&
           pith_add_size(l->total, l->code_bytes, &l->total) && l->total <= SIZE_MAX / 2;
}

static enum pith_status check_grid(const struct pith_grid *grid, struct pith_error *err)
{
    const struct pith_format *f = grid->format;
    if (!has_codes(f))
        return pith_fail(err, PITH_ARG, "%s has no codes of at most 8 bits: no quantized matrix",
                         f ? f->name : "none");
    if (grid->granularity == PITH_PER_BLOCK || grid->granularity == PITH_PER_TOKEN)
        return pith_fail(err, PITH_ARG,
                         "a quantized matrix has its scales by tensor, channel or group, not by %s",
                         grid->granularity == PITH_PER_BLOCK ? "block" : "token");
    if (grid->asym && f->kind != PITH_KIND_INT)
        return pith_fail(err, PITH_ARG, "%s has no zero point: only integer formats can be asym",
                         f->name);
    return PITH_OK;
}

enum pith_status pith_qmat_init(struct pith_qmat *q, uint32_t rows, uint32_t cols,
                                const struct pith_grid *grid, enum pith_dtype scale_dtype,
                                struct pith_error *err)
{
    *q = (struct pith_qmat){0};
    PITH_TRY(check_grid(grid, err));
    struct layout l;
    if (rows == 0 || cols == 0 || !lay_out(rows, cols, grid, &l))
        return pith_fail(err, PITH_ARG, "a quantized matrix cannot have %u x %u elements",
                         (unsigned)rows, (unsigned)cols);
    if ((unsigned)scale_dtype >= PITH_DTYPE_COUNT)
        return pith_fail(err, PITH_ARG, "unknown dtype of scales");
    q->rows = rows;
    q->cols = cols;
    q->format = grid->format;
    q->per_tensor = grid->granularity == PITH_PER_TENSOR;
    q->group = l.group;
    q->groups = l.groups;
    q->stride = l.stride;
    q->scale_dtype = scale_dtype;
    q->global = 1.0f;
    q->codes = pith_zalloc(l.code_bytes, 1);
    q->scales = pith_zalloc(l.scale_count, sizeof *q->scales);
    if (grid->asym) q->zeros = pith_zalloc(l.zero_bytes, 1);
    if (!q->codes || !q->scales || (grid->asym && !q->zeros)) {
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

void pith_qmat_free(struct pith_qmat *q)
{
    if (!q->borrowed) pith_free(q->codes);
    pith_free(q->scales);
    pith_free(q->zeros);
    pith_free(q->g_idx);
    *q = (struct pith_qmat){0};
}

size_t pith_qmat_bytes(uint32_t rows, uint32_t cols, const struct pith_grid *grid)
{
    struct layout l;
    if (!has_codes(grid->format) || rows == 0 || cols == 0) return 0;
    return lay_out(rows, cols, grid, &l) ? l.total : SIZE_MAX;
}

void pith_qmat_get_codes(const struct pith_qmat *q, uint32_t row, uint8_t *codes)
{
    pith_bits_get(q->codes + row * q->stride, 0, q->format->bits, q->cols, codes);
}

void pith_qmat_set_codes(struct pith_qmat *q, uint32_t row, const uint8_t *codes)
{
    pith_bits_put(q->codes + row * q->stride, 0, q->format->bits, q->cols, codes);
}

/* Values of all codes; for integers the unsigned code itself. */
static void fill_values(const struct pith_format *f, float values[256])
{
    const uint32_t n = (uint32_t)1 << f->bits;
    for (uint32_t c = 0; c < n; c++)
        values[c] = f->kind == PITH_KIND_INT ? (float)(int32_t)c : f->decode(c);
}

static float zero_of(const struct pith_qmat *q, size_t index)
{
    if (q->zeros) return (float)q->zeros[index];
    return q->format->kind == PITH_KIND_INT ? (float)((int32_t)1 << (q->format->bits - 1)) : 0.0f;
}

static void decode_ints(const uint8_t *codes, size_t n, float zero, float scale, float *out)
{
    enum { STEP = 16 };
    for (; n >= STEP; n -= STEP, codes += STEP, out += STEP)
        for (size_t i = 0; i < STEP; i++) out[i] = ((float)(int32_t)codes[i] - zero) * scale;
    for (size_t i = 0; i < n; i++) out[i] = ((float)(int32_t)codes[i] - zero) * scale;
}

static void decode_values(const uint8_t *codes, size_t n, const float *values, float scale,
                          float *out)
{
    for (size_t i = 0; i < n; i++) out[i] = values[codes[i]] * scale;
}

/* Columns [c, c + n) of a row, whose codes are unpacked; values NULL for integers. */
static void decode_run(const struct pith_qmat *q, uint32_t row, uint32_t c, size_t n,
                       const uint8_t *codes, const float *values, float *out)
{
    while (n) {
        const uint32_t g = c / q->group;
        const uint64_t left = (uint64_t)(g + 1) * q->group - c;
        const size_t m = left < n ? (size_t)left : n;
        const size_t index = pith_qmat_scale_index(q, row, g);
        if (values) decode_values(codes, m, values, q->scales[index], out);
        else decode_ints(codes, m, zero_of(q, index), q->scales[index], out);
        codes += m;
        out += m;
        n -= m;
        c += (uint32_t)m;
    }
}

static void decode_scattered(const struct pith_qmat *q, uint32_t row, uint32_t c, size_t n,
                             const uint8_t *codes, const float *values, float *out)
{
    for (size_t i = 0; i < n; i++) {
        const size_t index = pith_qmat_scale_index(q, row, q->g_idx[c + i]);
        const float v = values ? values[codes[i]] : (float)(int32_t)codes[i] - zero_of(q, index);
        out[i] = v * q->scales[index];
    }
}

void pith_qmat_decode(const struct pith_qmat *q, uint32_t row, uint32_t n, float *out)
{
    enum { CHUNK = 512 };
    uint8_t codes[CHUNK];
    float table[256];
    const float *values = NULL;
    if (q->format->kind != PITH_KIND_INT) {
        fill_values(q->format, table);
        values = table;
    }
    for (uint32_t r = row; r < row + n; r++) {
        for (uint32_t c = 0; c < q->cols;) {
            const uint32_t left = q->cols - c, m = left < CHUNK ? left : CHUNK;
            pith_bits_get(q->codes + r * q->stride, c, q->format->bits, m, codes);
            if (q->g_idx) decode_scattered(q, r, c, m, codes, values, out);
            else decode_run(q, r, c, m, codes, values, out);
            out += m;
            c += m;
        }
    }
}

double pith_qmat_bits_per_weight(const struct pith_qmat *q)
{
    const double weights = (double)q->rows * q->cols;
    const double scales = q->per_tensor ? 1 : (double)q->rows * q->groups;
    double bits = weights * q->format->bits + scales * pith_dtype_bits(q->scale_dtype);
    if (q->zeros) bits += scales * q->format->bits;
    if (q->g_idx) bits += 32.0 * q->cols;
    return bits / weights;
}

static uint32_t group_of(const struct pith_qmat *q, uint32_t col)
{
    return q->g_idx ? q->g_idx[col] : col / q->group;
}

static bool same_scale(const struct pith_qmat *a, size_t i, const struct pith_qmat *b, size_t j)
{
    return memcmp(&a->scales[i], &b->scales[j], sizeof(float)) == 0 &&
           zero_of(a, i) == zero_of(b, j);
}

/* Groups of one width on both sides, which is the rule: scale by scale. */
static bool same_groups(const struct pith_qmat *a, const struct pith_qmat *b, uint32_t row)
{
    const size_t i = pith_qmat_scale_index(a, row, 0), j = pith_qmat_scale_index(b, row, 0);
    if (memcmp(a->scales + i, b->scales + j, a->groups * sizeof *a->scales) != 0) return false;
    if (a->zeros && b->zeros) return memcmp(a->zeros + i, b->zeros + j, a->groups) == 0;
    if (!a->zeros && !b->zeros) return true;
    for (uint32_t g = 0; g < a->groups; g++)
        if (zero_of(a, i + g) != zero_of(b, j + g)) return false;
    return true;
}

static bool same_row_scales(const struct pith_qmat *a, const struct pith_qmat *b, uint32_t row)
{
    if (!a->g_idx && !b->g_idx && a->group == b->group) return same_groups(a, b, row);
    uint32_t ga = UINT32_MAX, gb = UINT32_MAX;
    for (uint32_t c = 0; c < a->cols; c++) {
        const uint32_t na = group_of(a, c), nb = group_of(b, c);
        if (na == ga && nb == gb) continue;
        ga = na;
        gb = nb;
        if (!same_scale(a, pith_qmat_scale_index(a, row, ga), b, pith_qmat_scale_index(b, row, gb)))
            return false;
    }
    return true;
}

static bool same_row_codes(const struct pith_qmat *a, const struct pith_qmat *b, uint32_t row)
{
    const uint8_t *x = a->codes + row * a->stride, *y = b->codes + row * b->stride;
    const unsigned rest = (unsigned)((uint64_t)a->cols * a->format->bits % 8);
    const size_t whole = rest ? a->stride - 1 : a->stride;
    if (memcmp(x, y, whole) != 0) return false;
    return !rest || ((x[whole] ^ y[whole]) & ((1u << rest) - 1)) == 0;
}

bool pith_qmat_equal(const struct pith_qmat *a, const struct pith_qmat *b)
{
    if (a->rows != b->rows || a->cols != b->cols || a->format != b->format) return false;
    for (uint32_t r = 0; r < a->rows; r++)
        if (!same_row_codes(a, b, r) || !same_row_scales(a, b, r)) return false;
    return true;
}

/* PITH_FORMAT when some code means NaN or infinity. */
static enum pith_status check_codes(const struct pith_qmat *q, struct pith_error *err)
{
    enum { CHUNK = 512 };
    uint8_t codes[CHUNK];
    float values[256];
    bool any = false;
    fill_values(q->format, values);
    for (size_t c = 0; c < (size_t)1 << q->format->bits; c++) any |= !isfinite(values[c]);
    if (!any) return PITH_OK;
    for (uint32_t r = 0; r < q->rows; r++)
        for (size_t c = 0; c < q->cols; c += CHUNK) {
            const size_t left = q->cols - c, m = left < CHUNK ? left : CHUNK;
            pith_bits_get(q->codes + r * q->stride, c, q->format->bits, m, codes);
            for (size_t i = 0; i < m; i++)
                if (!isfinite(values[codes[i]]))
                    return pith_fail(err, PITH_FORMAT,
                                     "row %u, column %zu: the code 0x%02x is not a number",
                                     (unsigned)r, c + i, (unsigned)codes[i]);
        }
    return PITH_OK;
}

enum pith_status pith_qmat_check(const struct pith_qmat *q, struct pith_error *err)
{
    const uint32_t rows = q->per_tensor ? 1 : q->rows, groups = q->per_tensor ? 1 : q->groups;
    const unsigned top = (1u << q->format->bits) - 1;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t g = 0; g < groups; g++) {
            const size_t i = (size_t)r * groups + g;
            if (!isfinite(q->scales[i]))
                return pith_fail(err, PITH_FORMAT, "scale of row %u, group %u is not finite",
                                 (unsigned)r, (unsigned)g);
            if (q->zeros && q->zeros[i] > top)
                return pith_fail(err, PITH_FORMAT, "zero point %u of row %u, group %u exceeds %u",
                                 (unsigned)q->zeros[i], (unsigned)r, (unsigned)g, top);
        }
    for (uint32_t c = 0; q->g_idx && c < q->cols; c++)
        if (q->g_idx[c] >= q->groups)
            return pith_fail(err, PITH_FORMAT, "g_idx of column %u is %u, but there are %u groups",
                             (unsigned)c, (unsigned)q->g_idx[c], (unsigned)q->groups);
    return check_codes(q, err);
}

void pith_weight_decode(const struct pith_weight *w, uint32_t row, uint32_t n, float *out)
{
    if (w->quant) {
        pith_qmat_decode(w->quant, row, n, out);
        return;
    }
    const size_t bytes = pith_dtype_bits(w->dtype) / 8;
    const unsigned char *src = w->dense;
    pith_dtype_decode(w->dtype, src + (size_t)row * w->cols * bytes, (size_t)n * w->cols, out);
}
