/* Pages of num/kvquant.h: what they have in addition to codes, storing, and reading as floats.
 *
 *     keys of a head    codes | steps [32] | ends [32] | outliers
 *     its values        codes | range, middle [32] | ends [32] | outliers
 *
 * Outliers are halves, then their columns; a position's are those from the end of the one before to
 * its own end, so what is stored of a position depends on it and on those before it in the page
 * alone, however they were cut, and one that is stored again finds its place. */
#include "backend/cache/pages.h"

#include "base/mem.h"
#include "num/kvquant.h"
#include "num/rowcode.h"

#include <string.h>

/* One in so many numbers can be an outlier, and more in the rest of a page's last line; at most as
 * many as a byte can count. Calibration makes one in a hundred such. */
enum { SHARE = 75, MOST = 255, LINE = 64 };

/* Where the parts of a head's page lie; the codes at 0. */
struct places {
    size_t scales, ends, outliers, columns, end;
    uint32_t slots, width; /* outliers, bytes of a column */
};

static struct places places_of(const struct pith_row_code *r, bool keys)
{
    const size_t codes = keys ? pith_key_codes(r) : PITH_KEYS * pith_value_stride(r);
    struct places p = {.scales = codes, .width = r->cols > 256 ? 2 : 1};
    const size_t each = sizeof(uint16_t) + p.width;
    p.ends = codes + PITH_KEYS * (size_t)(keys ? 1 : pith_row_group_bytes(r));
    p.outliers = p.ends + PITH_KEYS;
    p.end = p.outliers + each * ((PITH_KEYS * (size_t)r->cols + SHARE - 1) / SHARE);
    p.end = (p.end + LINE - 1) / LINE * LINE;
    p.slots = (uint32_t)pith_min(MOST, (p.end - p.outliers) / each);
    p.columns = p.outliers + sizeof(uint16_t) * p.slots;
    return p;
}

static bool page_bytes(const struct pith_cache_side *s, bool keys, size_t *bytes)
{
    *bytes = places_of(s->code, keys).end;
    return true;
}

uint32_t pith_kvquant_slots(const struct pith_row_code *r, bool keys)
{
    return places_of(r, keys).slots;
}

/* --- storing ---------------------------------------------------------------------------------- */

/* A key before rope: the inverse of pith_cache_rope at a position. */
static void rope_inverse(const struct pith_cache_rope *t, size_t position, float *x)
{
    const size_t half = t->dim / 2;
    const size_t at = position / PITH_KEYS * half * PITH_KEYS + position % PITH_KEYS;
    const float *cos = t->cos + at, *sin = t->sin + at;
    x += t->offset;
    for (size_t i = 0; i < half; i++, cos += PITH_KEYS, sin += PITH_KEYS) {
        const size_t a = t->adjacent ? 2 * i : i, b = t->adjacent ? 2 * i + 1 : i + half;
        const float u = x[a], v = x[b];
        x[a] = (u * *cos + v * *sin) * t->back;
        x[b] = (v * *cos - u * *sin) * t->back;
    }
}

static void put_outliers(const struct places *p, const struct pith_kvquant_row *row, uint8_t *page,
                         size_t place)
{
    const size_t first = place ? page[p->ends + place - 1] : 0;
    for (size_t i = 0; i < row->outliers; i++) {
        (void)pith_dtype_encode(PITH_F16, &row->outlier[i], 1,
                                page + p->outliers + sizeof(uint16_t) * (first + i));
        memcpy(page + p->columns + p->width * (first + i), &row->column[i], p->width);
    }
    page[p->ends + place] = (uint8_t)(first + row->outliers);
}

static void store(struct pith_backend *b, const struct pith_cache_side *side, bool keys,
                  const struct pith_cache_put *put)
{
    (void)b;
    const struct pith_row_code *r = side->code;
    const struct places p = places_of(r, keys);
    float x[PITH_CODED], outlier[MOST];
    uint16_t column[MOST];
    uint8_t code[PITH_CODED], *page = (uint8_t *)put->page;
    struct pith_kvquant_row row = {.code = code, .column = column, .outlier = outlier};
    struct pith_kvquant q = {
        .bits = r->bits, .cols = r->cols, .level = r->level, .beyond = r->beyond};
    if (keys) {
        q.middle = side->middle + put->kv * r->cols;
        q.range = side->range + put->kv * r->cols;
    }
    for (size_t i = 0; i < put->count; i++) {
        const size_t place = (put->position + i) % PITH_KEYS;
        row.room = p.slots - (place ? (uint32_t)pith_min(p.slots, page[p.ends + place - 1]) : 0);
        memcpy(x, put->from + i * put->ld, r->cols * sizeof *x);
        if (keys && side->rope) rope_inverse(side->rope, put->position + i, x);
        if (keys) pith_kvquant_key(&q, x, &row);
        else pith_kvquant_value(&q, x, &row);
        put_outliers(&p, &row, page, place);
        if (keys) {
            pith_cache_put_key(r, code, place, page);
            page[p.scales + place] = row.step;
            continue;
        }
        const struct pith_row_scale of = {.scale = row.range, .offset = row.middle};
        pith_bits_put(page + place * pith_value_stride(r), 0, r->bits, r->cols, code);
        pith_row_scale_put(r, 1.0f, &of, page + p.scales + place * pith_row_group_bytes(r));
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

/* The outliers of places [first, first + n) to [.. place * place_step + column * column_step].
 * Places that nothing was stored in may say anything. */
struct spread {
    size_t first, n, place_step, column_step;
};
static void put_back(const struct pith_backend *b, const struct pith_row_code *r,
                     const struct places *p, const uint8_t *page, const struct spread *s, float *to)
{
    float outlier[MOST];
    size_t i = s->first ? page[p->ends + s->first - 1] : 0;
    const size_t most = pith_min(p->slots, page[p->ends + s->first + s->n - 1]);
    if (i >= most && s->n == 1) return;
    b->kern.widen_f16(p->slots, page + p->outliers, outlier);
    for (size_t place = 0; place < s->n; place++) {
        const size_t end = pith_min(p->slots, page[p->ends + s->first + place]);
        for (; i < end; i++) {
            uint16_t column = page[p->columns + p->width * i];
            if (p->width == 2) memcpy(&column, page + p->columns + 2 * i, 2);
            if (column < r->cols) to[place * s->place_step + column * s->column_step] = outlier[i];
        }
    }
}

/* Rotates a tile of keys by the angles of its positions. */
static void rope_tile(const struct pith_backend *b, const struct pith_cache_rope *t,
                      size_t position, float *tile)
{
    const size_t half = t->dim / 2, at = position / PITH_KEYS * half * PITH_KEYS;
    tile += t->offset * PITH_KEYS;
    for (size_t i = 0; i < half; i++) {
        const size_t low = t->adjacent ? 2 * i : i, high = t->adjacent ? 2 * i + 1 : i + half;
        b->kern.rope_pairs(PITH_KEYS, t->cos + at + i * PITH_KEYS, t->sin + at + i * PITH_KEYS,
                           tile + low * PITH_KEYS, tile + high * PITH_KEYS);
    }
}

/* Levels of keys times what their ranges grew by. */
static void grow_tile(const uint8_t *step, uint32_t cols, float *tile)
{
    float factor[PITH_KEYS];
    for (size_t j = 0; j < PITH_KEYS; j++) factor[j] = pith_kvquant_factor(step[j]);
    for (uint32_t e = 0; e < cols; e++)
        for (size_t j = 0; j < PITH_KEYS; j++) tile[e * PITH_KEYS + j] *= factor[j];
}

/* In steps whose number compilers know. */
static inline void scale_some_kvquant(float scale, float offset, size_t n, float *x)
{
    enum { STEP = 16 };
    size_t i = 0;
    for (; i + STEP <= n; i += STEP)
        for (size_t k = i; k < i + STEP; k++) x[k] = x[k] * scale + offset;
    for (; i < n; i++) x[i] = x[i] * scale + offset;
}

static const float *key_tile(const struct pith_backend *b, const struct pith_cache_side *k,
                             const struct pith_cache_rows *rows, float *wide)
{
    const struct pith_row_code *r = k->code;
    const struct places p = places_of(r, true);
    const uint8_t *page = (const uint8_t *)rows->page;
    const float *middle = k->middle + rows->kv * r->cols, *range = k->range + rows->kv * r->cols;
    static const uint8_t none[PITH_KEYS];
    pith_cache_widen(b, r, page, (size_t)r->cols * PITH_KEYS, wide);
    if (memcmp(page + p.scales, none, sizeof none) != 0) grow_tile(page + p.scales, r->cols, wide);
    for (uint32_t e = 0; e < r->cols; e++)
        scale_some_kvquant(range[e], middle[e], PITH_KEYS, wide + e * PITH_KEYS);
    put_back(b, r, &p, page, &(struct spread){0, PITH_KEYS, 1, PITH_KEYS}, wide);
    if (k->rope) rope_tile(b, k->rope, rows->position, wide);
    return wide;
}

static const float *value_tile(const struct pith_backend *b, const struct pith_cache_side *v,
                               const struct pith_cache_rows *rows, float *wide)
{
    const struct pith_row_code *r = v->code;
    const struct places p = places_of(r, false);
    const uint8_t *page = (const uint8_t *)rows->page;
    const size_t ld = pith_cache_row(r->cols), stride = pith_value_stride(r);
    float *to = wide, of[2 * PITH_KEYS]; /* ranges and middles, alternating */
    b->kern.widen_f16(2 * rows->n, page + p.scales + rows->first * pith_row_group_bytes(r), of);
    for (size_t i = 0; i < rows->n; i++, to += ld) {
        pith_cache_widen(b, r, page + (rows->first + i) * stride, r->cols, to);
        scale_some_kvquant(of[2 * i], of[2 * i + 1], r->cols, to);
        memset(to + r->cols, 0, (ld - r->cols) * sizeof *to);
    }
    put_back(b, r, &p, page, &(struct spread){rows->first, rows->n, ld, 1}, wide);
    return wide;
}

/* --- the kind --------------------------------------------------------------------------------- */

struct pith_row_code pith_row_code_kvquant(unsigned bits, uint32_t cols, bool keys,
                                           const float *level)
{
    return (struct pith_row_code){.kind = &pith_kv_kvquant,
                                  .cols = cols,
                                  .width = cols,
                                  .groups = 1,
                                  .bits = bits,
                                  .scale = PITH_F16,
                                  .scale_bytes = keys ? 0 : 2,
                                  .offsets = !keys,
                                  .level = level};
}

/* Its levels come from calibration, later. */
static enum pith_status code(const struct pith_kv_heads *heads, float *level,
                             struct pith_row_code *out, struct pith_error *err)
{
    (void)level, (void)err;
    *out = pith_row_code_kvquant(heads->bits, heads->cols, heads->keys, NULL);
    return PITH_OK;
}

const struct pith_kv_kind pith_kv_kvquant = {
    .name = "kvquant",
    .needs = PITH_KV_LEVELS,
    .least_sink = 1, /* the first position is not used to make levels */
    .channels = true,
    .code = code,
    .page_bytes = page_bytes,
    .store = store,
    .key_tile = key_tile,
    .value_tile = value_tile,
    .scores = pith_tile_scores,
    .values = pith_tile_values,
};
