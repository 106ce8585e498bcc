/* The bits of every operation on fixed inputs, as a hash: they are the same on every CPU, compiler
 * and thread count, so files made on one machine can be made again on another. A change here means
 * that pith's numbers have changed; it must be meant, and said in CHANGELOG. */
#include "setups.h"

enum { N = 37, D = 150, HEADS = 6, KV = 2, DIM = 25 };

static uint64_t hash(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

/* Without logarithms, whose last bit is libm's. */
static float *uniforms(size_t n, uint64_t seed)
{
    struct pith_rng r;
    float *x = floats(n);
    pith_rng_seed(&r, seed);
    for (size_t i = 0; i < n; i++) x[i] = (float)(pith_rng_unit(&r) * 2 - 1);
    return x;
}

static uint64_t hash_linear(struct pith_backend *b, size_t n)
{
    float *x = uniforms(N * D, 1), *w = uniforms(D * D, 2), *bias = uniforms(D, 3);
    float *y = floats(N * D);
    const struct pith_weight weight = {.rows = D, .cols = D, .dtype = PITH_F32, .dense = w};
    pith_linear(b, &weight, bias, x, n, y);
    const uint64_t h = hash(y, n * D * sizeof *y);
    pith_free(y);
    pith_free(bias);
    pith_free(w);
    pith_free(x);
    return h;
}

static uint64_t hash_factor(struct pith_backend *b)
{
    struct pith_error err = {0};
    float *x = uniforms(300 * D, 4), *h = floats(D * D);
    for (size_t i = 0; i < D; i++) h[i * D + i] = 0.25f;
    pith_syrk(b, h, D, x, 300, 1.0f / 64);
    assert_ok(pith_cholesky_upper(b, h, D, NULL, &err), err);
    const uint64_t result = hash(h, D * D * sizeof *h);
    pith_free(h);
    pith_free(x);
    return result;
}

static uint64_t hash_attention(struct pith_backend *b, enum pith_dtype dtype)
{
    float *q = uniforms(N * HEADS * DIM, 5), *k = uniforms(N * KV * DIM, 6);
    float *v = uniforms(N * KV * DIM, 7);
    pith_rope(b, q, N, HEADS * DIM, HEADS, DIM - 1, k, v);
    struct pith_cache cache = cache_make(b, dtype, KV, DIM, N, k, v);
    const struct pith_cache_span span = {.n = N};
    const struct pith_attention a = {.span = &span,
                                     .spans = 1,
                                     .heads = HEADS,
                                     .window = 20,
                                     .scale = 2.0f,
                                     .cache = &cache,
                                     .q = q,
                                     .out = q};
    pith_attention(b, &a);
    cache_free(&cache);
    const uint64_t h = hash(q, N * HEADS * DIM * sizeof *q);
    pith_free(v);
    pith_free(k);
    pith_free(q);
    return h;
}

static uint64_t hash_rows(struct pith_backend *b)
{
    float *x = uniforms(N * D, 8), *up = uniforms(N * D, 9);
    double sums[N];
    for (size_t i = 0; i < N * D; i++) x[i] *= 40;
    pith_logsumexp(b, x, N, D, sums);
    pith_silu_mul(b, x, up, N * D);
    pith_rmsnorm(b, x, N, D, up, 1e-6, x);
    const uint64_t h = hash(x, N * D * sizeof *x) ^ hash(sums, sizeof sums);
    pith_free(up);
    pith_free(x);
    return h;
}

static void pinned(const char *what, uint64_t got, uint64_t want)
{
    if (got != want)
        fail_msg("%s: 0x%016llx, expected 0x%016llx", what, (unsigned long long)got,
                 (unsigned long long)want);
}

static void results_have_the_recorded_bits(void **state)
{
    (void)state;
    struct setups s;
    setups_open(&s);
    for (size_t i = 0; i < s.count; i++) {
        struct pith_backend *b = s.backend[i];
        pinned("linear", hash_linear(b, N), 0xf87403492c2d37bd);
        pinned("linear, one row", hash_linear(b, 1), 0x5da1cd7389d9c151);
        pinned("syrk and cholesky", hash_factor(b), 0xd52028495199ee2a);
        pinned("rope and attention", hash_attention(b, PITH_F32), 0xa682a40259b4895e);
        pinned("the same over bfloat16", hash_attention(b, PITH_BF16), 0x400225f683ef6eac);
        pinned("row operations", hash_rows(b), 0xaff786ecf1025f90);
    }
    setups_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(results_have_the_recorded_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
