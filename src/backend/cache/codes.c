/* Pages of rows of codes: grids, and what kinds keep like them. */
#include "backend/cache/pages.h"

#include "num/rowcode.h"

#include <math.h>
#include <string.h>

enum { LINE = 64 };

static float scale_of(const struct pith_cache_side *s, size_t kv)
{
    return s->scale ? s->scale[kv] : 1.0f;
}

bool pith_coded_page_bytes(const struct pith_cache_side *s, bool keys, size_t *bytes)
{
    const struct pith_row_code *r = s->code;
    const size_t scales = pith_page_scale_bytes(r);
    *bytes = keys ? pith_key_codes(r) : PITH_KEYS * pith_value_stride(r);
    *bytes += scales + s->plain * PITH_KEYS * sizeof(uint16_t);
    /* Kernels look up to eight bytes beyond a code, where scales usually are. */
    if (r->bits != 8 && r->bits != 4 && scales < 8) *bytes += 8;
    *bytes = (*bytes + LINE - 1) / LINE * LINE;
    return true;
}

/* --- storing ---------------------------------------------------------------------------------- */

void pith_cache_put_key(const struct pith_row_code *r, const uint8_t *codes, size_t place,
                        uint8_t *to)
{
    const size_t stride = pith_key_stride(r);
    for (uint32_t e = 0; e < r->cols; e++, to += stride) {
        if (r->bits == 8) to[place] = codes[e];
        else pith_bits_put(to, place, r->bits, 1, &codes[e]);
    }
}

void pith_coded_store(struct pith_backend *b, const struct pith_cache_side *s, bool keys,
                      const struct pith_cache_put *put)
{
    const struct pith_row_code *code = s->code;
    const size_t each = pith_row_group_bytes(code);
    uint8_t codes[PITH_CODED], *page = (uint8_t *)put->page;
    uint8_t *scales = page + (keys ? pith_key_codes(code) : PITH_KEYS * pith_value_stride(code));
    struct pith_row_scale of[PITH_CODED];
    const float scale = scale_of(s, put->kv);
    for (size_t i = 0; i < put->count; i++) {
        const size_t place = put->position % PITH_KEYS + i;
        pith_row_encode(code, scale, put->from + i * put->ld, codes, of);
        if (keys) pith_cache_put_key(code, codes, place, page);
        else
            pith_bits_put(page + place * pith_value_stride(code), 0, code->bits, code->cols, codes);
        for (size_t g = 0; g < code->groups; g++)
            pith_row_scale_put(
                code, scale, &of[g],
                scales + each * (keys ? g * PITH_KEYS + place : place * code->groups + g));
    }
    if (s->plain)
        pith_store_columns(b, s, put, code->cols, s->plain,
                           (char *)scales + pith_page_scale_bytes(code));
}

/* --- reading as floats ------------------------------------------------------------------------ */

static void widen_eight(const struct pith_backend *b, const uint8_t *stream, size_t n,
                        const float *level, float *to)
{
    float twice[16];
    memcpy(twice, level, 8 * sizeof *level);
    memcpy(twice + 8, level, 8 * sizeof *level);
    b->kern.levels_unpack(3, n, stream, twice, to);
}

/* In steps whose number compilers know. */
static void interleave(size_t pairs, const float *restrict even, const float *restrict odd,
                       float *restrict to)
{
    enum { STEP = 16 };
    size_t i = 0;
    for (; i + STEP <= pairs; i += STEP)
        for (size_t k = i; k < i + STEP; k++) to[2 * k] = even[k], to[2 * k + 1] = odd[k];
    for (; i < pairs; i++) to[2 * i] = even[i], to[2 * i + 1] = odd[i];
}

/* Two codes are one of four bits, the first of them by one table and the second by another. */
static void widen_four(const struct pith_backend *b, const uint8_t *stream, size_t n,
                       const float *level, float *to)
{
    enum { STEP = 128 };
    float first[16], second[16], even[STEP], odd[STEP];
    for (unsigned i = 0; i < 16; i++) first[i] = level[i & 3], second[i] = level[i >> 2];
    for (size_t i = 0; i < n; i += 2 * STEP) {
        const size_t m = pith_min(2 * STEP, n - i), pairs = (m + 1) / 2;
        b->kern.levels_unpack(4, pairs, stream + i / 4, first, even);
        b->kern.levels_unpack(4, pairs, stream + i / 4, second, odd);
        interleave(m / 2, even, odd, to + i);
        if (m % 2) to[i + m - 1] = even[pairs - 1];
    }
}

/* Levels of eight bits are those of a grid's format, FP8, which kernels know; or a kind's. */
static bool is_fp8(const struct pith_row_code *r)
{
    return r->level && r->bits == 8 && r->in.grid.format;
}

static bool is_e5m2(const struct pith_row_code *r)
{
    const struct pith_format *f = r->in.grid.format;
    return strstr(f->element ? f->element : f->name, "e5m2") != NULL;
}

void pith_cache_widen(const struct pith_backend *b, const struct pith_row_code *r,
                      const uint8_t *stream, size_t n, float *to)
{
    enum { STEP = 256 };
    uint8_t some[STEP];
    if (!r->level && r->bits == 8) b->kern.dequant_u8(n, stream, r->middle, 1.0f, to);
    else if (!r->level && r->bits == 4) b->kern.dequant_u4(n, stream, r->middle, 1.0f, to);
    else if (is_fp8(r)) (is_e5m2(r) ? b->kern.widen_e5m2 : b->kern.widen_e4m3)(n, stream, to);
    else if (r->level && r->bits == 4) b->kern.levels_unpack(4, n, stream, r->level, to);
    else if (r->level && r->bits == 3) widen_eight(b, stream, n, r->level, to);
    else if (r->level && r->bits == 2) widen_four(b, stream, n, r->level, to);
    else
        for (size_t i = 0; i < n; i += STEP) {
            const size_t m = pith_min(STEP, n - i);
            const uint8_t *codes = r->bits == 8 ? stream + i : some;
            if (r->bits != 8) pith_bits_get(stream, i, r->bits, m, some);
            if (!r->level) b->kern.dequant_u8(m, codes, r->middle, 1.0f, to + i);
            else
                for (size_t j = 0; j < m; j++) to[i + j] = r->level[codes[j]];
        }
}

const float *pith_coded_key_tile(const struct pith_backend *b, const struct pith_cache_side *k,
                                 const struct pith_cache_rows *rows, float *wide)
{
    const struct pith_row_code *r = k->code;
    const uint8_t *codes = (const uint8_t *)rows->page, *scales = codes + pith_key_codes(r);
    const float scale_of_head = scale_of(k, rows->kv);
    const size_t each = pith_row_group_bytes(r);
    pith_cache_widen(b, r, codes, (size_t)r->cols * PITH_KEYS, wide);
    for (uint32_t g = 0, e = 0; g < r->groups; g++, e += r->width) {
        float scale[PITH_KEYS], zero[PITH_KEYS], offset[PITH_KEYS];
        for (size_t j = 0; j < PITH_KEYS; j++) {
            const struct pith_row_scale of =
                pith_row_scale_get(r, scale_of_head, scales + each * (g * PITH_KEYS + j));
            scale[j] = of.scale;
            zero[j] = of.zero;
            offset[j] = of.offset;
        }
        b->kern.scale_keys(pith_min(r->width, r->cols - e), r->zeros ? zero : NULL, scale,
                           r->offsets ? offset : NULL, wide + (size_t)e * PITH_KEYS);
    }
    pith_widen_plain(b, k, rows, wide);
    return wide;
}

/* n numbers of a group as its scale makes them; in steps whose number compilers know. */
static inline void scale_some(size_t n, bool offsets, const struct pith_row_scale *of,
                              float *restrict x)
{
    const float scale = of->scale, shift = offsets ? of->offset : of->zero;
    for (size_t i = 0; i < n; i++) x[i] = offsets ? x[i] * scale + shift : (x[i] - shift) * scale;
}
static void scale_group(size_t n, bool offsets, const struct pith_row_scale *of, float *x)
{
    enum { STEP = 16 };
    size_t i = 0;
    if (offsets)
        for (; i + STEP <= n; i += STEP) scale_some(STEP, true, of, x + i);
    else
        for (; i + STEP <= n; i += STEP) scale_some(STEP, false, of, x + i);
    scale_some(n - i, offsets, of, x + i);
}

/* One value of a page. */
static void read_value(const struct pith_backend *b, const struct pith_cache_side *v,
                       const struct pith_cache_rows *rows, size_t place, float *to)
{
    const struct pith_row_code *r = v->code;
    const size_t each = pith_row_group_bytes(r);
    const uint8_t *page = (const uint8_t *)rows->page;
    const uint8_t *scales = page + PITH_KEYS * pith_value_stride(r) + place * r->groups * each;
    pith_cache_widen(b, r, page + place * pith_value_stride(r), r->cols, to);
    for (uint32_t g = 0, c = 0; g < r->groups; g++, c += r->width) {
        const struct pith_row_scale of =
            pith_row_scale_get(r, scale_of(v, rows->kv), scales + g * each);
        scale_group(pith_min(r->cols, c + r->width) - c, r->offsets, &of, to + c);
    }
    memset(to + r->cols, 0, (pith_cache_row(r->cols) - r->cols) * sizeof *to);
}

const float *pith_coded_value_tile(const struct pith_backend *b, const struct pith_cache_side *v,
                                   const struct pith_cache_rows *rows, float *wide)
{
    const size_t row = pith_cache_row(v->dim);
    for (size_t i = 0; i < rows->n; i++) read_value(b, v, rows, rows->first + i, wide + i * row);
    return wide;
}

/* --- reading in place ------------------------------------------------------------------------- */

bool pith_coded_kind(const struct pith_row_code *r, enum pith_code_kind *kind)
{
    const bool bytes = r->bits == 8, moved = r->zeros || r->offsets;
    if (!r->level && r->bits == 2) *kind = PITH_CODE_U2;
    else if (!r->level && !bytes && r->bits != 4) *kind = PITH_CODE_UN;
    else if (!r->level && moved) *kind = bytes ? PITH_CODE_U8 : PITH_CODE_U4;
    else if (!r->level) *kind = bytes ? PITH_CODE_S8 : PITH_CODE_S4;
    else if (is_fp8(r)) *kind = is_e5m2(r) ? PITH_CODE_E5M2 : PITH_CODE_E4M3;
    else *kind = r->bits == 4 ? PITH_CODE_LEVELS : PITH_CODE_FEW;
    if (4 * (size_t)r->groups * PITH_KEYS > PITH_KC * PITH_NC) return false;
    const bool reads_on = *kind == PITH_CODE_UN || *kind == PITH_CODE_FEW;
    if (reads_on && pith_page_scale_bytes(r) < PITH_CODED_AFTER) return false;
    return !r->level || r->bits <= 4 || is_fp8(r);
}

/* Powers of two, as num/elements/e8m0.c has them. */
static void spread_e8m0(const uint8_t *from, size_t n, float *to)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t c = from[i];
        const uint32_t bits = c == 0 ? 0x400000u : c == 255 ? 0x7fc00000u : c << 23;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

/* FP8 that is positive, as num/elements/float8.c has it: in place it is 2^120 too small. */
static void spread_e4m3(const uint8_t *from, size_t n, float factor, float *to)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)from[i] << 20;
        float x;
        memcpy(&x, &bits, sizeof x);
        to[i] = (from[i] == 0x7f ? NAN : x * 0x1p120f) * factor;
    }
}

/* n scales that lie one behind the other. */
static void spread_forms(const struct pith_kern *k, enum pith_dtype form, const uint8_t *from,
                         size_t n, float *to)
{
    if (form == PITH_F16) k->widen_f16(n, from, to);
    else if (form == PITH_BF16) k->widen_bf16(n, from, to);
    else if (form == PITH_F8_E8M0) spread_e8m0(from, n, to);
    else memcpy(to, from, n * sizeof *to);
}

/* Scales and bytes, alternating. */
static void spread_zeros(const struct pith_kern *k, const struct pith_row_code *r,
                         const uint8_t *from, size_t n, float *work)
{
    const size_t bytes = r->scale_bytes;
    float *zero = work + n;
    uint8_t *scales = (uint8_t *)(work + 2 * n);
    if (bytes == 2)
        for (size_t i = 0; i < n; i++) memcpy(scales + 2 * i, from + 3 * i, 2);
    else
        for (size_t i = 0; i < n; i++) memcpy(scales + 4 * i, from + 5 * i, 4);
    for (size_t i = 0; i < n; i++)
        zero[i] = r->middle + (float)(int8_t)from[(i + 1) * (bytes + 1) - 1];
    spread_forms(k, r->scale, scales, n, work);
}

/* Pairs of halves. */
static void spread_pairs(const struct pith_kern *k, const uint8_t *from, size_t n, float *work)
{
    float *both = work + 2 * n;
    k->widen_f16(2 * n, from, both);
    for (size_t i = 0; i < n; i++) {
        work[i] = both[2 * i];
        work[n + i] = both[2 * i + 1];
    }
}

void pith_spread_scales(const struct pith_backend *b, const struct pith_row_code *r,
                        const struct pith_page_scales *list, float *work, struct pith_coded *out)
{
    const uint8_t *scales = list->at;
    const size_t count = list->count;
    float *scale = work, *shift = work + count;
    out->scale = scale;
    if (r->offsets) spread_pairs(&b->kern, scales, count, work);
    else if (r->zeros) spread_zeros(&b->kern, r, scales, count, work);
    else if (r->scale == PITH_F8_E4M3) spread_e4m3(scales, count, list->of_head, scale);
    else if (r->scale_bytes) spread_forms(&b->kern, r->scale, scales, count, scale);
    else
        for (size_t i = 0; i < count; i++) scale[i] = list->of_head;
    if (r->offsets) out->offset = shift;
    if (r->zeros) out->zero = shift;
    const bool centred = out->kind == PITH_CODE_UN || out->kind == PITH_CODE_U2;
    if (!centred || r->offsets || r->zeros) return;
    for (size_t i = 0; i < count; i++) shift[i] = r->middle;
    out->zero = shift;
}

static void prefetch_scales(const uint8_t *next, size_t from, size_t bytes)
{
    for (size_t at = from; next && at < from + bytes; at += LINE) __builtin_prefetch(next + at);
}

bool pith_cache_key_view(const struct pith_backend *b, const struct pith_cache_side *k,
                         const struct pith_cache_rows *rows, float *work, struct pith_coded *out)
{
    const struct pith_row_code *r = k->code;
    const uint8_t *codes = (const uint8_t *)rows->page;
    *out = (struct pith_coded){.bits = r->bits,
                               .dim = r->cols,
                               .width = r->width,
                               .codes = codes,
                               .stride = pith_key_stride(r),
                               .level = r->level,
                               .next = (const uint8_t *)rows->next};
    if (k->plain || !pith_coded_kind(r, &out->kind)) return false;
    prefetch_scales(out->next, pith_key_codes(r), pith_page_scale_bytes(r));
    pith_spread_scales(b, r,
                       &(struct pith_page_scales){codes + pith_key_codes(r),
                                                  (size_t)r->groups * PITH_KEYS,
                                                  scale_of(k, rows->kv)},
                       work, out);
    return true;
}

bool pith_cache_value_view(const struct pith_backend *b, const struct pith_cache_side *v,
                           const struct pith_cache_rows *rows, float *work, struct pith_coded *out)
{
    const struct pith_row_code *r = v->code;
    const uint8_t *codes = (const uint8_t *)rows->page;
    const size_t first = rows->first, n = rows->n;
    const uint8_t *scales = codes + PITH_KEYS * pith_value_stride(r);
    *out = (struct pith_coded){.bits = r->bits,
                               .dim = r->cols,
                               .width = r->width,
                               .codes = codes + first * pith_value_stride(r),
                               .stride = pith_value_stride(r),
                               .level = r->level,
                               .next = (const uint8_t *)rows->next};
    if (r->cols % 16 != 0 || r->width % 16 != 0 || !pith_coded_kind(r, &out->kind)) return false;
    prefetch_scales(out->next, PITH_KEYS * pith_value_stride(r), pith_page_scale_bytes(r));
    pith_spread_scales(
        b, r,
        &(struct pith_page_scales){scales + first * r->groups * pith_row_group_bytes(r),
                                   n * r->groups, scale_of(v, rows->kv)},
        work, out);
    return true;
}

void pith_coded_scores(const struct pith_backend *b, const struct pith_cache_side *k,
                       const struct pith_cache_rows *rows, const struct pith_page_scores *s)
{
    struct pith_coded codes;
    if (s->count < PITH_FEW_ROWS && pith_cache_key_view(b, k, rows, s->work, &codes))
        b->kern.attn_scores_codes(&codes, s->count, s->q, s->ldq, s->scores, s->ld);
    else
        b->kern.attn_scores_f32(s->count, k->dim, 1, s->q, s->ldq,
                                pith_coded_key_tile(b, k, rows, s->work), s->scores, s->ld);
}

void pith_coded_values(const struct pith_backend *b, const struct pith_cache_side *v,
                       const struct pith_cache_rows *rows, const struct pith_coded_sums *sums,
                       float *work)
{
    struct pith_coded codes;
    if (sums->rows < PITH_FEW_ROWS && pith_cache_value_view(b, v, rows, work, &codes))
        b->kern.attn_values_codes(&codes, sums);
    else
        b->kern.attn_values_f32(sums->rows, sums->values, pith_cache_row(v->dim), sums->p,
                                sums->ldp, pith_coded_value_tile(b, v, rows, work), sums->o,
                                sums->ldo);
}

const struct pith_kv_kind pith_kv_grid = {
    .name = "grids",
    .page_bytes = pith_coded_page_bytes,
    .store = pith_coded_store,
    .key_tile = pith_coded_key_tile,
    .value_tile = pith_coded_value_tile,
    .scores = pith_coded_scores,
    .values = pith_coded_values,
    .takes_bytes = pith_coded_takes_bytes,
};
