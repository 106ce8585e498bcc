#include "num/gguf/kmat.h"

#include "base/mem.h"

#include <math.h>

size_t pith_kmat_bytes(const struct pith_kquant *t, uint32_t rows, uint32_t cols)
{
    size_t blocks, bytes;
    if (rows == 0 || cols == 0 || cols % t->elements != 0) return 0;
    if (!pith_mul_size(rows, cols / t->elements, &blocks)) return SIZE_MAX;
    return pith_mul_size(blocks, t->bytes, &bytes) ? bytes : SIZE_MAX;
}

static void store_scales(const struct pith_kquant *t, const struct pith_kblock *b, uint32_t row,
                         uint32_t at, struct pith_qmat *q)
{
    const uint32_t subs = t->elements / t->sub;
    for (uint32_t i = 0; i < subs; i++) {
        const size_t index = pith_qmat_scale_index(q, row, at * subs + i);
        q->scales[index] = b->scale[i] * q->global;
        if (q->offsets) q->offsets[index] = b->offset[i];
    }
    if (!q->outer) return;
    *pith_qmat_outer(q, row, at * subs) = (struct pith_outer){b->d, b->dmin};
}

enum pith_status pith_kmat_unpack(const struct pith_kquant *t, const uint8_t *blocks, uint32_t rows,
                                  uint32_t cols, float global, struct pith_qmat *q,
                                  struct pith_error *err)
{
    const struct pith_format *f = pith_format_find(t->format);
    const struct pith_grid grid = {.format = f, .granularity = PITH_PER_GROUP, .group = f->block};
    *q = (struct pith_qmat){0};
    if (cols % t->elements != 0)
        return pith_fail(err, PITH_ARG, "%s needs rows of a multiple of %u weights, not %u",
                         t->name, (unsigned)t->elements, (unsigned)cols);
    PITH_TRY(pith_qmat_init(q, rows, cols, &grid, t->scale_dtype, err));
    q->global = global;
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t at = 0; at < cols / t->elements; at++, blocks += t->bytes) {
            struct pith_kblock b;
            if (!pith_kquant_unpack(t, blocks, &b)) {
                pith_qmat_free(q);
                return pith_fail(err, PITH_FORMAT, "row %u, block %u of %s: a scale is no number",
                                 (unsigned)r, (unsigned)at, t->name);
            }
            pith_bits_put(q->codes + r * q->stride, (size_t)at * t->elements, q->format->bits,
                          t->elements, b.codes);
            store_scales(t, &b, r, at, q);
        }
    return PITH_OK;
}

void pith_kmat_set_scales(struct pith_qmat *q, uint32_t row, uint32_t at,
                          const struct pith_kblock *b)
{
    store_scales(q->gguf, b, row, at, q);
}

static enum pith_status refuse(const struct pith_kquant *t, const char *why, struct pith_error *err)
{
    return pith_fail(err, PITH_UNSUPPORTED, "%s cannot hold this matrix: %s", t->name, why);
}

/* The zero point is a constant of the type. */
static bool zeros_fit(const struct pith_kquant *t, const struct pith_qmat *q)
{
    const float want = t->minimums ? 0.0f : (float)pith_format_middle(q->format);
    for (size_t i = 0; i < pith_qmat_scale_count(q); i++)
        if (pith_qmat_zero(q, i) != want) return false;
    return true;
}

/* PITH_OK when pith_kmat_pack() can be tried: the element format and the groups are t's, whole
 * blocks in a row, no weights off the grid, and for two levels of scales that both are known.
 * PITH_UNSUPPORTED says what prevents it. */
static enum pith_status kmat_accepts(const struct pith_kquant *t, const struct pith_qmat *q,
                                     struct pith_error *err)
{
    if (q->format != pith_format_find(t->element)) return refuse(t, "its codes are others", err);
    if (q->cols % t->elements != 0) return refuse(t, "rows are no whole number of blocks", err);
    const char *beyond = pith_qmat_beyond(q, t->minimums ? PITH_QMAT_OFFSETS : 0);
    if (beyond) return refuse(t, beyond, err);
    if (q->group % t->sub != 0) return refuse(t, "its groups are smaller or others", err);
    if (t->scale_most && (!q->outer || q->group != t->sub))
        return refuse(t, "its scales are not in two levels", err);
    if (!zeros_fit(t, q)) return refuse(t, "its zero points are others", err);
    return PITH_OK;
}

/* A scale without the factor of the tensor; NaN when there is none that gives it back. */
static float without_global(const struct pith_kquant *t, const struct pith_qmat *q, float scale)
{
    if (t->scale_dtype != PITH_F8_E4M3) return q->global == 1.0f ? scale : NAN;
    const struct pith_format *f = pith_format_find("fp8_e4m3");
    const float s = f->decode(f->encode(scale / q->global));
    return s * q->global == scale ? s : NAN;
}

static void load_scales(const struct pith_kquant *t, const struct pith_qmat *q, uint32_t row,
                        uint32_t at, struct pith_kblock *b)
{
    for (uint32_t i = 0; i < (uint32_t)(t->elements / t->sub); i++) {
        const uint32_t group = (at * t->elements + i * t->sub) / q->group;
        const size_t index = pith_qmat_scale_index(q, row, group);
        b->scale[i] = without_global(t, q, q->scales[index]);
        b->offset[i] = q->offsets ? q->offsets[index] : 0.0f;
    }
    if (!t->scale_most) return;
    const struct pith_outer *outer = pith_qmat_outer(q, row, at * pith_qmat_block_groups(q));
    b->d = outer->d;
    b->dmin = outer->dmin;
}

enum pith_status pith_kmat_pack(const struct pith_kquant *t, const struct pith_qmat *q,
                                uint32_t row, uint32_t n, uint8_t *blocks, struct pith_error *err)
{
    PITH_TRY(kmat_accepts(t, q, err));
    for (uint32_t r = row; r < row + n; r++)
        for (uint32_t at = 0; at < q->cols / t->elements; at++, blocks += t->bytes) {
            struct pith_kblock b = {.d = 0.0f};
            pith_bits_get(q->codes + r * q->stride, (size_t)at * t->elements, q->format->bits,
                          t->elements, b.codes);
            load_scales(t, q, r, at, &b);
            if (!pith_kquant_pack(t, &b, blocks))
                return pith_fail(err, PITH_UNSUPPORTED,
                                 "row %u, block %u: %s cannot hold a scale of that value",
                                 (unsigned)r, (unsigned)at, t->name);
        }
    return PITH_OK;
}
