/* exllama2 to exllama8: the quantized cache of ExLlamaV3. Groups of 32 numbers of a head are
 * multiplied by the Hadamard matrix H of that order, and lie in the middles of 2^bits equal steps
 * from -s to s, s being the largest magnitude:
 *
 *     v = H x / sqrt(32),  code = floor(v / s * m + m) clamped,  m = 2^(bits - 1)
 *     x' = H ((code - (m - 1/2)) * (s / sqrt(32) / m))
 *
 * with s in a half for reading. Products with H are sums of pairs, of neighbours first; each step
 * is rounded to float32. Attention multiplies queries with H instead of keys, and sums of values
 * instead of values. */
#include "backend/cache/pages.h"

#include "base/mem.h"

#include <math.h>
#include <string.h>

enum { GROUP = 32 };
static const float root = 0.17677669529663688110f; /* 1 / sqrt(32) */

/* H x without its factor, of x[32][32]: each column a group. */
static void rotate_columns(float *x)
{
    for (size_t step = 1; step < GROUP; step *= 2)
        for (size_t i = 0; i < GROUP; i++) {
            if (i & step) continue;
            float *restrict a = x + i * PITH_KEYS, *restrict b = x + (i + step) * PITH_KEYS;
            for (size_t j = 0; j < PITH_KEYS; j++) {
                const float u = a[j], v = b[j];
                a[j] = u + v;
                b[j] = u - v;
            }
        }
}

/* One round of it, of a group that lies in a row; in steps whose number compilers know. ExLlamaV3
 * adds neighbours first, and codes are to be its own to the bit; pith_hadamard_rows() adds halves
 * first. */
static inline void rotate_step(size_t step, float *x)
{
    for (size_t i = 0; i < GROUP; i += 2 * step)
        for (size_t j = i; j < i + step; j++) {
            const float u = x[j], v = x[j + step];
            x[j] = u + v;
            x[j + step] = u - v;
        }
}

/* The groups of x[count][cols], rows ld floats apart. */
static void rotate_rows(size_t count, size_t cols, size_t ld, float *x)
{
    for (size_t r = 0; r < count; r++)
        for (size_t c = 0; c < cols; c += GROUP) {
            rotate_step(1, x + r * ld + c);
            rotate_step(2, x + r * ld + c);
            rotate_step(4, x + r * ld + c);
            rotate_step(8, x + r * ld + c);
            rotate_step(16, x + r * ld + c);
        }
}

/* What the scale of a group is multiplied with. */
static float factor_of(const struct pith_row_code *r, float scale)
{
    return scale * root * (1 / (r->middle + 0.5f));
}

/* --- rows ------------------------------------------------------------------------------------- */

static void encode(const struct pith_row_code *r, float scale, const float *x, uint8_t *codes,
                   struct pith_row_scale *of)
{
    const float m = r->middle + 0.5f, last = 2 * m - 1;
    (void)scale;
    for (uint32_t g = 0; g < r->groups; g++, x += GROUP, codes += GROUP) {
        float v[GROUP], most = 0, sum = 0;
        memcpy(v, x, sizeof v);
        rotate_rows(1, GROUP, GROUP, v);
        for (size_t i = 0; i < GROUP; i++) {
            v[i] *= root;
            most = fmaxf(most, fabsf(v[i]));
            sum += v[i] * 0;
        }
        most = fminf(most + 1e-10f, 65504.0f);
        const float inverse = 1 / most;
        for (size_t i = 0; i < GROUP; i++) {
            const float at = floorf(fmaf(v[i] * inverse, m, m));
            codes[i] = (uint8_t)fmaxf(0, fminf(at, last));
        }
        of[g] = (struct pith_row_scale){.scale = sum == 0 ? most : NAN};
    }
}

static void decode(const struct pith_row_code *r, const uint8_t *codes,
                   const struct pith_row_scale *of, float *x)
{
    for (uint32_t c = 0; c < r->cols; c++)
        x[c] = ((float)codes[c] - r->middle) * factor_of(r, of[c / GROUP].scale);
    rotate_rows(1, r->cols, r->cols, x);
}

static enum pith_status code(const struct pith_kv_heads *heads, float *level,
                             struct pith_row_code *out, struct pith_error *err)
{
    (void)level;
    if (heads->cols % GROUP != 0)
        return pith_fail(err, PITH_UNSUPPORTED, "exllama%u: heads of %u numbers, not of whole 32s",
                         heads->bits, heads->cols);
    *out = (struct pith_row_code){.encode = encode,
                                  .decode = decode,
                                  .kind = &pith_kv_exllama,
                                  .cols = heads->cols,
                                  .width = GROUP,
                                  .groups = heads->cols / GROUP,
                                  .bits = heads->bits,
                                  .scale = PITH_F16,
                                  .scale_bytes = 2,
                                  .middle = (float)(1u << (heads->bits - 1)) - 0.5f};
    return PITH_OK;
}

/* --- pages, without the product with H -------------------------------------------------------- */

static void scales_of(const struct pith_backend *b, const struct pith_row_code *r,
                      const uint8_t *from, size_t n, float *to)
{
    b->kern.widen_f16(n, from, to);
    for (size_t i = 0; i < n; i++) to[i] = factor_of(r, to[i]);
}

/* n scales from `scales` on, and the middle as often, in work. */
static struct pith_coded view_of(const struct pith_backend *b, const struct pith_row_code *r,
                                 const uint8_t *scales, size_t n, float *work)
{
    static const uint8_t kinds[] = {[2] = PITH_CODE_U2, [4] = PITH_CODE_U4, [8] = PITH_CODE_U8};
    const bool even = r->bits == 2 || r->bits == 4 || r->bits == 8;
    scales_of(b, r, scales, n, work);
    for (size_t i = 0; i < n; i++) work[n + i] = r->middle;
    return (struct pith_coded){.kind = even ? (enum pith_code_kind)kinds[r->bits] : PITH_CODE_UN,
                               .bits = r->bits,
                               .dim = r->cols,
                               .width = GROUP,
                               .scale = work,
                               .zero = work + n};
}

static struct pith_coded key_view(const struct pith_backend *b, const struct pith_row_code *r,
                                  const struct pith_cache_rows *rows, float *work)
{
    const uint8_t *page = (const uint8_t *)rows->page;
    struct pith_coded c = view_of(b, r, page + pith_key_codes(r), r->groups * PITH_KEYS, work);
    c.codes = page;
    c.stride = pith_key_stride(r);
    c.next = (const uint8_t *)rows->next;
    return c;
}

static struct pith_coded value_view(const struct pith_backend *b, const struct pith_row_code *r,
                                    const struct pith_cache_rows *rows, float *work)
{
    const uint8_t *page = (const uint8_t *)rows->page;
    const uint8_t *scales = page + PITH_KEYS * pith_value_stride(r);
    struct pith_coded c =
        view_of(b, r, scales + 2 * rows->first * r->groups, rows->n * r->groups, work);
    c.codes = page + rows->first * pith_value_stride(r);
    c.stride = pith_value_stride(r);
    c.next = (const uint8_t *)rows->next;
    return c;
}

static void bare_keys(const struct pith_backend *b, const struct pith_cache_side *k,
                      const struct pith_cache_rows *rows, float *wide)
{
    const struct pith_row_code *r = k->code;
    const uint8_t *page = (const uint8_t *)rows->page;
    float scale[PITH_CODED];
    scales_of(b, r, page + pith_key_codes(r), r->groups * PITH_KEYS, scale);
    pith_cache_widen(b, r, page, (size_t)r->cols * PITH_KEYS, wide);
    for (size_t g = 0; g < r->groups; g++)
        b->kern.scale_keys(GROUP, NULL, scale + g * PITH_KEYS, NULL, wide + g * GROUP * PITH_KEYS);
}

static void bare_values(const struct pith_backend *b, const struct pith_cache_side *v,
                        const struct pith_cache_rows *rows, float *wide)
{
    const struct pith_row_code *r = v->code;
    const uint8_t *page = (const uint8_t *)rows->page;
    float scale[PITH_CODED];
    scales_of(b, r, page + PITH_KEYS * pith_value_stride(r) + 2 * rows->first * r->groups,
              rows->n * r->groups, scale);
    for (size_t i = 0; i < rows->n; i++) {
        pith_cache_widen(b, r, page + (rows->first + i) * pith_value_stride(r), r->cols, wide);
        for (size_t g = 0; g < r->groups; g++, wide += GROUP)
            for (size_t e = 0; e < GROUP; e++) wide[e] *= scale[i * r->groups + g];
    }
}

/* --- reading ---------------------------------------------------------------------------------- */

static const float *key_tile(const struct pith_backend *b, const struct pith_cache_side *k,
                             const struct pith_cache_rows *rows, float *wide)
{
    const struct pith_row_code *r = k->code;
    bare_keys(b, k, rows, wide);
    for (size_t g = 0; g < r->groups; g++) rotate_columns(wide + g * GROUP * PITH_KEYS);
    pith_widen_plain(b, k, rows, wide);
    return wide;
}

static const float *value_tile(const struct pith_backend *b, const struct pith_cache_side *v,
                               const struct pith_cache_rows *rows, float *wide)
{
    bare_values(b, v, rows, wide);
    rotate_rows(rows->n, v->dim, v->dim, wide);
    return wide;
}

/* Latents, which have a part that is not in codes, are tiles of numbers. */
static size_t query_floats(const struct pith_cache_side *k)
{
    return k->plain ? 0 : k->dim;
}

static void scores(const struct pith_backend *b, const struct pith_cache_side *k,
                   const struct pith_cache_rows *rows, const struct pith_page_scores *s)
{
    if (k->plain) {
        pith_tile_scores(b, k, rows, s);
        return;
    }
    memcpy(s->query, s->q, s->count * s->ldq * sizeof *s->q);
    rotate_rows(s->count, k->dim, s->ldq, s->query);
    if (s->count < PITH_FEW_ROWS) {
        const struct pith_coded codes = key_view(b, k->code, rows, s->work);
        b->kern.attn_scores_codes(&codes, s->count, s->query, s->ldq, s->scores, s->ld);
    } else {
        bare_keys(b, k, rows, s->work);
        b->kern.attn_scores_f32(s->count, k->dim, 1, s->query, s->ldq, s->work, s->scores, s->ld);
    }
}

/* Sums of a page's values, some rows at a time, are multiplied with H and then added. */
static void values(const struct pith_backend *b, const struct pith_cache_side *v,
                   const struct pith_cache_rows *rows, const struct pith_coded_sums *sums,
                   float *work)
{
    enum { SOME = 4 * PITH_CODED };
    const size_t dim = v->dim, most = SOME / dim;
    const bool few = sums->rows < PITH_FEW_ROWS;
    struct pith_coded codes;
    float sum[SOME];
    if (few) codes = value_view(b, v->code, rows, work);
    else bare_values(b, v, rows, work);
    for (size_t first = 0; first < sums->rows; first += most) {
        const size_t n = pith_min(most, sums->rows - first);
        const float *p = sums->p + first * sums->ldp;
        memset(sum, 0, n * dim * sizeof *sum);
        if (few)
            b->kern.attn_values_codes(
                &codes, &(struct pith_coded_sums){n, sums->values, p, sums->ldp, sum, dim});
        else b->kern.attn_values_f32(n, sums->values, dim, p, sums->ldp, work, sum, dim);
        rotate_rows(n, dim, dim, sum);
        for (size_t i = 0; i < n; i++)
            b->kern.add(dim, sum + i * dim, sums->o + (first + i) * sums->ldo);
    }
}

const struct pith_kv_kind pith_kv_exllama = {
    .name = "exllama",
    .code = code,
    .page_bytes = pith_coded_page_bytes,
    .store = pith_coded_store,
    .key_tile = key_tile,
    .value_tile = value_tile,
    .scores = scores,
    .values = values,
    .query_floats = query_floats,
};
