/* Latents: values that lie among keys give the bits that they give in rows of their own, in fewer
 * bytes. */
#include "num/grid.h"
#include "num/rowcode.h"
#include "setups.h"

#include <pith/quantize.h>

/* The same numbers twice: values apart, and joined with keys. */
struct twice {
    struct pith_row_code code;
    float level[PITH_ROW_LEVELS];
    struct pith_cache apart, joined;
};

struct shape {
    size_t n, start, heads, value, rotary, window;
};

/* cache NULL: in floats. */
static void twice_open(struct twice *t, const char *grid, enum pith_dtype dtype, struct shape c)
{
    struct pith_error err = {0};
    *t = (struct twice){0};
    struct pith_cache_side v = {.dtype = dtype, .dim = c.value}, k = v;
    k.dim += c.rotary;
    if (grid) {
        struct pith_grid g;
        assert_ok(pith_grid_parse(grid, &g, &err), err);
        pith_kv_grid_settle(&g);
        assert_ok(pith_row_code_make(&g, (uint32_t)c.value, t->level, &t->code, &err), err);
        k.code = v.code = &t->code;
        k.plain = c.rotary;
    }
    t->apart = t->joined = (struct pith_cache){.kv_heads = 1, .k = k, .v = v};
    t->joined.joined = true;
    assert_true(pith_cache_layout(&t->apart) && pith_cache_layout(&t->joined));
    assert_int_equal(t->joined.page_bytes, t->apart.k.bytes);
    assert_int_equal(t->apart.page_bytes, t->apart.k.bytes + t->apart.v.bytes);
}

static void fill(struct pith_cache *c, struct pith_backend *b, const float *k, const float *v,
                 size_t positions)
{
    const size_t pages = pith_cache_pages(positions);
    c->memory = pith_alloc_aligned(pages, c->page_bytes);
    assert_non_null(c->memory);
    memset(c->memory, 0xff, pages * c->page_bytes);
    for (size_t i = 0, n; i < positions; i += n) {
        n = i % 3 == 0 ? 1 : i % 3 == 1 ? 70 : 29;
        if (n > positions - i) n = positions - i;
        pith_cache_store(b, c, &(struct pith_cache_span){.start = i, .n = n}, k + i * c->k.dim,
                         v + i * c->v.dim);
    }
}

static void one_setup(struct twice *t, struct pith_backend *b, size_t setup, struct shape c,
                      const float *q)
{
    const size_t positions = c.start + c.n, key = c.value + c.rotary,
                 outs = c.n * c.heads * c.value;
    const size_t room = pith_attention_work(c.heads, c.value, positions);
    float *k = normals(positions * key, 10), *v = floats(positions * c.value);
    float *first = floats(outs), *out = floats(outs), *work = floats(room);
    for (size_t i = 0; i < positions; i++)
        memcpy(v + i * c.value, k + i * key, c.value * sizeof *v);
    fill(&t->apart, b, k, v, positions);
    fill(&t->joined, b, k, NULL, positions);
    struct pith_cache_span span = {.start = c.start, .n = c.n};
    struct pith_attention a = {.span = &span,
                               .spans = 1,
                               .heads = c.heads,
                               .window = c.window,
                               .scale = 1.0f / sqrtf((float)key),
                               .q = q,
                               .cache = &t->apart,
                               .out = first,
                               .work = work,
                               .work_floats = room};
    pith_attention(b, &a);
    a.cache = &t->joined;
    a.out = out;
    pith_attention(b, &a);
    assert_same(out, first, outs, "values among keys", setup);
    for (size_t i = 0; i < c.n; i += 5) { /* one query, by few rows */
        span = (struct pith_cache_span){.start = c.start + i, .n = 1};
        a.q = q + i * c.heads * key;
        pith_attention(b, &a);
        assert_same(out, first + i * c.heads * c.value, c.heads * c.value, "of one query", setup);
    }
    for (size_t i = 0; i < positions; i += 11) {
        float one[2 * 640], other[2 * 640];
        const struct pith_cache_span all = {.n = positions};
        pith_cache_read(b, &t->apart, &all, i, 0, one);
        pith_cache_read(b, &t->joined, &all, i, 0, other);
        assert_same(other, one, key + c.value, "a position", setup);
    }
    pith_free(t->apart.memory);
    pith_free(t->joined.memory);
    pith_free(work);
    pith_free(out);
    pith_free(first);
    pith_free(v);
    pith_free(k);
}

static void values_among_keys_are_the_same(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {.n = 40, .start = 9, .heads = 4, .value = 32, .rotary = 8},
        {.n = 3, .start = 530, .heads = 1, .value = 96, .rotary = 16, .window = 520},
        {.n = 1, .start = 40, .heads = 130, .value = 512, .rotary = 64},
        {.n = 12, .start = 30, .heads = 2, .value = 160, .rotary = 4},
    };
    static const char *const grids[] = {"int8:token", "int4:g32", "int4:g32:asym", "fp8_e4m3:token",
                                        "q8_0",       "iq4_nl",   "int3:g32:asym", "int2:g32",
                                        "mxfp4",      "nvfp4",    "fp8_e5m2:token"};
    static const enum pith_dtype floats[] = {PITH_F32, PITH_BF16, PITH_F16};
    struct setups s;
    setups_open(&s);
    for (size_t i = 0; i < PITH_COUNT(shapes); i++) {
        const struct shape c = shapes[i];
        float *q = normals(c.n * c.heads * (c.value + c.rotary), 3);
        for (size_t g = 0; g < PITH_COUNT(grids) + PITH_COUNT(floats); g++)
            for (size_t b = 0; b < s.count; b++) {
                const bool plain = g < PITH_COUNT(floats);
                struct twice t;
                twice_open(&t, plain ? NULL : grids[g - PITH_COUNT(floats)],
                           plain ? floats[g] : PITH_F32, c);
                one_setup(&t, s.backend[b], b, c, q);
            }
        pith_free(q);
    }
    /* A width that is no whole strip, nor a multiple of 16. */
    const struct shape odd = {.n = 20, .start = 40, .heads = 3, .value = 70, .rotary = 6};
    float *q = normals(odd.n * odd.heads * (odd.value + odd.rotary), 3);
    for (size_t b = 0; b < s.count; b++)
        for (size_t f = 0; f < PITH_COUNT(floats); f++) {
            struct twice t;
            twice_open(&t, NULL, floats[f], odd);
            one_setup(&t, s.backend[b], b, odd, q);
        }
    pith_free(q);
    setups_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_among_keys_are_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
