/* Caches whose pages become codes, each beside the floats of the pages that stay such: what the
 * tests of such formats share. */
#ifndef TESTS_PAIRED_H
#define TESTS_PAIRED_H

#include "setups.h"

struct shape {
    size_t n, start, heads, kv_heads, dim;
};
static const struct shape paired_shapes[] = {
    {1, 0, 1, 1, 16},   {1, 95, 8, 2, 64},   {70, 30, 4, 1, 64}, {3, 520, 2, 2, 128},
    {33, 64, 6, 2, 12}, {20, 130, 8, 1, 80}, {5, 31, 2, 2, 1},   {3, 40, 40, 1, 32}};

/* Pages of both, with rubbish in them. */
static inline void paired_open(struct pith_cache *cache, struct pith_cache *floats, size_t pages)
{
    const struct pith_cache_side k = {.dtype = PITH_BF16, .dim = cache->k.dim},
                                 v = {.dtype = PITH_BF16, .dim = cache->v.dim};
    *floats = (struct pith_cache){.kv_heads = cache->kv_heads, .k = k, .v = v};
    assert_true(pith_cache_layout(cache) && pith_cache_layout(floats));
    cache->memory = pith_alloc_aligned(pages, cache->page_bytes);
    floats->memory = pith_alloc_aligned(pages, floats->page_bytes);
    assert_true(cache->memory && floats->memory);
    memset(cache->memory, 0xff, pages * cache->page_bytes);
    memset(floats->memory, 0xff, pages * floats->page_bytes);
}

/* Rows [from, tokens) of k and v into both, by unequal stretches. */
static inline void paired_fill(struct pith_backend *b, const struct pith_cache *cache,
                               const struct pith_cache *floats, const float *k, const float *v,
                               const struct pith_cache_span *part)
{
    const size_t row = cache->kv_heads * cache->k.dim, end = part->start + part->n;
    for (size_t i = part->start, n; i < end; i += n) {
        n = i % 3 == 0 ? 1 : i % 3 == 1 ? 70 : 29;
        if (n > end - i) n = end - i;
        const struct pith_cache_span span = {.start = i, .n = n};
        pith_cache_store(b, cache, &span, k + i * row, v + i * row);
        pith_cache_store(b, floats, &span, k + i * row, v + i * row);
        pith_cache_close(b, cache, floats, &span);
    }
}

/* Queries over the numbers that they see, in double. */
static inline void paired_naive(const struct pith_attention *a, struct pith_backend *b, double *out)
{
    const size_t dim = a->cache->k.dim, group = a->heads / a->cache->kv_heads;
    const struct pith_cache_span all = {.n = a->span->start + a->span->n};
    float both[2 * 256];
    double *score = pith_alloc(all.n, sizeof *score);
    assert_non_null(score);
    for (size_t i = 0; i < a->span->n * a->heads; i++) {
        const size_t last = a->span->start + i / a->heads, kv = i % a->heads / group;
        const float *q = a->q + i * dim;
        double most = -INFINITY, sum = 0;
        memset(out + i * dim, 0, dim * sizeof *out);
        for (int pass = 0; pass < 2; pass++)
            for (size_t j = 0; j <= last; j++) {
                const bool near = j / 32 + a->recent > last / 32 || j / 32 < a->sink;
                pith_cache_read(b, near ? a->plain : a->cache, &all, j, kv, both);
                if (pass == 0) {
                    score[j] = 0;
                    for (size_t e = 0; e < dim; e++) score[j] += (double)q[e] * (double)both[e];
                    score[j] *= (double)a->scale;
                    most = fmax(most, score[j]);
                    continue;
                }
                const double w = exp(score[j] - most);
                sum += w;
                for (size_t e = 0; e < dim; e++) out[i * dim + e] += w * (double)both[dim + e];
            }
        for (size_t e = 0; e < dim; e++) out[i * dim + e] /= sum;
    }
    pith_free(score);
}

/* Runs `a`, whose span is one, into first[n][heads][dim] by the first of the setups, which is
 * judged by exact[]; others, and queries one at a time, are to give the same bits. */
static inline void paired_attend(struct setups *s, size_t i, struct pith_attention a, float *first,
                                 float *out)
{
    const size_t row = a.heads * a.cache->k.dim, count = a.span->n * row;
    const struct pith_cache_span all = *a.span;
    const float *q = a.q;
    a.out = i == 0 ? first : out;
    pith_attention(s->backend[i], &a);
    if (i == 0) {
        double *exact = pith_alloc(count, sizeof *exact);
        assert_non_null(exact);
        paired_naive(&a, s->backend[i], exact);
        for (size_t e = 0; e < count; e++)
            if (fabs((double)first[e] - exact[e]) > 2e-5)
                fail_msg("element %zu is %g, not %g", e, (double)first[e], exact[e]);
        pith_free(exact);
    } else {
        assert_same(out, first, count, "many queries", i);
    }
    for (size_t t = 0; t < all.n; t += 5) { /* one at a time */
        const struct pith_cache_span one = {.start = all.start + t, .n = 1};
        a.span = &one;
        a.q = q + t * row;
        a.out = out;
        pith_attention(s->backend[i], &a);
        assert_same(out, first + t * row, row, "one query", i);
    }
}

#endif
