#include "num/recode.h"

#include "base/mem.h"
#include "num/gguf/kquant.h"

#include <math.h>
#include <string.h>

static const struct pith_kquant *gguf_of(const struct pith_grid *g)
{
    return g->format->kind == PITH_KIND_GGUF ? pith_kquant_find(g->format->name) : NULL;
}

static bool two_levels(const struct pith_grid *g)
{
    const struct pith_kquant *t = gguf_of(g);
    return t && t->scale_most;
}

static bool has_minimums(const struct pith_grid *g)
{
    const struct pith_kquant *t = gguf_of(g);
    return t && t->minimums;
}

/* Nothing comes to it but what is on it. */
static bool is_copied(const struct pith_grid *g)
{
    const struct pith_kquant *t = gguf_of(g);
    return t && t->copied;
}

/* --- what fits -------------------------------------------------------------------------------- */

static bool groups_fit(const struct pith_grid *from, const struct pith_grid *to, uint32_t cols)
{
    const bool wide = from->granularity == PITH_PER_TENSOR;
    switch (to->granularity) {
    case PITH_PER_TENSOR: return wide;
    case PITH_PER_CHANNEL: return wide || from->granularity == PITH_PER_CHANNEL;
    case PITH_PER_BLOCK:
        return wide || (from->granularity == PITH_PER_BLOCK && from->group == to->group);
    case PITH_PER_GROUP:
        if (from->granularity == PITH_PER_GROUP || from->granularity == PITH_PER_BLOCK)
            return from->group % to->group == 0 && cols % to->group == 0;
        return cols % to->group == 0;
    case PITH_PER_TOKEN:
    case PITH_PER_HEAD: break;
    }
    return false;
}

/* Zero points that are any numbers go to their like, or into minimums. */
static bool zeros_fit(const struct pith_grid *from, const struct pith_grid *to)
{
    return !from->hqq || to->hqq || has_minimums(to);
}

/* Whatever their codes. */
static bool kinds_fit(const struct pith_grid *from, const struct pith_grid *to)
{
    return from->format->kind != PITH_KIND_BLOCK && to->format->kind != PITH_KIND_BLOCK &&
           from->format->kind != PITH_KIND_LEVELS && !to->double_quant && !has_minimums(from) &&
           !two_levels(to) && !is_copied(to) && zeros_fit(from, to);
}

/* Of the elements of two grids. */
static bool codes_fit(const struct pith_grid *a, const struct pith_grid *b)
{
    if (a->format->kind != PITH_KIND_INT || b->format->kind != PITH_KIND_INT)
        return a->format == b->format;
    return b->format->bits >= a->format->bits + (a->asym && !b->asym);
}

bool pith_recode_fits(const struct pith_grid *from, const struct pith_grid *to, uint32_t cols)
{
    if (!from->format || !to->format) return false;
    if (pith_grid_equal(from, to)) return true;
    if (!kinds_fit(from, to)) return false;
    const struct pith_grid a = pith_grid_elements(from, NULL), b = pith_grid_elements(to, NULL);
    return codes_fit(&a, &b) && groups_fit(&a, &b, cols);
}

/* --- the work --------------------------------------------------------------------------------- */

/* What codes of that group count from, as a real number. */
static float zero_of(const struct pith_qmat *q, size_t index)
{
    float zero = pith_qmat_zero(q, index);
    if (q->offsets && q->scales[index] != 0.0f) zero -= q->offsets[index] / q->scales[index];
    return zero;
}

/* Scale, zero and minimum of one group; returns what its codes are moved by. */
static int recode_group(const struct pith_qmat *from, size_t source, struct pith_qmat *q, size_t at)
{
    const float scale = from->scales[source], zero = zero_of(from, source);
    q->scales[at] = pith_round_to(q->scale_dtype, scale);
    if (q->offsets) {
        const float offset = -(scale * zero);
        if (q->gguf) q->offsets[at] = pith_round_to(PITH_F16, offset);
        else q->offsets[at] = from->offsets ? from->offsets[source] : offset;
        return 0;
    }
    if (!q->zeros) return (int)pith_format_middle(q->format) - (int)zero;
    const float most = (float)((1u << q->format->bits) - 1);
    q->zeros[at] = (uint8_t)rintf(zero < 0.0f ? 0.0f : zero > most ? most : zero);
    return 0;
}

static bool recode_row(const struct pith_qmat *from, uint32_t row, struct pith_qmat *q,
                       uint8_t *codes)
{
    bool finite = true;
    pith_qmat_get_codes(from, row, codes);
    for (uint32_t g = 0; g < q->groups; g++) {
        const uint32_t first = g * q->group;
        const uint32_t end = q->cols - first < q->group ? q->cols : first + q->group;
        const size_t source = pith_qmat_scale_index(from, row, first / from->group);
        const size_t at = pith_qmat_scale_index(q, row, g);
        const int shift = recode_group(from, source, q, at);
        finite &= isfinite(q->scales[at]) && (!q->offsets || isfinite(q->offsets[at]));
        for (uint32_t c = first; shift && c < end; c++) codes[c] = (uint8_t)(codes[c] + shift);
    }
    pith_qmat_set_codes(q, row, codes);
    return finite;
}

enum pith_status pith_recode(const struct pith_qmat *from, const struct pith_grid *to,
                             enum pith_dtype scale_dtype, struct pith_qmat *q,
                             struct pith_error *err)
{
    if (from->g_idx)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "its groups are permuted, which the grid cannot say");
    PITH_TRY(pith_qmat_init(q, from->rows, from->cols, to, scale_dtype, err));
    uint8_t *codes = pith_alloc(from->cols, 1);
    enum pith_status s = codes ? PITH_OK : pith_fail_nomem(err, "codes");
    for (uint32_t row = 0; row < from->rows && s == PITH_OK; row++)
        if (!recode_row(from, row, q, codes))
            s = pith_fail(err, PITH_NUMERIC, "row %u: a scale is too large for %s", row,
                          pith_dtype_name(q->scale_dtype));
    q->input = from->input;
    pith_free(codes);
    if (s != PITH_OK) pith_qmat_free(q);
    return s;
}
