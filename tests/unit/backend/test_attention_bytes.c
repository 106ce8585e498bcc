/* Attention of the fast mode over codes that are integers of 4 bits: the same bits on every setup
 * and for any split of the queries, whatever lies in places that hold nothing yet; and what bytes
 * cost beside the formula in double over the numbers that the cache holds. */
#include "num/rowcode.h"
#include "setups.h"

struct shape {
    size_t n, start, heads, kv_heads, dim, window;
};

struct coded {
    struct pith_row_code code;
    float level[PITH_ROW_LEVELS];
    struct pith_cache cache;
};

/* Filled in one stretch, and one position by one; unwritten scales are NaN. */
static void coded_open(struct coded *c, struct pith_backend *b, const char *name, struct shape s,
                       const float *k, const float *v)
{
    struct pith_error err = {0};
    struct pith_grid grid;
    const size_t tokens = s.start + s.n, row = s.kv_heads * s.dim;
    const struct pith_cache_span first = {.n = s.start};
    assert_ok(pith_grid_parse(name, &grid, &err), err);
    pith_kv_grid_settle(&grid);
    assert_ok(pith_row_code_make(&grid, (uint32_t)s.dim, c->level, &c->code, &err), err);
    c->cache = (struct pith_cache){.kv_heads = s.kv_heads,
                                   .k = {.code = &c->code, .dim = s.dim},
                                   .v = {.code = &c->code, .dim = s.dim}};
    assert_true(pith_cache_layout(&c->cache));
    const size_t bytes = pith_cache_pages(tokens) * c->cache.page_bytes;
    c->cache.memory = pith_alloc_aligned(bytes, 1);
    assert_non_null(c->cache.memory);
    memset(c->cache.memory, 0xff, bytes);
    pith_cache_store(b, &c->cache, &first, k, v);
    for (size_t t = s.start; t < tokens; t++)
        pith_cache_store(b, &c->cache, &(struct pith_cache_span){.start = t, .n = 1}, k + t * row,
                         v + t * row);
}

/* Query i / heads, head i % heads. */
static void naive(const struct pith_attention *a, struct pith_backend *b, size_t i, double *out)
{
    const size_t dim = a->cache->k.dim, group = a->heads / a->cache->kv_heads;
    const size_t end = a->span->start + i / a->heads + 1;
    const struct pith_cache_span all = {.n = a->span->start + a->span->n};
    float both[2 * 256];
    double most = -INFINITY, sum = 0;
    double *score = pith_alloc(end, sizeof *score);
    assert_non_null(score);
    memset(out, 0, dim * sizeof *out);
    for (int pass = 0; pass < 2; pass++)
        for (size_t j = a->window && end > a->window ? end - a->window : 0; j < end; j++) {
            pith_cache_read(b, a->cache, &all, j, i % a->heads / group, both);
            if (pass == 0) {
                score[j] = 0;
                for (size_t e = 0; e < dim; e++)
                    score[j] += (double)a->scale * (double)a->q[i * dim + e] * (double)both[e];
                most = fmax(most, score[j]);
                continue;
            }
            sum += exp(score[j] - most);
            for (size_t e = 0; e < dim; e++) out[e] += exp(score[j] - most) * (double)both[dim + e];
        }
    for (size_t e = 0; e < dim; e++) out[e] /= sum;
    pith_free(score);
}

/* How far from the formula, root mean square, relative. */
static double error_of(const struct pith_attention *a, struct pith_backend *b, const float *got)
{
    const size_t dim = a->cache->k.dim;
    double out[256], error = 0, all = 0;
    for (size_t i = 0; i < a->span->n * a->heads; i++) {
        naive(a, b, i, out);
        for (size_t e = 0; e < dim; e++) {
            error += ((double)got[i * dim + e] - out[e]) * ((double)got[i * dim + e] - out[e]);
            all += out[e] * out[e];
        }
    }
    return sqrt(error / all);
}

static void attends(struct setups *s, const char *name, struct shape c)
{
    const size_t row = c.kv_heads * c.dim, tokens = c.start + c.n, count = c.n * c.heads * c.dim;
    float *q = normals(count, 1), *k = normals(tokens * row, 2), *v = normals(tokens * row, 3);
    float *first = floats(count), *out = floats(count);
    for (size_t i = 0; i < tokens * row; i += 7) k[i] *= 5;
    for (size_t i = 0; i < s->count; i++) {
        struct coded at;
        struct pith_backend *b = s->backend[i];
        const struct pith_cache_span span = {.start = c.start, .n = c.n};
        coded_open(&at, b, name, c, k, v);
        struct pith_attention a = {.span = &span,
                                   .spans = 1,
                                   .heads = c.heads,
                                   .window = c.window,
                                   .scale = 1 / sqrtf((float)c.dim),
                                   .cache = &at.cache,
                                   .q = q,
                                   .out = out};
        assert_ok(pith_backend_set_mode(b, PITH_MODE_EXACT, NULL), (struct pith_error){0});
        if (i == 0) {
            pith_attention(b, &a);
            const double exact = error_of(&a, b, out);
            if (!(exact < 1e-6)) fail_msg("%s: exact is %g off", name, exact);
        }
        assert_ok(pith_backend_set_mode(b, PITH_MODE_FAST, NULL), (struct pith_error){0});
        a.out = i == 0 ? first : out;
        pith_attention(b, &a);
        assert_same(a.out, first, count, name, i);
        if (i == 0) {
            const double fast = error_of(&a, b, first);
            /* A byte of 127 steps and numbers three times their root mean square: 0.7%, of queries
             * and of weights; and it is bytes that were multiplied. */
            if (!(fast < 0.02 && fast > 1e-5)) fail_msg("%s: fast is %g off", name, fast);
        }
        for (size_t t = 0; t < c.n; t += 3) {
            const struct pith_cache_span one = {.start = c.start + t, .n = 1};
            a.span = &one;
            a.q = q + t * c.heads * c.dim;
            a.out = out;
            pith_attention(b, &a);
            assert_same(out, first + t * c.heads * c.dim, c.heads * c.dim, "one query", i);
        }
        pith_free(at.cache.memory);
    }
    pith_free(out), pith_free(first), pith_free(v), pith_free(k), pith_free(q);
}

static void bytes_are_the_same_everywhere(void **state)
{
    (void)state;
    static const char *const names[] = {"int4:g32", "int4:token", "int4:g32:asym", "int4:g64:asym"};
    static const struct shape shapes[] = {{40, 70, 4, 1, 64, 0},
                                          {5, 31, 6, 1, 64, 0},
                                          {37, 0, 3, 3, 128, 0},
                                          {20, 530, 8, 2, 64, 45}};
    struct setups s;
    setups_open(&s);
    for (size_t n = 0; n < PITH_COUNT(names); n++)
        for (size_t i = 0; i < PITH_COUNT(shapes); i++) attends(&s, names[n], shapes[i]);
    setups_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_are_the_same_everywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
