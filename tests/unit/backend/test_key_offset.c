/* Keys that are kept without an offset: attention over them is that over whole keys, whatever the
 * turn and the format, with the same bits on every setup, for one query and for many. */
#include "backend/cache/key_offset.h"

#include "backend/parts.h"
#include "num/grid.h"
#include "num/hadamard.h"
#include "num/rowcode.h"
#include "setups.h"

/* How keys are turned. */
struct turn {
    size_t heads, kv_heads, dim, first, pairs;
    bool adjacent, hadamard;
};
static const struct turn turns[] = {
    {2, 1, 16, 0, 8, false, false},  {4, 2, 64, 0, 32, false, false},
    {2, 2, 32, 0, 16, true, false},  {3, 1, 80, 16, 20, false, false},
    {2, 2, 64, 32, 16, true, false}, {2, 1, 32, 0, 0, false, false},
    {6, 2, 64, 0, 32, false, true},
};
enum { START = 523, N = 6, TOKENS = START + N, PAGES = (TOKENS + 31) / 32 };

/* Angles of a turn, and everything that attention over its keys takes. */
struct scene {
    struct pith_key_offset offset;
    float *page, *within, *of, *q, *k, *v;
};

static double speed(const struct turn *t, size_t i)
{
    return pow(500, -(double)i / (double)t->pairs);
}

static double factor_of(const struct turn *t)
{
    return t->adjacent ? 1.25 : 1;
}

static struct scene scene_open(const struct turn *t)
{
    const size_t key = t->kv_heads * t->dim;
    struct scene s = {.page = floats(PAGES * 2 * t->pairs + 1),
                      .within = floats(64 * t->pairs + 1),
                      .of = normals(key, 1),
                      .q = normals(N * t->heads * t->dim, 2),
                      .k = normals(TOKENS * key, 3),
                      .v = normals(TOKENS * key, 4)};
    for (size_t i = 0; i < t->pairs; i++) {
        for (size_t p = 0; p < PAGES; p++) {
            const double angle = 32.0 * (double)p * speed(t, i);
            s.page[p * 2 * t->pairs + i] = (float)(factor_of(t) * cos(angle));
            s.page[p * 2 * t->pairs + t->pairs + i] = (float)(factor_of(t) * sin(angle));
        }
        for (size_t j = 0; j < 32; j++) {
            s.within[i * 32 + j] = (float)sin((double)j * speed(t, i));
            s.within[(t->pairs + i) * 32 + j] = (float)cos((double)j * speed(t, i));
        }
    }
    for (size_t e = 0; e < key; e++) s.of[e] *= e % 5 == 0 ? 20 : 1;
    s.offset = (struct pith_key_offset){.of = s.of,
                                        .page = s.page,
                                        .within = s.within,
                                        .kv_heads = t->kv_heads,
                                        .dim = t->dim,
                                        .first = t->first,
                                        .pairs = t->pairs,
                                        .adjacent = t->adjacent,
                                        .hadamard = t->hadamard ? (uint32_t)t->dim : 0};
    return s;
}

static void scene_close(struct scene *s)
{
    pith_free(s->page), pith_free(s->within), pith_free(s->of);
    pith_free(s->q), pith_free(s->k), pith_free(s->v);
}

/* The offset of a head at a position, as it is to be taken out, in double. */
static void offset_at(const struct turn *t, const float *of, size_t position, double *to)
{
    for (size_t e = 0; e < t->dim; e++) to[e] = (double)of[e];
    for (size_t i = 0; i < t->pairs; i++) {
        const size_t low = t->first + (t->adjacent ? 2 * i : i),
                     high = t->first + (t->adjacent ? 2 * i + 1 : i + t->pairs);
        const double a = (double)of[low], b = (double)of[high],
                     angle = (double)position * speed(t, i);
        to[low] = factor_of(t) * (a * cos(angle) - b * sin(angle));
        to[high] = factor_of(t) * (b * cos(angle) + a * sin(angle));
    }
}

/* Keys as they are kept: without the offset, then multiplied by the Hadamard matrix. By stretches
 * that are no pages. */
static float *kept_keys(const struct scene *s, const struct turn *t, struct pith_backend *b)
{
    const size_t row = t->kv_heads * t->dim;
    float *k = copy(s->k, TOKENS * row);
    for (size_t i = 0, n; i < TOKENS; i += n) {
        n = i % 2 ? 41 : 1;
        if (n > TOKENS - i) n = TOKENS - i;
        pith_key_offset_take(b, &s->offset, &(struct pith_cache_span){.start = i, .n = n},
                             k + i * row);
    }
    if (t->hadamard) pith_hadamard_rows(k, TOKENS * t->kv_heads, t->dim, (uint32_t)t->dim);
    return k;
}

static void what_is_kept_is_without_it(void **state)
{
    (void)state;
    struct setups s;
    setups_open(&s);
    for (size_t c = 0; c < PITH_COUNT(turns); c++) {
        const struct turn *t = &turns[c];
        if (t->hadamard) continue;
        struct scene scene = scene_open(t);
        float *first = kept_keys(&scene, t, s.backend[0]);
        double *offset = pith_alloc(t->dim, sizeof *offset);
        assert_non_null(offset);
        for (size_t i = 0; i < TOKENS * t->kv_heads; i++) {
            offset_at(t, scene.of + i % t->kv_heads * t->dim, i / t->kv_heads, offset);
            for (size_t e = 0; e < t->dim; e++)
                if (fabs((double)first[i * t->dim + e] + offset[e] -
                         (double)scene.k[i * t->dim + e]) > 1e-4)
                    fail_msg("turn %zu: key %zu, element %zu", c, i, e);
        }
        for (size_t i = 1; i < s.count; i++) {
            float *other = kept_keys(&scene, t, s.backend[i]);
            assert_same(other, first, TOKENS * t->kv_heads * t->dim, "keys", i);
            pith_free(other);
        }
        pith_free(offset);
        pith_free(first);
        scene_close(&scene);
    }
    setups_close(&s);
}

/* What a query says of whole keys `k` of float32, into out[]. */
static void attend_whole(struct pith_backend *b, const struct scene *s, const struct turn *t,
                         const float *k, float *out)
{
    struct pith_cache c = cache_make(b, PITH_F32, t->kv_heads, t->dim, TOKENS, k, s->v);
    pith_attention(b, &(struct pith_attention){
                          .span = &(struct pith_cache_span){.start = START, .n = N},
                          .spans = 1,
                          .heads = t->heads,
                          .scale = 0.1f,
                          .cache = &c,
                          .q = s->q,
                          .out = out});
    cache_free(&c);
}

/* Attention over keys on `grid` (NULL: float32) without their offset, many queries and one. */
static void attend_kept(struct setups *all, size_t setup, const struct scene *s,
                        const struct turn *t, const struct pith_row_code *code, float *out,
                        float *one_by_one)
{
    struct pith_backend *b = all->backend[setup];
    const size_t row = t->heads * t->dim;
    float *k = kept_keys(s, t, b), *q = copy(s->q, N * row);
    if (t->hadamard) pith_hadamard_rows(q, N * t->heads, t->dim, (uint32_t)t->dim);
    struct pith_cache c = {.kv_heads = t->kv_heads,
                           .k = {.dtype = PITH_F32, .code = code, .dim = t->dim},
                           .v = {.dtype = PITH_F32, .dim = t->dim}};
    assert_true(pith_cache_layout(&c));
    c.memory = pith_alloc_aligned(PAGES, c.page_bytes);
    assert_non_null(c.memory);
    pith_cache_store(b, &c, &(struct pith_cache_span){.n = TOKENS}, k, s->v);
    struct pith_attention a = {.span = &(struct pith_cache_span){.start = START, .n = N},
                               .spans = 1,
                               .heads = t->heads,
                               .scale = 0.1f,
                               .cache = &c,
                               .offset = &s->offset,
                               .q = q,
                               .out = out};
    pith_attention(b, &a);
    for (size_t i = 0; i < N; i++) {
        const struct pith_cache_span one = {.start = START + i, .n = 1};
        a.span = &one;
        a.q = q + i * row;
        a.out = one_by_one + i * row;
        pith_attention(b, &a);
    }
    cache_free(&c);
    pith_free(q);
    pith_free(k);
}

/* Nothing is rounded: only the order of sums differs. */
static void floats_are_as_whole_keys(void **state)
{
    (void)state;
    struct setups s;
    setups_open(&s);
    for (size_t c = 0; c < PITH_COUNT(turns); c++) {
        const struct turn *t = &turns[c];
        struct scene scene = scene_open(t);
        const size_t count = N * t->heads * t->dim;
        float *whole = floats(count), *first = floats(count), *out = floats(count),
              *single = floats(count);
        attend_whole(s.backend[0], &scene, t, scene.k, whole);
        for (size_t i = 0; i < s.count; i++) {
            attend_kept(&s, i, &scene, t, NULL, i == 0 ? first : out, single);
            assert_same(single, first, count, "one query", i);
            if (i > 0) assert_same(out, first, count, "many queries", i);
        }
        for (size_t e = 0; e < count; e++)
            if (fabsf(first[e] - whole[e]) > 5e-6f)
                fail_msg("turn %zu: element %zu is %g, not %g", c, e, (double)first[e],
                         (double)whole[e]);
        pith_free(whole), pith_free(first), pith_free(out), pith_free(single);
        scene_close(&scene);
    }
    setups_close(&s);
}

/* The root of the mean square of what they differ by. */
static double distance(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += pow((double)a[i] - (double)b[i], 2);
    return sqrt(sum / (double)n);
}

/* Codes are of what is left: large offsets do not spread them, and the bits do not depend on the
 * setup nor on the company. */
static void codes_are_of_what_is_left(void **state)
{
    (void)state;
    struct setups s;
    setups_open(&s);
    static const char *const grids[] = {"int4:g16:asym", "int8:token", "fp8_e4m3:token"};
    for (size_t g = 0; g < PITH_COUNT(grids); g++)
        for (size_t c = 0; c < PITH_COUNT(turns); c++) {
            const struct turn *t = &turns[c];
            struct pith_error err = {0};
            struct pith_grid grid;
            struct pith_row_code code;
            float level[PITH_ROW_LEVELS];
            assert_ok(pith_grid_parse(grids[g], &grid, &err), err);
            assert_ok(pith_row_code_make(&grid, (uint32_t)t->dim, level, &code, &err), err);
            struct scene scene = scene_open(t), plain = scene;
            const size_t count = N * t->heads * t->dim;
            float *whole = floats(count), *first = floats(count), *out = floats(count),
                  *single = floats(count), *spread = floats(count);
            float *none = floats(t->kv_heads * t->dim);
            attend_whole(s.backend[0], &scene, t, scene.k, whole);
            for (size_t i = 0; i < s.count; i++) {
                attend_kept(&s, i, &scene, t, &code, i == 0 ? first : out, single);
                assert_same(single, first, count, "one query", i);
                if (i > 0) assert_same(out, first, count, "many queries", i);
            }
            /* Keys that carry the offset, rounded with it and without. */
            for (size_t i = 0; i < TOKENS * t->kv_heads; i++) {
                double offset[80];
                offset_at(t, scene.of + i % t->kv_heads * t->dim, i / t->kv_heads, offset);
                for (size_t e = 0; e < t->dim; e++) scene.k[i * t->dim + e] += (float)offset[e];
            }
            attend_whole(s.backend[0], &scene, t, scene.k, whole);
            attend_kept(&s, 0, &scene, t, &code, out, single);
            plain.offset.of = none;
            attend_kept(&s, 0, &plain, t, &code, spread, single);
            if (!(distance(out, whole, count) < 0.5 * distance(spread, whole, count)))
                fail_msg("%s, turn %zu: %g, with the offset %g", grids[g], c,
                         distance(out, whole, count), distance(spread, whole, count));
            pith_free(whole), pith_free(first), pith_free(out), pith_free(single);
            pith_free(spread), pith_free(none);
            scene_close(&scene);
        }
    setups_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_without_it),
        cmocka_unit_test(floats_are_as_whole_keys),
        cmocka_unit_test(codes_are_of_what_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
