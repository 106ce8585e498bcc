/* kivi2 and kivi4: groups of num/kivi.h. Keys are grouped by channel, so that a page of them
 * becomes codes when it is full; the scale and offset of a channel go into the queries. Values are
 * rows of codes. */
#include "backend/cache/pages.h"

#include "num/kivi.h"

static void encode_values(const struct pith_row_code *r, float scale, const float *x,
                          uint8_t *codes, struct pith_row_scale *of)
{
    (void)scale;
    for (uint32_t g = 0, c = 0; g < r->groups; g++, c += r->width) {
        of[g] = (struct pith_row_scale){0};
        pith_kivi_encode(r->bits, x + c, pith_min(r->width, r->cols - c), codes + c, &of[g].scale,
                         &of[g].offset);
    }
}

struct pith_row_code pith_row_code_kivi(unsigned bits, uint32_t cols, bool channels)
{
    const uint32_t width = channels ? 1 : PITH_KIVI_GROUP;
    return (struct pith_row_code){.kind = &pith_kv_kivi,
                                  .encode = channels ? NULL : encode_values,
                                  .cols = cols,
                                  .width = width,
                                  .groups = (cols - 1) / width + 1,
                                  .bits = bits,
                                  .scale = PITH_F16,
                                  .scale_bytes = 2,
                                  .offsets = true,
                                  .channels = channels};
}

static enum pith_status code(const struct pith_kv_heads *heads, float *level,
                             struct pith_row_code *out, struct pith_error *err)
{
    (void)level, (void)err;
    *out = pith_row_code_kivi(heads->bits, heads->cols, heads->keys);
    return PITH_OK;
}

/* --- storing ---------------------------------------------------------------------------------- */

static void store(struct pith_backend *b, const struct pith_cache_side *s, bool keys,
                  const struct pith_cache_put *put)
{
    if (!keys) pith_coded_store(b, s, false, put);
}

static void close_keys(struct pith_backend *b, const struct pith_cache_side *k, const float *x,
                       char *page)
{
    const struct pith_row_code *code = k->code;
    uint8_t codes[PITH_KEYS], *to = (uint8_t *)page, *scales = to + pith_key_codes(code);
    for (uint32_t e = 0; e < code->cols; e++, x += PITH_KEYS) {
        struct pith_row_scale of = {0};
        pith_kivi_encode(code->bits, x, PITH_KEYS, codes, &of.scale, &of.offset);
        pith_bits_put(to + e * pith_key_stride(code), 0, code->bits, PITH_KEYS, codes);
        pith_row_scale_put(code, 1.0f, &of, scales + e * pith_row_group_bytes(code));
    }
    pith_side_narrow(b, k, k->plain * PITH_KEYS, x, scales + pith_page_scale_bytes(code));
}

/* --- reading ---------------------------------------------------------------------------------- */

static const float *key_tile(const struct pith_backend *b, const struct pith_cache_side *k,
                             const struct pith_cache_rows *rows, float *wide)
{
    const struct pith_row_code *r = k->code;
    const uint8_t *codes = (const uint8_t *)rows->page, *scales = codes + pith_key_codes(r);
    const size_t each = pith_row_group_bytes(r);
    pith_cache_widen(b, r, codes, (size_t)r->cols * PITH_KEYS, wide);
    for (uint32_t e = 0; e < r->cols; e++) {
        const struct pith_row_scale of = pith_row_scale_get(r, 1.0f, scales + e * each);
        float *x = wide + (size_t)e * PITH_KEYS;
        for (size_t j = 0; j < PITH_KEYS; j++) x[j] = x[j] * of.scale + of.offset;
    }
    pith_widen_plain(b, k, rows, wide);
    return wide;
}

/* Codes as they are. */
static bool bare_view(const struct pith_cache_side *k, const struct pith_cache_rows *rows,
                      float *work, struct pith_coded *out)
{
    const struct pith_row_code *r = k->code;
    for (size_t i = 0; i < PITH_KEYS; i++) work[i] = 1, work[PITH_KEYS + i] = 0;
    *out = (struct pith_coded){.bits = r->bits,
                               .dim = r->cols,
                               .width = r->cols,
                               .codes = (const uint8_t *)rows->page,
                               .stride = pith_key_stride(r),
                               .scale = work,
                               .zero = work + PITH_KEYS,
                               .next = (const uint8_t *)rows->next};
    return pith_coded_kind(r, &out->kind);
}

/* Latents, which have a part that is not in codes, are tiles of numbers. */
static size_t query_floats(const struct pith_cache_side *k)
{
    return k->plain ? 0 : pith_cache_row(k->dim) + 1;
}

static void scores(const struct pith_backend *b, const struct pith_cache_side *k,
                   const struct pith_cache_rows *rows, const struct pith_page_scores *s)
{
    const struct pith_row_code *r = k->code;
    const uint8_t *page = (const uint8_t *)rows->page;
    float *scaled = s->query, *least = scaled + s->count * s->ldq;
    struct pith_coded codes, affine = {0};
    if (k->plain) {
        pith_tile_scores(b, k, rows, s);
        return;
    }
    pith_spread_scales(b, r,
                       &(struct pith_page_scales){.at = page + pith_key_codes(r), .count = r->cols},
                       s->work, &affine);
    for (size_t i = 0; i < s->count; i++)
        b->kern.scale_mul(k->dim, s->q + i * s->ldq, 1.0f, affine.scale, scaled + i * s->ldq);
    b->kern.lanes_f32(s->count, k->dim, s->q, s->ldq, affine.offset, least);
    if (s->count < PITH_FEW_ROWS && bare_view(k, rows, s->work, &codes))
        b->kern.attn_scores_codes(&codes, s->count, scaled, s->ldq, s->scores, s->ld);
    else {
        pith_cache_widen(b, r, page, (size_t)r->cols * PITH_KEYS, s->work);
        b->kern.attn_scores_f32(s->count, k->dim, 1, scaled, s->ldq, s->work, s->scores, s->ld);
    }
    for (size_t i = 0; i < s->count; i++)
        for (size_t j = 0; j < PITH_KEYS; j++) s->scores[i * s->ld + j] += least[i];
}

const struct pith_kv_kind pith_kv_kivi = {
    .name = "kivi",
    .least_recent = 1,
    .channels = true,
    .code = code,
    .page_bytes = pith_coded_page_bytes,
    .store = store,
    .close = close_keys,
    .key_tile = key_tile,
    .value_tile = pith_coded_value_tile,
    .scores = scores,
    .values = pith_coded_values,
    .query_floats = query_floats,
    .takes_bytes = pith_coded_takes_bytes,
};
