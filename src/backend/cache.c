/* Storing keys and values as attention reads them. */
#include "backend/parts.h"

#include "base/mem.h"

#include <string.h>

bool pith_cache_layout(struct pith_cache *c)
{
    const size_t size = c->dtype == PITH_F32 ? 4 : 2;
    size_t key = c->head_dim, value = pith_cache_value(c), both;
    if (!pith_add_size(key, 15, &key) || !pith_add_size(value, 15, &value)) return false;
    return pith_mul_size(key / 16 * 16, PITH_KEYS * size, &c->k_bytes) &&
           pith_mul_size(value / 16 * 16, PITH_KEYS * size, &c->v_bytes) &&
           pith_add_size(c->k_bytes, c->v_bytes, &both) &&
           pith_mul_size(both, c->kv_heads, &c->page_bytes);
}

struct store {
    struct pith_backend *b;
    const struct pith_cache *c;
    const struct pith_cache_span *span;
    const float *k, *v;
    size_t first_block, blocks; /* of 32 positions */
};

/* count rows of width floats, ld apart, to rows `row` elements apart, the rest of each zero. */
static void store_values(const struct store *s, const float *src, size_t ld, size_t count,
                         char *dst)
{
    const struct pith_cache *c = s->c;
    const size_t bytes = c->dtype == PITH_F32 ? 4 : 2, dim = pith_cache_value(c);
    const size_t row = pith_cache_row(dim) * bytes, used = dim * bytes;
    for (size_t i = 0; i < count; i++, src += ld, dst += row) {
        if (bytes == 4) memcpy(dst, src, used);
        else s->b->kern.narrow_bf16(dim, src, dst);
        memset(dst + used, 0, row - used);
    }
}

/* count keys, ld floats apart, to the places from `place` on of the block at dst. */
static void store_keys(const struct store *s, const float *src, size_t ld, size_t count,
                       size_t place, char *dst)
{
    const struct pith_kern *k = &s->b->kern;
    const size_t dim = s->c->head_dim;
    if (s->c->dtype == PITH_F32) {
        k->transpose(count, dim, src, ld, (float *)(void *)dst + place, PITH_KEYS);
        return;
    }
    enum { STEP = 16 };
    float transposed[STEP * PITH_KEYS];
    for (size_t e = 0; e < dim; e += STEP) {
        const size_t n = pith_min(STEP, dim - e);
        k->transpose(count, n, src + e, ld, transposed, PITH_KEYS);
        char *at = dst + (e * PITH_KEYS + place) * 2;
        if (count == PITH_KEYS) {
            k->narrow_bf16(n * PITH_KEYS, transposed, at);
            continue;
        }
        for (size_t i = 0; i < n; i++)
            k->narrow_bf16(count, transposed + i * PITH_KEYS, at + i * PITH_KEYS * 2);
    }
}

static void store_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct store *s = ctx;
    const struct pith_cache *c = s->c;
    const size_t start = s->span->start, end = start + s->span->n;
    const size_t kv = task / s->blocks, block = s->first_block + task % s->blocks;
    const size_t from = block * PITH_KEYS > start ? block * PITH_KEYS : start;
    const size_t count = pith_min((block + 1) * PITH_KEYS, end) - from;
    const size_t bytes = c->dtype == PITH_F32 ? 4 : 2, row = (from - start) * c->kv_heads + kv;
    const size_t key = c->head_dim, value = pith_cache_value(c);
    store_keys(s, s->k + row * key, c->kv_heads * key, count, from % PITH_KEYS,
               pith_cache_keys(c, s->span, from, kv));
    store_values(s, s->v + row * value, c->kv_heads * value, count,
                 pith_cache_values(c, s->span, from, kv) +
                     from % PITH_KEYS * pith_cache_row(value) * bytes);
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
    const bool few = n * c->kv_heads * c->head_dim < ALONE;
    pith_pool_run(few ? NULL : b->pool, c->kv_heads * s.blocks, store_task, &s);
}
