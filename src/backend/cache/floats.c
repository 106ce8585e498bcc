/* Pages of floats: keys [dim][32], values [32][dim padded], in float32 or 16 bits. */
#include "backend/cache/pages.h"

#include "base/mem.h"

#include <string.h>

static size_t float_bytes(const struct pith_cache_side *s)
{
    return s->dtype == PITH_F32 ? 4 : 2;
}

static bool page_bytes(const struct pith_cache_side *s, bool keys, size_t *bytes)
{
    size_t dim = s->dim;
    (void)keys;
    return pith_add_size(dim, 15, &dim) &&
           pith_mul_size(dim / 16 * 16, PITH_KEYS * float_bytes(s), bytes);
}

/* --- storing ---------------------------------------------------------------------------------- */

static void store_values(const struct pith_backend *b, const struct pith_cache_side *v,
                         const struct pith_cache_put *put)
{
    const size_t bytes = float_bytes(v), used = v->dim * bytes;
    const size_t row = pith_cache_row(v->dim) * bytes;
    const float *from = put->from;
    char *to = put->page + put->position % PITH_KEYS * row;
    for (size_t i = 0; i < put->count; i++, from += put->ld, to += row) {
        if (bytes == 4) memcpy(to, from, used);
        else pith_side_narrow(b, v, v->dim, from, to);
        memset(to + used, 0, row - used);
    }
}

void pith_store_columns(const struct pith_backend *b, const struct pith_cache_side *k,
                        const struct pith_cache_put *put, size_t first, size_t n, char *to)
{
    enum { STEP = 16 };
    float transposed[STEP * PITH_KEYS];
    for (size_t e = 0; e < n; e += STEP) {
        const size_t m = pith_min(STEP, n - e);
        b->kern.transpose(put->count, m, put->from + first + e, put->ld, transposed, PITH_KEYS);
        char *at = to + (e * PITH_KEYS + put->position % PITH_KEYS) * 2;
        if (put->count == PITH_KEYS) {
            pith_side_narrow(b, k, m * PITH_KEYS, transposed, at);
            continue;
        }
        for (size_t i = 0; i < m; i++)
            pith_side_narrow(b, k, put->count, transposed + i * PITH_KEYS, at + i * PITH_KEYS * 2);
    }
}

static void store(struct pith_backend *b, const struct pith_cache_side *s, bool keys,
                  const struct pith_cache_put *put)
{
    if (!keys) store_values(b, s, put);
    else if (s->dtype == PITH_F32)
        b->kern.transpose(put->count, s->dim, put->from, put->ld,
                          (float *)(void *)put->page + put->position % PITH_KEYS, PITH_KEYS);
    else pith_store_columns(b, s, put, 0, s->dim, put->page);
}

/* --- reading ---------------------------------------------------------------------------------- */

static const float *key_tile(const struct pith_backend *b, const struct pith_cache_side *k,
                             const struct pith_cache_rows *rows, float *wide)
{
    if (k->dtype == PITH_F32) return (const float *)(const void *)rows->page;
    pith_side_widen(b, k, k->dim * PITH_KEYS, rows->page, wide);
    return wide;
}

static const float *value_tile(const struct pith_backend *b, const struct pith_cache_side *v,
                               const struct pith_cache_rows *rows, float *wide)
{
    const size_t row = pith_cache_row(v->dim);
    const char *from = rows->page + rows->first * row * float_bytes(v);
    if (v->dtype == PITH_F32) return (const float *)(const void *)from;
    pith_side_widen(b, v, rows->n * row, from, wide);
    return wide;
}

/* Whether kernels read 16 bits in place: that many rows do not pay for floats, or those have no
 * room. */
static bool in_place(const struct pith_cache_side *s, size_t rows)
{
    return s->dtype != PITH_F32 && !(rows >= PITH_FEW_ROWS && pith_cache_tile_fits(s->dim));
}

static void scores(const struct pith_backend *b, const struct pith_cache_side *k,
                   const struct pith_cache_rows *rows, const struct pith_page_scores *s)
{
    if (in_place(k, s->count))
        (k->dtype == PITH_F16 ? b->kern.attn_scores_f16 : b->kern.attn_scores_bf16)(
            s->count, k->dim, 1, s->q, s->ldq, rows->page, s->scores, s->ld);
    else pith_tile_scores(b, k, rows, s);
}

static void values(const struct pith_backend *b, const struct pith_cache_side *v,
                   const struct pith_cache_rows *rows, const struct pith_coded_sums *sums,
                   float *work)
{
    const size_t row = pith_cache_row(v->dim);
    if (in_place(v, sums->rows))
        (v->dtype == PITH_F16 ? b->kern.attn_values_f16 : b->kern.attn_values_bf16)(
            sums->rows, sums->values, row, sums->p, sums->ldp,
            rows->page + rows->first * row * sizeof(uint16_t), sums->o, sums->ldo);
    else pith_tile_values(b, v, rows, sums, work);
}

const struct pith_kv_kind pith_kv_float = {
    .name = "floats",
    .page_bytes = page_bytes,
    .store = store,
    .key_tile = key_tile,
    .value_tile = value_tile,
    .scores = scores,
    .values = values,
};
