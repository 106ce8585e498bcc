/* Whether two matrices mean the same, and whether one means anything. */
#include "num/qmat.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

static uint32_t group_of(const struct pith_qmat *q, uint32_t col)
{
    return q->g_idx ? q->g_idx[col] : col / q->group;
}

static bool same_float(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

static bool same_scale(const struct pith_qmat *a, size_t i, const struct pith_qmat *b, size_t j)
{
    const float x = a->offsets ? a->offsets[i] : 0.0f, y = b->offsets ? b->offsets[j] : 0.0f;
    return same_float(a->scales[i], b->scales[j]) && same_float(x, y) &&
           pith_qmat_zero(a, i) == pith_qmat_zero(b, j);
}

/* Groups of one width on both sides, which is the rule: scale by scale. */
static bool same_groups(const struct pith_qmat *a, const struct pith_qmat *b, uint32_t row)
{
    const size_t i = pith_qmat_scale_index(a, row, 0), j = pith_qmat_scale_index(b, row, 0);
    if (memcmp(a->scales + i, b->scales + j, a->groups * sizeof *a->scales) != 0) return false;
    if (a->zeros && b->zeros) return memcmp(a->zeros + i, b->zeros + j, a->groups) == 0;
    if (!a->zeros && !b->zeros) return true;
    for (uint32_t g = 0; g < a->groups; g++)
        if (pith_qmat_zero(a, i + g) != pith_qmat_zero(b, j + g)) return false;
    return true;
}

static bool same_row_scales(const struct pith_qmat *a, const struct pith_qmat *b, uint32_t row)
{
    const bool alike = !a->g_idx && !b->g_idx && !a->offsets && !b->offsets;
    if (alike && a->group == b->group) return same_groups(a, b, row);
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
    const unsigned rest = (unsigned)((uint64_t)pith_qmat_codes(a) * a->format->bits % 8);
    const size_t whole = rest ? a->stride - 1 : a->stride;
    if (memcmp(x, y, whole) != 0) return false;
    return !rest || ((x[whole] ^ y[whole]) & ((1u << rest) - 1)) == 0;
}

static bool same_levels(const struct pith_qmat *a, const struct pith_qmat *b)
{
    if (!a->levels || !b->levels) return a->levels == b->levels;
    return memcmp(a->levels, b->levels, pith_qmat_level_count(a) * sizeof *a->levels) == 0;
}

bool pith_qmat_equal(const struct pith_qmat *a, const struct pith_qmat *b)
{
    if (a->rows != b->rows || a->cols != b->cols || a->format != b->format) return false;
    if (!pith_input_equal(&a->input, &b->input) || !same_levels(a, b)) return false;
    if (!pith_sparse_equal(a->sparse, b->sparse, a->rows)) return false;
    for (uint32_t r = 0; r < a->rows; r++)
        if (!same_row_codes(a, b, r) || !same_row_scales(a, b, r)) return false;
    return true;
}

static enum pith_status refuse_code(const struct pith_qmat *q, uint32_t row, uint32_t col,
                                    struct pith_error *err)
{
    uint8_t code;
    const uint8_t *stream = q->codes + row * q->stride;
    pith_bits_get(stream, col / q->format->codec->span, q->format->bits, 1, &code);
    return pith_fail(err, PITH_FORMAT, "row %u, column %u: the code 0x%02x is not a number",
                     (unsigned)row, (unsigned)col, (unsigned)code);
}

/* PITH_FORMAT when some code means NaN or infinity. */
static enum pith_status check_codes(const struct pith_qmat *q, struct pith_error *err)
{
    enum { CHUNK = 512 };
    float values[CHUNK];
    struct pith_reader in = {.q = q};
    bool any = false;
    if (q->format->codec->open) q->format->codec->open(&in);
    for (size_t c = 0; c < PITH_COUNT(in.value); c++) any |= !isfinite(in.value[c]);
    for (uint32_t r = 0; any && r < q->rows; r++)
        for (uint32_t c = 0; c < q->cols; c += CHUNK) {
            const uint32_t left = q->cols - c, m = left < CHUNK ? left : CHUNK;
            q->format->codec->read(&in, r, c, m, values);
            for (uint32_t i = 0; i < m; i++)
                if (!isfinite(values[i])) return refuse_code(q, r, c + i, err);
        }
    return PITH_OK;
}

static enum pith_status check_scales(const struct pith_qmat *q, struct pith_error *err)
{
    const unsigned top = (1u << q->format->bits) - 1;
    for (uint32_t r = 0; r < pith_qmat_scale_rows(q); r++)
        for (uint32_t g = 0; g < q->groups; g++) {
            const size_t i = (size_t)r * q->groups + g;
            const unsigned row = pith_qmat_per_tensor(q) ? 0 : r * q->row_group;
            if (!isfinite(q->scales[i]) || (q->offsets && !isfinite(q->offsets[i])))
                return pith_fail(err, PITH_FORMAT, "scale of row %u, group %u is not finite", row,
                                 (unsigned)g);
            if (q->zeros && q->zeros[i] > top)
                return pith_fail(err, PITH_FORMAT, "zero point %u of row %u, group %u exceeds %u",
                                 (unsigned)q->zeros[i], row, (unsigned)g, top);
        }
    return PITH_OK;
}

static enum pith_status check_levels(const struct pith_qmat *q, struct pith_error *err)
{
    const size_t count = pith_qmat_level_count(q);
    const size_t width = (size_t)q->format->codec->span << q->format->bits;
    for (size_t i = 0; i < count; i++)
        if (!isfinite(q->levels[i]))
            return pith_fail(err, PITH_FORMAT, "level %zu of row %zu is not finite", i % width,
                             i / width);
    return PITH_OK;
}

enum pith_status pith_qmat_check(const struct pith_qmat *q, struct pith_error *err)
{
    PITH_TRY(check_scales(q, err));
    PITH_TRY(check_levels(q, err));
    if (q->sparse) PITH_TRY(pith_sparse_check(q->sparse, q->rows, q->cols, err));
    for (uint32_t c = 0; q->g_idx && c < q->cols; c++)
        if (q->g_idx[c] >= q->groups)
            return pith_fail(err, PITH_FORMAT, "g_idx of column %u is %u, but there are %u groups",
                             (unsigned)c, (unsigned)q->g_idx[c], (unsigned)q->groups);
    return check_codes(q, err);
}
