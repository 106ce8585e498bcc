/* The backends that every test runs on: all tiers of this machine, one to three threads. The
 * first is scalar with one thread: the others must give its bits. */
#ifndef PITH_TEST_SETUPS_H
#define PITH_TEST_SETUPS_H

#include "backend/backend.h"
#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"
#include "test.h"

#include <float.h>
#include <math.h>

struct setups {
    size_t count;
    struct pith_pool *pool[24];
    struct pith_backend *backend[24];
};

static inline void setups_open(struct setups *s)
{
    static const char *const tiers[] = {"scalar", "avx2", "avx512", "vnni",
                                        "bf16",   "amx",  "neon",   "dotprod"};
    struct pith_error err = {0};
    s->count = 0;
    for (size_t t = 0; t < PITH_COUNT(tiers); t++) {
        const uint32_t mask = (uint32_t)pith_cpu_mask(tiers[t]);
        if ((pith_cpu_detect() & mask) != mask) continue;
        for (unsigned threads = 1; threads <= 3; threads++) {
            const size_t i = s->count++;
            assert_ok(pith_pool_new(threads, &s->pool[i], &err), err);
            assert_ok(pith_backend_new(s->pool[i], mask, &s->backend[i], &err), err);
            assert_string_equal(pith_backend_cpu(s->backend[i]), tiers[t]);
            assert_ptr_equal(pith_backend_pool(s->backend[i]), s->pool[i]);
        }
    }
}

static inline void setups_close(struct setups *s)
{
    for (size_t i = 0; i < s->count; i++) {
        pith_backend_free(s->backend[i]);
        pith_pool_free(s->pool[i]);
    }
}

static inline float *floats(size_t n)
{
    float *x = pith_zalloc(n, sizeof *x);
    assert_non_null(x);
    return x;
}

static inline float *normals(size_t n, uint64_t seed)
{
    struct pith_rng r;
    float *x = floats(n);
    pith_rng_seed(&r, seed);
    for (size_t i = 0; i < n; i++) x[i] = (float)pith_rng_normal(&r);
    return x;
}

static inline float *copy(const float *x, size_t n)
{
    float *y = floats(n);
    memcpy(y, x, n * sizeof *y);
    return y;
}

/* A cache of `keys` positions filled from k and v [keys][kv_heads][head_dim]; free it by
 * cache_free(). Stored in uneven stretches, into memory that holds NaN before. */
static inline struct pith_cache cache_make(struct pith_backend *b, enum pith_dtype dtype,
                                           size_t kv_heads, size_t head_dim, size_t keys,
                                           const float *k, const float *v)
{
    struct pith_cache c = {.kv_heads = kv_heads,
                           .k = {.dtype = dtype, .dim = head_dim},
                           .v = {.dtype = dtype, .dim = head_dim}};
    assert_true(pith_cache_layout(&c));
    const size_t pages = pith_cache_pages(keys);
    if (keys % 2) c.apart = pages;
    c.memory = pith_alloc_aligned(pages, c.page_bytes);
    assert_non_null(c.memory);
    memset(c.memory, 0xff, pages * c.page_bytes);
    for (size_t i = 0, n; i < keys; i += n) {
        n = i % 3 == 0 ? 1 : i % 3 == 1 ? 70 : 29;
        if (n > keys - i) n = keys - i;
        const size_t at = i * kv_heads * head_dim;
        pith_cache_store(b, &c, &(struct pith_cache_span){.start = i, .n = n}, k + at, v + at);
    }
    return c;
}

static inline void cache_free(struct pith_cache *c)
{
    pith_free(c->memory);
}

/* Same bits; names the setup and the first difference otherwise. */
static inline void assert_same(const float *a, const float *b, size_t n, const char *what,
                               size_t setup)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s, setup %zu: element %zu is %a, expected %a", what, setup, i, (double)a[i],
                     (double)b[i]);
}

/* |x - exact| <= 4 sqrt(n) u sum|ab|: far below the worst case, far above what random rounding
 * gives. */
static inline void assert_sum(float x, double exact, double magnitude, size_t n, const char *what)
{
    const double bound = 4 * sqrt((double)n + 1) * FLT_EPSILON / 2 * magnitude + FLT_MIN;
    if (!(fabs((double)x - exact) <= bound))
        fail_msg("%s: %.9g, exact %.9g, bound %.3g", what, (double)x, exact, bound);
}

/* Random codes, scales and zeros; shuffled: a scale a column. */
static inline void fill_qmat(struct pith_qmat *q, bool shuffled)
{
    struct pith_rng r;
    pith_rng_seed(&r, q->cols);
    uint8_t *codes = pith_alloc(q->cols, 1);
    assert_non_null(codes);
    const bool integer = q->format->kind == PITH_KIND_INT;
    for (uint32_t i = 0; i < q->rows; i++) {
        for (uint32_t c = 0; c < q->cols; c++) {
            codes[c] = (uint8_t)pith_rng_below(&r, 1u << q->format->bits);
            if (!integer && !isfinite(q->format->decode(codes[c]))) codes[c] = 1;
        }
        pith_qmat_set_codes(q, i, codes);
    }
    const size_t scales = pith_qmat_scale_count(q);
    for (size_t i = 0; i < scales; i++) {
        q->scales[i] = pith_round_to(q->scale_dtype, (float)(0.01 + pith_rng_unit(&r)));
        if (q->zeros) q->zeros[i] = (uint8_t)pith_rng_below(&r, 1u << q->format->bits);
    }
    if (shuffled) {
        q->g_idx = pith_alloc(q->cols, sizeof *q->g_idx);
        assert_non_null(q->g_idx);
        for (uint32_t c = 0; c < q->cols; c++)
            q->g_idx[c] = (uint32_t)pith_rng_below(&r, q->groups);
    }
    pith_free(codes);
}

#endif
