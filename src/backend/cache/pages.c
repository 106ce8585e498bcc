/* Pages of keys and values: their layout, storing, and reading them as floats. How a side is stored
 * depends on its kind (backend/cache/pages.h). */
#include "backend/cache/pages.h"

#include "base/mem.h"

#include <string.h>

/* --- where things lie ------------------------------------------------------------------------- */

static bool side_bytes(struct pith_cache_side *s, bool keys)
{
    const struct pith_row_code *r = s->code;
    if (r && (r->cols > PITH_CODED || r->cols + s->plain != s->dim)) return false;
    return pith_cache_kind(s)->page_bytes(s, keys, &s->bytes);
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

static void store_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct store *s = ctx;
    const struct pith_cache *c = s->c;
    const size_t start = s->span->start, end = start + s->span->n;
    const size_t kv = task / s->blocks, block = s->first_block + task % s->blocks;
    const size_t from = block * PITH_KEYS > start ? block * PITH_KEYS : start;
    const size_t row = (from - start) * c->kv_heads + kv;
    struct pith_cache_put put = {.from = s->k + row * c->k.dim,
                                 .ld = c->kv_heads * c->k.dim,
                                 .count = pith_min((block + 1) * PITH_KEYS, end) - from,
                                 .position = from,
                                 .kv = kv,
                                 .page = pith_cache_keys(c, s->span, from, kv)};
    pith_cache_kind(&c->k)->store(s->b, &c->k, true, &put);
    if (c->joined) return;
    put.from = s->v + row * c->v.dim;
    put.ld = c->kv_heads * c->v.dim;
    put.page = pith_cache_values(c, s->span, from, kv);
    pith_cache_kind(&c->v)->store(s->b, &c->v, false, &put);
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

/* Pages of keys that are full, to codes. */
struct closing {
    struct pith_backend *b;
    const struct pith_cache *c, *floats;
    const struct pith_cache_span *span;
    size_t first, pages;
};

static void close_task(void *ctx, size_t task, unsigned thread)
{
    const struct closing *s = ctx;
    const size_t kv = task / s->pages, position = (s->first + task % s->pages) * PITH_KEYS;
    const struct pith_cache_span plain = {.page = s->span->plain};
    const struct pith_cache_rows rows = {.page = pith_cache_keys(s->floats, &plain, position, kv),
                                         .kv = kv};
    const float *x = pith_cache_key_tile(s->b, &s->floats->k, &rows, s->b->scratch[thread].b);
    pith_cache_kind(&s->c->k)->close(s->b, &s->c->k, x,
                                     pith_cache_keys(s->c, s->span, position, kv));
}

void pith_cache_close(struct pith_backend *b, const struct pith_cache *c,
                      const struct pith_cache *floats, const struct pith_cache_span *span)
{
    struct closing s = {.b = b, .c = c, .floats = floats, .span = span};
    s.first = span->start / PITH_KEYS;
    s.pages = (span->start + span->n) / PITH_KEYS - s.first;
    if (!pith_cache_kind(&c->k)->close || s.pages == 0) return;
    pith_pool_run(s.pages == 1 ? NULL : b->pool, c->kv_heads * s.pages, close_task, &s);
}

/* --- reading ---------------------------------------------------------------------------------- */

const float *pith_cache_key_tile(const struct pith_backend *b, const struct pith_cache_side *k,
                                 const struct pith_cache_rows *rows, float *wide)
{
    return pith_cache_kind(k)->key_tile(b, k, rows, wide);
}

/* n of a head's values from `first` on, [n][dim padded], where they are or in wide. */
static const float *cache_value_tile(const struct pith_backend *b, const struct pith_cache_side *v,
                                     const struct pith_cache_rows *rows, float *wide)
{
    return pith_cache_kind(v)->value_tile(b, v, rows, wide);
}

void pith_tile_scores(const struct pith_backend *b, const struct pith_cache_side *k,
                      const struct pith_cache_rows *rows, const struct pith_page_scores *s)
{
    b->kern.attn_scores_f32(s->count, k->dim, 1, s->q, s->ldq,
                            pith_cache_key_tile(b, k, rows, s->work), s->scores, s->ld);
}

void pith_tile_values(const struct pith_backend *b, const struct pith_cache_side *v,
                      const struct pith_cache_rows *rows, const struct pith_coded_sums *sums,
                      float *work)
{
    b->kern.attn_values_f32(sums->rows, sums->values, pith_cache_row(v->dim), sums->p, sums->ldp,
                            cache_value_tile(b, v, rows, work), sums->o, sums->ldo);
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
    else if (!coded) pith_side_widen(b, k, n * PITH_KEYS, rows->page + at * sizeof(uint16_t), wide);
    b->kern.transpose(n, PITH_KEYS, from, PITH_KEYS, out, PITH_STRIP);
    for (size_t i = 0; n < PITH_STRIP && i < PITH_KEYS; i++)
        memset(out + i * PITH_STRIP + n, 0, (PITH_STRIP - n) * sizeof *out);
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
    if (c->joined) {
        memcpy(out + c->k.dim, out, c->v.dim * sizeof *out);
        return;
    }
    const char *values = pith_cache_values(c, span, position, kv);
    memcpy(out + c->k.dim,
           cache_value_tile(
               b, &c->v,
               &(struct pith_cache_rows){.page = values, .kv = kv, .first = place, .n = 1}, wide),
           c->v.dim * sizeof *out);
}
