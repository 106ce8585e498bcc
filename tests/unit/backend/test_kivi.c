/* KIVI's caches: codes, scales and values are what the authors' arithmetic gives
 * (tests/golden/num/make_kivi.py), in rows and in pages; attention over them is that over the
 * values, with the same bits on every setup, for one query and for many. */
#include "backend/parts.h"
#include "base/json.h"
#include "num/kivi.h"
#include "num/minifloat.h"
#include "num/rowcode.h"
#include "setups.h"

enum { TOKENS = 64, DIM = 64, ALL = TOKENS * DIM, GROUP = PITH_KIVI_GROUP, EACH = ALL / GROUP };

/* One side of the file, as it stands there. */
struct side {
    uint8_t code[ALL];
    float scale[EACH], least[EACH], back[ALL];
};

static uint32_t word_of(const char *hex, size_t i, size_t digits)
{
    char word[9] = {0};
    memcpy(word, hex + i * digits, digits);
    return (uint32_t)strtoul(word, NULL, 16);
}

static void read_floats(const json_t *hex, size_t n, float *x)
{
    assert_int_equal(json_string_length(hex), 8 * n);
    for (size_t i = 0; i < n; i++) x[i] = pith_bits_to_float(word_of(json_string_value(hex), i, 8));
}

static void read_side(const json_t *file, const char *name, unsigned bits, struct side *s)
{
    char key[16];
    snprintf(key, sizeof key, "%s%u", name, bits);
    const json_t *j = json_object_get(file, key);
    const char *scale = json_string_value(json_object_get(j, "scale"));
    const char *least = json_string_value(json_object_get(j, "least"));
    for (size_t i = 0; i < EACH; i++) {
        s->scale[i] = pith_f16_to_f32((uint16_t)word_of(scale, i, 4));
        s->least[i] = pith_f16_to_f32((uint16_t)word_of(least, i, 4));
    }
    for (size_t i = 0; i < ALL; i++)
        s->code[i] = (uint8_t)word_of(json_string_value(json_object_get(j, "codes")), i, 1);
    read_floats(json_object_get(j, "back"), ALL, s->back);
}

static json_t *open_file(float *x)
{
    struct pith_error err = {0};
    json_t *file;
    assert_ok(pith_json_load("tests/golden/num/kivi.json", 1 << 20, &file, &err), err);
    read_floats(json_object_get(file, "x"), ALL, x);
    return file;
}

/* Elements of group g of keys or of values, where they lie in [tokens][channels]. */
static size_t place(bool keys, size_t g, size_t i)
{
    return keys ? (g / DIM * GROUP + i) * DIM + g % DIM : g * GROUP + i;
}

static void groups_are_the_authors(void **state)
{
    (void)state;
    static float x[ALL];
    static struct side s;
    json_t *file = open_file(x);
    for (unsigned bits = 2; bits <= 4; bits += 2)
        for (int keys = 0; keys < 2; keys++) {
            read_side(file, keys ? "keys" : "values", bits, &s);
            for (size_t g = 0; g < EACH; g++) {
                float group[GROUP], scale, least;
                uint8_t code[GROUP];
                for (size_t i = 0; i < GROUP; i++) group[i] = x[place(keys, g, i)];
                pith_kivi_encode(bits, group, GROUP, code, &scale, &least);
                assert_true(scale == s.scale[g] && least == s.least[g]);
                for (size_t i = 0; i < GROUP; i++) {
                    const size_t at = place(keys, g, i);
                    assert_int_equal(code[i], s.code[at]);
                    assert_true((float)code[i] * scale + least == s.back[at]);
                }
            }
        }
    json_decref(file);
}

static void numbers_at_the_edge(void **state)
{
    (void)state;
    float scale, least;
    uint8_t code[4];
    pith_kivi_encode(2, (const float[]){1e9f, -1e9f, 0, 5}, 4, code, &scale, &least);
    assert_true(scale > 21000 && scale <= 65504 && least == -65504);
    pith_kivi_encode(2, (const float[]){3, 3, 3, 3}, 4, code, &scale, &least);
    assert_true(scale == 0 && least == 3 && code[0] == 0 && code[3] == 0);
    pith_kivi_encode(4, (const float[]){1, 2, INFINITY, 3}, 4, code, &scale, &least);
    assert_true(isnan(least) && scale == 0);
    pith_kivi_encode(4, (const float[]){1, NAN, 2, 3}, 4, code, &scale, &least);
    assert_true(isnan(least) && scale == 0);
    pith_kivi_encode(4, (const float[]){0, 1, 7.5f, 15}, 4, code, &scale, &least);
    assert_true(scale == 1 && least == 0 && code[1] == 1 && code[2] == 8 && code[3] == 15);
}

/* A cache and its floats, filled by unequal stretches; heads hold the rows of x one after another.
 */
struct pair {
    struct pith_row_code code[2];
    struct pith_cache cache, floats;
    size_t heads;
};

static void pair_open(struct pair *p, unsigned bits, size_t heads, size_t dim)
{
    *p = (struct pair){.heads = heads};
    for (int i = 0; i < 2; i++) p->code[i] = pith_row_code_kivi(bits, (uint32_t)dim, i == 0);
    p->cache = (struct pith_cache){.kv_heads = heads,
                                   .k = {.code = &p->code[0], .dim = dim},
                                   .v = {.code = &p->code[1], .dim = dim}};
    p->floats = (struct pith_cache){.kv_heads = heads,
                                    .k = {.dtype = PITH_BF16, .dim = dim},
                                    .v = {.dtype = PITH_BF16, .dim = dim}};
    assert_true(pith_cache_layout(&p->cache) && pith_cache_layout(&p->floats));
}

static void pair_fill(struct pair *p, struct pith_backend *b, const float *k, const float *v,
                      size_t tokens)
{
    const size_t pages = pith_cache_pages(tokens), row = p->heads * p->cache.k.dim;
    p->cache.memory = pith_alloc_aligned(pages, p->cache.page_bytes);
    p->floats.memory = pith_alloc_aligned(pages, p->floats.page_bytes);
    assert_true(p->cache.memory && p->floats.memory);
    memset(p->cache.memory, 0xff, pages * p->cache.page_bytes);
    memset(p->floats.memory, 0xff, pages * p->floats.page_bytes);
    for (size_t i = 0, n; i < tokens; i += n) {
        n = i % 3 == 0 ? 1 : i % 3 == 1 ? 70 : 29;
        if (n > tokens - i) n = tokens - i;
        const struct pith_cache_span span = {.start = i, .n = n};
        pith_cache_store(b, &p->cache, &span, k + i * row, v + i * row);
        pith_cache_store(b, &p->floats, &span, k + i * row, v + i * row);
        pith_cache_close(b, &p->cache, &p->floats, &span);
    }
}

static void pair_close(struct pair *p)
{
    pith_free(p->cache.memory);
    pith_free(p->floats.memory);
}

static void pages_hold_them(void **state)
{
    (void)state;
    static float x[ALL];
    static struct side k, v;
    struct setups s;
    json_t *file = open_file(x);
    setups_open(&s);
    for (unsigned bits = 2; bits <= 4; bits += 2) {
        read_side(file, "keys", bits, &k);
        read_side(file, "values", bits, &v);
        for (size_t i = 0; i < s.count; i++) {
            struct pair p;
            float both[2 * DIM];
            pair_open(&p, bits, 1, DIM);
            /* 32 positions: codes, and a scale and a least number for 32 of them, for 2 sides. */
            assert_int_equal(p.cache.page_bytes, 2 * (GROUP * DIM * bits / 8 + DIM * 4));
            pair_fill(&p, s.backend[i], x, x, TOKENS);
            for (size_t t = 0; t < TOKENS; t++) {
                pith_cache_read(s.backend[i], &p.cache, &(struct pith_cache_span){.n = TOKENS}, t,
                                0, both);
                assert_same(both, k.back + t * DIM, DIM, "keys", i);
                assert_same(both + DIM, v.back + t * DIM, DIM, "values", i);
            }
            pair_close(&p);
        }
    }
    setups_close(&s);
    json_decref(file);
}

struct shape {
    size_t n, start, heads, kv_heads, dim;
};

/* Queries over the numbers that they see, in double. */
static void naive(const struct pith_attention *a, const struct pair *p, struct pith_backend *b,
                  double *out)
{
    const size_t dim = a->cache->k.dim, group = a->heads / p->heads;
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
                pith_cache_read(b, near ? &p->floats : &p->cache, &all, j, kv, both);
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

static void attends(struct setups *s, unsigned bits, struct shape c, size_t sink, size_t recent)
{
    const size_t tokens = c.start + c.n, row = c.kv_heads * c.dim, count = c.n * c.heads * c.dim;
    float *q = normals(count, 1), *k = normals(tokens * row, 2), *v = normals(tokens * row, 3);
    float *first = floats(count), *out = floats(count);
    double *exact = pith_alloc(count, sizeof *exact);
    assert_non_null(exact);
    for (size_t i = 0; i < tokens * row; i += 7) k[i] *= 5;
    for (size_t i = 0; i < s->count; i++) {
        struct pair p;
        const struct pith_cache_span span = {.start = c.start, .n = c.n};
        pair_open(&p, bits, c.kv_heads, c.dim);
        pair_fill(&p, s->backend[i], k, v, tokens);
        struct pith_attention a = {.span = &span,
                                   .spans = 1,
                                   .heads = c.heads,
                                   .scale = 1 / sqrtf((float)c.dim),
                                   .cache = &p.cache,
                                   .plain = &p.floats,
                                   .sink = sink,
                                   .recent = recent,
                                   .q = q,
                                   .out = i == 0 ? first : out};
        pith_attention(s->backend[i], &a);
        if (i == 0) naive(&a, &p, s->backend[i], exact);
        else assert_same(out, first, count, "many queries", i);
        for (size_t t = 0; t < c.n; t += 5) { /* one at a time */
            const struct pith_cache_span one = {.start = c.start + t, .n = 1};
            a.span = &one;
            a.q = q + t * c.heads * c.dim;
            a.out = out;
            pith_attention(s->backend[i], &a);
            assert_same(out, first + t * c.heads * c.dim, c.heads * c.dim, "one query", i);
        }
        pair_close(&p);
    }
    for (size_t i = 0; i < count; i++)
        if (fabs((double)first[i] - exact[i]) > 2e-5)
            fail_msg("%u bits: element %zu is %g, not %g", bits, i, (double)first[i], exact[i]);
    pith_free(exact);
    pith_free(out), pith_free(first), pith_free(v), pith_free(k), pith_free(q);
}

static void attention_is_over_the_values(void **state)
{
    (void)state;
    static const struct shape shapes[] = {
        {1, 0, 1, 1, 16},   {1, 95, 8, 2, 64},   {70, 30, 4, 1, 64}, {3, 520, 2, 2, 128},
        {33, 64, 6, 2, 12}, {20, 130, 8, 1, 80}, {5, 31, 2, 2, 1},   {3, 40, 40, 1, 32}};
    struct setups s;
    setups_open(&s);
    for (size_t i = 0; i < PITH_COUNT(shapes); i++)
        for (unsigned bits = 2; bits <= 4; bits += 2) {
            attends(&s, bits, shapes[i], 0, 1);
            attends(&s, bits, shapes[i], 1, 2);
        }
    setups_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_are_the_authors),
        cmocka_unit_test(numbers_at_the_edge),
        cmocka_unit_test(pages_hold_them),
        cmocka_unit_test(attention_is_over_the_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
