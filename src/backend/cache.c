/* Pages of keys and values: storing, and reading them as floats. */
#include "backend/parts.h"

#include "base/mem.h"
#include "num/kivi.h"
#include "num/rowcode.h"

#include <math.h>
#include <string.h>

enum { LINE = 64 };

static size_t float_bytes(const struct pith_cache_side *s)
{
    return s->dtype == PITH_F32 ? 4 : 2;
}

/* n floats to and from the 16 bits that a side is kept in. */
static void narrow(const struct pith_backend *b, const struct pith_cache_side *s, size_t n,
                   const float *from, void *to)
{
    (s->dtype == PITH_F16 ? b->kern.narrow_f16 : b->kern.narrow_bf16)(n, from, to);
}

static void widen(const struct pith_backend *b, const struct pith_cache_side *s, size_t n,
                  const void *from, float *to)
{
    (s->dtype == PITH_F16 ? b->kern.widen_f16 : b->kern.widen_bf16)(n, from, to);
}

static float scale_of(const struct pith_cache_side *s, size_t kv)
{
    return s->scale ? s->scale[kv] : 1.0f;
}

/* --- where things lie ------------------------------------------------------------------------- */

/* Bytes of one value's codes. */
static size_t value_stride(const struct pith_row_code *r)
{
    return ((size_t)r->cols * r->bits + 7) / 8;
}

/* Bytes of 32 keys' codes of one element. */
static size_t key_stride(const struct pith_row_code *r)
{
    return 4 * (size_t)r->bits;
}

static size_t key_codes(const struct pith_row_code *r)
{
    return r->cols * key_stride(r);
}

static size_t beside_bytes(const struct pith_row_code *r)
{
    return (r->channels ? 1 : PITH_KEYS) * (size_t)r->groups * pith_row_beside(r);
}

/* Bytes of one head in a page; keys are `columns` of 32, values 32 rows. */
static bool side_bytes(struct pith_cache_side *s, bool keys)
{
    const struct pith_row_code *r = s->code;
    size_t dim = s->dim;
    if (r) {
        if (r->cols > PITH_CODED || r->cols + s->plain != s->dim) return false;
        if (r->kvquant) {
            s->bytes = pith_kvquant_bytes(r, keys);
            return true;
        }
        s->bytes = keys ? key_codes(r) : PITH_KEYS * value_stride(r);
        s->bytes += beside_bytes(r) + s->plain * PITH_KEYS * sizeof(uint16_t);
        /* Kernels look up to eight bytes beyond a code, where scales usually are. */
        if (r->bits != 8 && r->bits != 4 && beside_bytes(r) < 8) s->bytes += 8;
        s->bytes = (s->bytes + LINE - 1) / LINE * LINE;
        return true;
    }
    return pith_add_size(dim, 15, &dim) &&
           pith_mul_size(dim / 16 * 16, PITH_KEYS * float_bytes(s), &s->bytes);
}

bool pith_cache_layout(struct pith_cache *c)
{
    size_t both;
    if (!side_bytes(&c->k, true) || !side_bytes(&c->v, false)) return false;
    if (c->joined) c->v.bytes = 0;
    if (!pith_add_size(c->k.bytes, c->v.bytes, &both) ||
        !pith_mul_size(both, c->kv_heads, &c->page_bytes))
        return false;
    c->key_bytes = c->kv_heads * c->k.bytes;
    return true;
}

/* --- storing ---------------------------------------------------------------------------------- */

struct store {
    struct pith_backend *b;
    const struct pith_cache *c;
    const struct pith_cache_span *span;
    const float *k, *v;
    size_t first_block, blocks; /* of 32 positions */
};

/* Some rows of a head, ld floats apart, that go to the places from `place` on of its page. */
struct rows {
    const float *from;
    size_t ld, count, place, kv;
    char *page;
};

static void store_floats(const struct store *s, const struct pith_cache_side *side,
                         const struct rows *r)
{
    const size_t bytes = float_bytes(side), used = side->dim * bytes;
    const size_t row = pith_cache_row(side->dim) * bytes;
    const float *from = r->from;
    char *to = r->page + r->place * row;
    for (size_t i = 0; i < r->count; i++, from += r->ld, to += row) {
        if (bytes == 4) memcpy(to, from, used);
        else narrow(s->b, side, side->dim, from, to);
        memset(to + used, 0, row - used);
    }
}

/* Columns [first, first + n) of keys to 16 bits at `to`, [n][32]: where they are not on the grid
 * that the others are on, or there is none. */
static void store_turned(const struct store *s, const struct rows *r, size_t first, size_t n,
                         char *to)
{
    enum { STEP = 16 };
    const struct pith_cache_side *side = &s->c->k;
    float turned[STEP * PITH_KEYS];
    for (size_t e = 0; e < n; e += STEP) {
        const size_t m = pith_min(STEP, n - e);
        s->b->kern.transpose(r->count, m, r->from + first + e, r->ld, turned, PITH_KEYS);
        char *at = to + (e * PITH_KEYS + r->place) * 2;
        if (r->count == PITH_KEYS) {
            narrow(s->b, side, m * PITH_KEYS, turned, at);
            continue;
        }
        for (size_t i = 0; i < m; i++)
            narrow(s->b, side, r->count, turned + i * PITH_KEYS, at + i * PITH_KEYS * 2);
    }
}

static void store_keys(const struct store *s, const struct rows *r)
{
    const struct pith_cache_side *side = &s->c->k;
    if (side->dtype == PITH_F32)
        s->b->kern.transpose(r->count, side->dim, r->from, r->ld,
                             (float *)(void *)r->page + r->place, PITH_KEYS);
    else store_turned(s, r, 0, side->dim, r->page);
}

void pith_cache_put_key(const struct pith_row_code *r, const uint8_t *codes, size_t place,
                        uint8_t *to)
{
    const size_t stride = key_stride(r);
    for (uint32_t e = 0; e < r->cols; e++, to += stride) {
        if (r->bits == 8) to[place] = codes[e];
        else pith_bits_put(to, place, r->bits, 1, &codes[e]);
    }
}

static void store_codes(const struct store *s, const struct pith_cache_side *side,
                        const struct rows *r)
{
    const struct pith_row_code *code = side->code;
    const bool keys = side == &s->c->k;
    const size_t each = pith_row_beside(code);
    uint8_t codes[PITH_CODED], *page = (uint8_t *)r->page;
    uint8_t *scales = page + (keys ? key_codes(code) : PITH_KEYS * value_stride(code));
    struct pith_row_scale of[PITH_CODED];
    const float scale = scale_of(side, r->kv);
    for (size_t i = 0; i < r->count; i++) {
        const size_t place = r->place + i;
        pith_row_encode(code, scale, r->from + i * r->ld, codes, of);
        if (keys) pith_cache_put_key(code, codes, place, page);
        else pith_bits_put(page + place * value_stride(code), 0, code->bits, code->cols, codes);
        for (size_t g = 0; g < code->groups; g++)
            pith_row_scale_put(
                code, scale, &of[g],
                scales + each * (keys ? g * PITH_KEYS + place : place * code->groups + g));
    }
    if (side->plain)
        store_turned(s, r, code->cols, side->plain, (char *)scales + beside_bytes(code));
}

static void store_kvquant(const struct pith_cache_side *side, bool keys, size_t position,
                          const struct rows *r)
{
    pith_kvquant_store(side, keys,
                       &(struct pith_kvquant_put){.from = r->from,
                                                  .ld = r->ld,
                                                  .count = r->count,
                                                  .position = position,
                                                  .kv = r->kv,
                                                  .page = r->page});
}

static void store_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct store *s = ctx;
    const struct pith_cache *c = s->c;
    const size_t start = s->span->start, end = start + s->span->n;
    const size_t kv = task / s->blocks, block = s->first_block + task % s->blocks;
    const size_t from = block * PITH_KEYS > start ? block * PITH_KEYS : start;
    const size_t row = (from - start) * c->kv_heads + kv;
    struct rows r = {.from = s->k + row * c->k.dim,
                     .ld = c->kv_heads * c->k.dim,
                     .count = pith_min((block + 1) * PITH_KEYS, end) - from,
                     .place = from % PITH_KEYS,
                     .kv = kv,
                     .page = pith_cache_keys(c, s->span, from, kv)};
    if (!c->k.code) store_keys(s, &r);
    else if (c->k.code->kvquant) store_kvquant(&c->k, true, from, &r);
    else if (!c->k.code->channels) store_codes(s, &c->k, &r);
    if (c->joined) return;
    r.from = s->v + row * c->v.dim;
    r.ld = c->kv_heads * c->v.dim;
    r.page = pith_cache_values(c, s->span, from, kv);
    if (c->v.code && c->v.code->kvquant) store_kvquant(&c->v, false, from, &r);
    else if (c->v.code) store_codes(s, &c->v, &r);
    else store_floats(s, &c->v, &r);
}

void pith_cache_store(struct pith_backend *b, const struct pith_cache *c,
                      const struct pith_cache_span *span, const float *k, const float *v)
{
    enum { ALONE = 16384 }; /* floats below which waking a thread costs more than it does */
    const size_t start = span->start, n = span->n;
    if (n == 0) return;
    struct store s = {.b = b, .c = c, .span = span, .k = k, .v = v};
    s.first_block = start / PITH_KEYS;
    s.blocks = (start + n - 1) / PITH_KEYS - s.first_block + 1;
    const bool few = n * c->kv_heads * c->k.dim < ALONE;
    pith_pool_run(few ? NULL : b->pool, c->kv_heads * s.blocks, store_task, &s);
}

/* A page that is full, to codes by channel. */
struct closing {
    struct pith_backend *b;
    const struct pith_cache *c, *floats;
    const struct pith_cache_span *span;
    size_t first, pages;
};

static void close_task(void *ctx, size_t task, unsigned thread)
{
    const struct closing *s = ctx;
    const struct pith_row_code *code = s->c->k.code;
    const size_t kv = task / s->pages, position = (s->first + task % s->pages) * PITH_KEYS;
    const struct pith_cache_span plain = {.page = s->span->plain};
    const float *x =
        pith_cache_key_tile(s->b, &s->floats->k,
                            &(struct pith_cache_rows){
                                .page = pith_cache_keys(s->floats, &plain, position, kv), .kv = kv},
                            s->b->scratch[thread].b);
    uint8_t codes[PITH_KEYS], *to = (uint8_t *)pith_cache_keys(s->c, s->span, position, kv);
    uint8_t *beside = to + key_codes(code);
    for (uint32_t e = 0; e < code->cols; e++, x += PITH_KEYS) {
        struct pith_row_scale of = {0};
        pith_kivi_encode(code->bits, x, PITH_KEYS, codes, &of.scale, &of.offset);
        pith_bits_put(to + e * key_stride(code), 0, code->bits, PITH_KEYS, codes);
        pith_row_scale_put(code, 1.0f, &of, beside + e * pith_row_beside(code));
    }
    narrow(s->b, &s->c->k, s->c->k.plain * PITH_KEYS, x, beside + beside_bytes(code));
}

void pith_cache_close(struct pith_backend *b, const struct pith_cache *c,
                      const struct pith_cache *floats, const struct pith_cache_span *span)
{
    struct closing s = {.b = b, .c = c, .floats = floats, .span = span};
    s.first = span->start / PITH_KEYS;
    s.pages = (span->start + span->n) / PITH_KEYS - s.first;
    if (!c->k.code || !c->k.code->channels || s.pages == 0) return;
    pith_pool_run(s.pages == 1 ? NULL : b->pool, c->kv_heads * s.pages, close_task, &s);
}

/* --- reading ---------------------------------------------------------------------------------- */

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

/* Of the two formats of eight bits that are no integers. */
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
    else if (r->level && r->bits == 8)
        (is_e5m2(r) ? b->kern.widen_e5m2 : b->kern.widen_e4m3)(n, stream, to);
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

bool pith_cache_folds(const struct pith_cache_side *k)
{
    return k->code->channels && k->plain == 0;
}

const float *pith_cache_key_tile(const struct pith_backend *b, const struct pith_cache_side *k,
                                 const struct pith_cache_rows *rows, float *wide)
{
    const struct pith_row_code *r = k->code;
    if (!r) {
        if (k->dtype == PITH_F32) return (const float *)(const void *)rows->page;
        widen(b, k, k->dim * PITH_KEYS, rows->page, wide);
        return wide;
    }
    if (r->kvquant) {
        pith_kvquant_key_tile(b, k, rows, wide);
        return wide;
    }
    const uint8_t *codes = (const uint8_t *)rows->page, *scales = codes + key_codes(r);
    const float scale_of_head = scale_of(k, rows->kv);
    const size_t each = pith_row_beside(r);
    pith_cache_widen(b, r, codes, (size_t)r->cols * PITH_KEYS, wide);
    for (uint32_t e = 0; r->channels && !pith_cache_folds(k) && e < r->cols; e++) {
        const struct pith_row_scale of = pith_row_scale_get(r, 1.0f, scales + e * each);
        float *x = wide + (size_t)e * PITH_KEYS;
        for (size_t j = 0; j < PITH_KEYS; j++) x[j] = x[j] * of.scale + of.offset;
    }
    for (uint32_t g = 0, e = 0; g < r->groups && !r->channels; g++, e += r->width) {
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
    if (k->plain)
        widen(b, k, k->plain * PITH_KEYS, scales + beside_bytes(r),
              wide + (size_t)r->cols * PITH_KEYS);
    return wide;
}

void pith_cache_key_strip(const struct pith_backend *b, const struct pith_cache_side *k,
                          const struct pith_cache_rows *rows, const struct pith_key_strip *strip,
                          float *out)
{
    float wide[PITH_STRIP * PITH_KEYS];
    const size_t at = strip->first * PITH_KEYS, n = strip->n;
    const bool coded = strip->tile != NULL;
    const float *from = coded ? strip->tile + at : wide;
    if (!coded && k->dtype == PITH_F32) from = (const float *)(const void *)rows->page + at;
    else if (!coded) widen(b, k, n * PITH_KEYS, rows->page + at * sizeof(uint16_t), wide);
    b->kern.transpose(n, PITH_KEYS, from, PITH_KEYS, out, PITH_STRIP);
    for (size_t i = 0; n < PITH_STRIP && i < PITH_KEYS; i++)
        memset(out + i * PITH_STRIP + n, 0, (PITH_STRIP - n) * sizeof *out);
}

/* n numbers of a group as its scale makes them; in steps whose number compilers know. */
static inline void scale_some(size_t n, bool offsets, const struct pith_row_scale *of,
                              float *restrict x)
{
    const float scale = of->scale, beside = offsets ? of->offset : of->zero;
    for (size_t i = 0; i < n; i++) x[i] = offsets ? x[i] * scale + beside : (x[i] - beside) * scale;
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
    const size_t each = pith_row_beside(r);
    const uint8_t *page = (const uint8_t *)rows->page;
    const uint8_t *beside_it = page + PITH_KEYS * value_stride(r) + place * r->groups * each;
    pith_cache_widen(b, r, page + place * value_stride(r), r->cols, to);
    for (uint32_t g = 0, c = 0; g < r->groups; g++, c += r->width) {
        const struct pith_row_scale of =
            pith_row_scale_get(r, scale_of(v, rows->kv), beside_it + g * each);
        scale_group(pith_min(r->cols, c + r->width) - c, r->offsets, &of, to + c);
    }
    memset(to + r->cols, 0, (pith_cache_row(r->cols) - r->cols) * sizeof *to);
}

const float *pith_cache_value_tile(const struct pith_backend *b, const struct pith_cache_side *v,
                                   const struct pith_cache_rows *rows, float *wide)
{
    const size_t row = pith_cache_row(v->dim), first = rows->first, n = rows->n;
    const char *page = rows->page;
    if (!v->code) {
        if (v->dtype == PITH_F32) return (const float *)(const void *)page + first * row;
        widen(b, v, n * row, page + first * row * 2, wide);
        return wide;
    }
    if (v->code->kvquant) pith_kvquant_values(b, v, rows, wide);
    else
        for (size_t i = 0; i < n; i++) read_value(b, v, rows, first + i, wide + i * row);
    return wide;
}

/* Whether kernels know codes of that kind, and there is room for what lies beside a page's. */
static bool kind_of(const struct pith_row_code *r, enum pith_code_kind *kind)
{
    const bool bytes = r->bits == 8, moved = r->zeros || r->offsets;
    if (!r->level && r->bits == 2) *kind = PITH_CODE_U2;
    else if (!r->level && !bytes && r->bits != 4) *kind = PITH_CODE_UN;
    else if (!r->level && moved) *kind = bytes ? PITH_CODE_U8 : PITH_CODE_U4;
    else if (!r->level) *kind = bytes ? PITH_CODE_S8 : PITH_CODE_S4;
    else if (!bytes) *kind = r->bits == 4 ? PITH_CODE_LEVELS : PITH_CODE_FEW;
    else
        *kind = is_e5m2(r) ? PITH_CODE_E5M2 : PITH_CODE_E4M3;
    if (4 * (size_t)r->groups * PITH_KEYS > PITH_KC * PITH_NC) return false;
    const bool reads_on = *kind == PITH_CODE_UN || *kind == PITH_CODE_FEW;
    if (reads_on && beside_bytes(r) < PITH_CODED_AFTER) return false;
    return !r->level || bytes || r->bits <= 4;
}

/* Powers of two, as num/e8m0.c has them. */
static void spread_e8m0(const uint8_t *from, size_t n, float *to)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t c = from[i];
        const uint32_t bits = c == 0 ? 0x400000u : c == 255 ? 0x7fc00000u : c << 23;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

/* FP8 that is positive, as num/float8.c has it: in place it is 2^120 too small. */
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

/* Scales and bytes by turns. */
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

/* What lies beside codes of a head. */
struct beside {
    const uint8_t *at;
    size_t count;
    float of_head; /* the static scale */
};

/* To lists in work, 4 * count floats: the scales, then what is beside them. */
static void spread_scales(const struct pith_backend *b, const struct pith_row_code *r,
                          const struct beside *list, float *work, struct pith_coded *out)
{
    const uint8_t *scales = list->at;
    const size_t count = list->count;
    float *scale = work, *beside = work + count;
    out->scale = scale;
    if (r->offsets) spread_pairs(&b->kern, scales, count, work);
    else if (r->zeros) spread_zeros(&b->kern, r, scales, count, work);
    else if (r->scale == PITH_F8_E4M3) spread_e4m3(scales, count, list->of_head, scale);
    else if (r->scale_bytes) spread_forms(&b->kern, r->scale, scales, count, scale);
    else
        for (size_t i = 0; i < count; i++) scale[i] = list->of_head;
    if (r->offsets) out->offset = beside;
    if (r->zeros) out->zero = beside;
    const bool centred = out->kind == PITH_CODE_UN || out->kind == PITH_CODE_U2;
    if (!centred || r->offsets || r->zeros) return;
    for (size_t i = 0; i < count; i++) beside[i] = r->middle;
    out->zero = beside;
}

void pith_cache_key_channels(const struct pith_backend *b, const struct pith_cache_side *k,
                             const struct pith_cache_rows *rows, float *work,
                             struct pith_key_channels *out)
{
    const struct pith_row_code *r = k->code;
    spread_pairs(&b->kern, (const uint8_t *)rows->page + key_codes(r), r->cols, work);
    *out = (struct pith_key_channels){.scale = work, .least = work + r->cols};
}

/* Codes as they are. */
static void bare_codes(float *work, struct pith_coded *out)
{
    for (size_t i = 0; i < PITH_KEYS; i++) work[i] = 1, work[PITH_KEYS + i] = 0;
    out->width = out->dim;
    out->scale = work;
    out->zero = work + PITH_KEYS;
}

static void ask_beside(const uint8_t *next, size_t from, size_t bytes)
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
                               .stride = key_stride(r),
                               .level = r->level,
                               .next = (const uint8_t *)rows->next};
    if (k->plain || r->kvquant || !kind_of(r, &out->kind)) return false;
    if (r->channels) {
        bare_codes(work, out);
        return true;
    }
    ask_beside(out->next, key_codes(r), beside_bytes(r));
    spread_scales(b, r,
                  &(struct beside){codes + key_codes(r), (size_t)r->groups * PITH_KEYS,
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
    const uint8_t *scales = codes + PITH_KEYS * value_stride(r);
    *out = (struct pith_coded){.bits = r->bits,
                               .dim = r->cols,
                               .width = r->width,
                               .codes = codes + first * value_stride(r),
                               .stride = value_stride(r),
                               .level = r->level,
                               .next = (const uint8_t *)rows->next};
    if (r->kvquant || r->cols % 16 != 0 || r->width % 16 != 0 || !kind_of(r, &out->kind))
        return false;
    ask_beside(out->next, PITH_KEYS * value_stride(r), beside_bytes(r));
    spread_scales(b, r,
                  &(struct beside){scales + first * r->groups * pith_row_beside(r), n * r->groups,
                                   scale_of(v, rows->kv)},
                  work, out);
    return true;
}

void pith_cache_read(const struct pith_backend *b, const struct pith_cache *c,
                     const struct pith_cache_span *span, size_t position, size_t kv, float *out)
{
    float *wide = b->scratch[0].b;
    const size_t place = position % PITH_KEYS;
    const struct pith_cache_rows whole = {
        .page = pith_cache_keys(c, span, position, kv), .kv = kv, .position = position - place};
    const float *keys = pith_cache_key_tile(b, &c->k, &whole, wide);
    for (size_t e = 0; e < c->k.dim; e++) out[e] = keys[e * PITH_KEYS + place];
    if (c->k.code && pith_cache_folds(&c->k)) {
        struct pith_key_channels of;
        pith_cache_key_channels(
            b, &c->k, &(struct pith_cache_rows){.page = pith_cache_keys(c, span, position, kv)},
            wide, &of);
        for (size_t e = 0; e < c->k.dim; e++) out[e] = out[e] * of.scale[e] + of.least[e];
    }
    if (c->joined) {
        memcpy(out + c->k.dim, out, c->v.dim * sizeof *out);
        return;
    }
    const char *values = pith_cache_values(c, span, position, kv);
    memcpy(out + c->k.dim,
           pith_cache_value_tile(
               b, &c->v,
               &(struct pith_cache_rows){.page = values, .kv = kv, .first = place, .n = 1}, wide),
           c->v.dim * sizeof *out);
}
