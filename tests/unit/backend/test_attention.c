/* pith_attention against the formula in double; with queries and weights in FP8 against PyTorch's
 * casts (tests/golden/backend/make_attention_fp8.py); the same bits on every setup, for any split
 * of the queries, with and without work space. */
#include "base/json.h"
#include "num/elements/minifloat.h"
#include "num/format.h"
#include "setups.h"

static void naive(const struct pith_attention *a, const float *k, const float *v, double *out)
{
    const size_t kv_heads = a->cache->kv_heads, hd = a->cache->k.dim;
    const size_t group = a->heads / kv_heads;
    const size_t start = a->span->start, n = a->span->n;
    double *p = pith_alloc(start + n, sizeof *p);
    assert_non_null(p);
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < a->heads; h++) {
            const size_t last = start + i, kv = h / group;
            const size_t first = a->window && last + 1 > a->window ? last + 1 - a->window : 0;
            double max = -INFINITY, sum = 0;
            for (size_t j = first; j <= last; j++) {
                double s = 0;
                for (size_t e = 0; e < hd; e++)
                    s += (double)a->q[(i * a->heads + h) * hd + e] *
                         (double)k[(j * kv_heads + kv) * hd + e];
                p[j] = s * (double)a->scale;
                max = fmax(max, p[j]);
            }
            for (size_t j = first; j <= last; j++) sum += p[j] = exp(p[j] - max);
            for (size_t e = 0; e < hd; e++) {
                double s = 0;
                for (size_t j = first; j <= last; j++)
                    s += p[j] * (double)v[(j * kv_heads + kv) * hd + e];
                out[(i * a->heads + h) * hd + e] = s / sum;
            }
        }
    pith_free(p);
}

struct shape {
    size_t n, start, heads, kv_heads, head_dim, window;
};

/* One query at a time, as decoding would: by the threads' own memory, then sharing the positions.
 */
static void check_decoding(struct pith_backend *b, struct pith_attention a, const float *q,
                           const float *first, size_t setup)
{
    const size_t row = a.heads * a.cache->k.dim, n = a.span->n, start = a.span->start;
    const size_t floats = pith_attention_work(a.heads, a.cache->k.dim, start + n);
    float *work = floats ? normals(floats, 12) : NULL, *out = floats ? copy(q, row) : NULL;
    struct pith_cache_span one = {.n = 1};
    a.span = &one;
    for (size_t t = 0; t < n; t += 7) {
        one.start = start + t;
        for (int shared = 0; shared < 2; shared++) {
            memcpy(out, q + t * row, row * sizeof *out);
            a.q = a.out = out; /* in place */
            a.work = shared ? work : NULL;
            a.work_floats = shared ? floats : 0;
            pith_attention(b, &a);
            assert_same(out, first + t * row, row, "attention of one query", setup);
        }
    }
    pith_free(out);
    pith_free(work);
}

static void one_case(struct setups *s, enum pith_dtype dtype, struct shape c)
{
    const size_t row = c.heads * c.head_dim, count = c.n * row, positions = c.start + c.n,
                 keys = positions * c.kv_heads * c.head_dim;
    float *q = normals(count, 9), *k = normals(keys, 10), *v = normals(keys, 11),
          *first = floats(count);
    double *exact = pith_alloc(count, sizeof *exact);
    assert_non_null(exact);
    const struct pith_cache_span span = {.n = c.n, .start = c.start};
    struct pith_attention a = {.span = &span,
                               .spans = 1,
                               .heads = c.heads,
                               .window = c.window,
                               .scale = 1.0f / sqrtf((float)c.head_dim),
                               .q = q,
                               .out = first};
    for (size_t i = 0; i < s->count; i++) {
        struct pith_cache cache =
            cache_make(s->backend[i], dtype, c.kv_heads, c.head_dim, positions, k, v);
        a.cache = &cache;
        if (i == 0) {
            for (size_t e = 0; e < keys; e++) {
                k[e] = pith_round_to(dtype, k[e]);
                v[e] = pith_round_to(dtype, v[e]);
            }
            naive(&a, k, v, exact);
            pith_attention(s->backend[0], &a);
            for (size_t e = 0; e < count; e++)
                if (!(fabs((double)first[e] - exact[e]) < 2e-6 * 8))
                    fail_msg("element %zu: %g, exact %g", e, (double)first[e], exact[e]);
        }
        struct pith_attention in_place = a;
        float *out = copy(q, count);
        in_place.q = in_place.out = out;
        pith_attention(s->backend[i], &in_place);
        assert_same(out, first, count, "attention", i);
        check_decoding(s->backend[i], a, q, first, i);
        pith_free(out);
        cache_free(&cache);
    }
    pith_free(exact);
    pith_free(first);
    pith_free(v);
    pith_free(k);
    pith_free(q);
}

static void attention_follows_the_formula(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {.n = 1, .heads = 1, .kv_heads = 1, .head_dim = 8},
        {.n = 5, .start = 3, .heads = 4, .kv_heads = 4, .head_dim = 6},
        {.n = 50, .heads = 6, .kv_heads = 2, .head_dim = 16},
        {.n = 70, .start = 21, .heads = 4, .kv_heads = 1, .head_dim = 40},
        {.n = 120, .start = 30, .heads = 2, .kv_heads = 2, .head_dim = 8, .window = 16},
        {.n = 40, .heads = 3, .kv_heads = 3, .head_dim = 12, .window = 1},
        {.n = 40, .start = 9, .heads = 2, .kv_heads = 1, .head_dim = 12, .window = 1000},
        {.n = 9, .heads = 200, .kv_heads = 1, .head_dim = 4}, /* group > block */
        {.n = 20, .start = 500, .heads = 8, .kv_heads = 1, .head_dim = 64},
        {.n = 3, .heads = 2, .kv_heads = 1, .head_dim = 6000}, /* few rows in the scratch */
    };
    struct setups s;
    setups_open(&s);
    for (size_t i = 0; i < PITH_COUNT(shapes); i++) {
        one_case(&s, PITH_F32, shapes[i]);
        one_case(&s, PITH_BF16, shapes[i]);
        one_case(&s, PITH_F16, shapes[i]);
    }
    setups_close(&s);
}

static void chunks_are_merged(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {.n = 33, .start = 4500, .heads = 2, .kv_heads = 1, .head_dim = 4},
        {.n = 64, .start = 1000, .heads = 6, .kv_heads = 2, .head_dim = 32},
        {.n = 64, .start = 1000, .heads = 2, .kv_heads = 2, .head_dim = 16, .window = 520},
        {.n = 8, .start = 1530, .heads = 2, .kv_heads = 2, .head_dim = 16, .window = 7},
    };
    struct setups s;
    setups_open(&s);
    for (size_t i = 0; i < PITH_COUNT(shapes); i++) {
        one_case(&s, PITH_F32, shapes[i]);
        one_case(&s, PITH_BF16, shapes[i]);
    }
    setups_close(&s);
}

/* As the script has them. */
static float *pattern(size_t n, size_t step)
{
    float *x = floats(n);
    for (size_t i = 0; i < n; i++) x[i] = (float)(((double)(step * i % 1009) - 504) / 346.0);
    return x;
}

static size_t size_of(const json_t *c, const char *key)
{
    return (size_t)json_integer_value(json_object_get(c, key));
}

static void rounded_case(struct setups *s, const json_t *c)
{
    const struct shape d = {.n = size_of(c, "n"),
                            .start = size_of(c, "start"),
                            .heads = size_of(c, "heads"),
                            .kv_heads = size_of(c, "kv_heads"),
                            .head_dim = size_of(c, "dim")};
    const char *grid = json_string_value(json_object_get(c, "grid"));
    const char *hex = json_string_value(json_object_get(c, "out"));
    const size_t count = d.n * d.heads * d.head_dim, positions = d.start + d.n;
    float *q = pattern(count, 37), *k = pattern(positions * d.kv_heads * d.head_dim, 41),
          *v = pattern(positions * d.kv_heads * d.head_dim, 43), *first = floats(count);
    const struct pith_cache_span span = {.n = d.n, .start = d.start};
    struct pith_input in = {.scale = 1.0f};
    struct pith_error err = {0};
    assert_ok(pith_grid_parse(grid, &in.grid, &err), err);
    pith_kv_grid_settle(&in.grid);
    struct pith_attention a = {.span = &span,
                               .spans = 1,
                               .heads = d.heads,
                               .scale = 1.0f / sqrtf((float)d.head_dim),
                               .rounded = &in,
                               .q = q,
                               .out = first};
    for (size_t i = 0; i < s->count; i++) {
        struct pith_cache cache =
            cache_make(s->backend[i], PITH_F32, d.kv_heads, d.head_dim, positions, k, v);
        float *out = floats(count);
        a.cache = &cache;
        a.out = i == 0 ? first : out;
        pith_attention(s->backend[i], &a);
        for (size_t e = 0; i == 0 && e < count; e++) {
            char word[9] = {0};
            memcpy(word, hex + 8 * e, 8);
            const float want = pith_bits_to_float((uint32_t)strtoul(word, NULL, 16));
            if (!(fabsf(first[e] - want) < 2e-6f))
                fail_msg("%s, element %zu: %g, torch %g", grid, e, (double)first[e], (double)want);
        }
        assert_same(a.out, first, count, grid, i);
        check_decoding(s->backend[i], a, q, first, i);
        pith_free(out);
        cache_free(&cache);
    }
    pith_free(first);
    pith_free(v);
    pith_free(k);
    pith_free(q);
}

static void operands_in_fp8_are_those_of_torch(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct setups s;
    json_t *cases, *c;
    size_t i;
    assert_ok(pith_json_load("tests/golden/backend/attention_fp8.json", 1 << 20, &cases, &err),
              err);
    assert_int_equal(json_array_size(cases), 8);
    setups_open(&s);
    json_array_foreach (cases, i, c) rounded_case(&s, c);
    setups_close(&s);
    json_decref(cases);
}

/* Keys and values of a head of 32 numbers, whatever tier and stretch stores them. */
static void float16_is_that_of_numpy(void **state)
{
    (void)state;
    enum { DIM = 32, KEYS = 32, COUNT = DIM * KEYS };
    struct pith_error err = {0};
    struct setups s;
    json_t *file;
    float x[COUNT], want[COUNT], got[2 * DIM];
    assert_ok(pith_json_load("tests/golden/backend/float16.json", 1 << 20, &file, &err), err);
    const char *hex = json_string_value(json_object_get(file, "x"));
    const char *codes = json_string_value(json_object_get(file, "code"));
    assert_true(strlen(hex) == 8 * COUNT && strlen(codes) == 4 * COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        char word[9] = {0}, code[5] = {0};
        memcpy(word, hex + 8 * i, 8);
        memcpy(code, codes + 4 * i, 4);
        x[i] = pith_bits_to_float((uint32_t)strtoul(word, NULL, 16));
        want[i] = pith_f16_to_f32((uint16_t)strtoul(code, NULL, 16));
    }
    setups_open(&s);
    for (size_t i = 0; i < s.count; i++) {
        struct pith_cache c = cache_make(s.backend[i], PITH_F16, 1, DIM, KEYS, x, x);
        const struct pith_cache_span all = {.n = KEYS};
        assert_int_equal(c.page_bytes, 2 * COUNT * 2);
        for (size_t p = 0; p < KEYS; p++) {
            pith_cache_read(s.backend[i], &c, &all, p, 0, got);
            assert_same(got, want + p * DIM, DIM, "a key in float16", i);
            assert_same(got + DIM, want + p * DIM, DIM, "a value in float16", i);
        }
        cache_free(&c);
    }
    setups_close(&s);
    json_decref(file);
}

static void absurd_sizes_are_refused(void **state)
{
    (void)state;
    struct pith_cache c = {.kv_heads = SIZE_MAX / 4, .k.dim = 64, .v.dim = 64};
    assert_false(pith_cache_layout(&c));
    c = (struct pith_cache){.kv_heads = 1, .k.dim = SIZE_MAX - 3, .v.dim = 1};
    assert_false(pith_cache_layout(&c));
    c = (struct pith_cache){
        .kv_heads = 2, .k = {PITH_BF16, .dim = 40}, .v = {PITH_BF16, .dim = 17}};
    assert_true(pith_cache_layout(&c));
    assert_int_equal(c.page_bytes, 2 * (48 + 32) * 32 * 2);
    assert_int_equal(pith_cache_pages(33), 2);
    assert_true(pith_attention_work(SIZE_MAX / 2, 64, 1000) == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_follows_the_formula),
        cmocka_unit_test(chunks_are_merged),
        cmocka_unit_test(operands_in_fp8_are_those_of_torch),
        cmocka_unit_test(float16_is_that_of_numpy),
        cmocka_unit_test(absurd_sizes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
