/* KIVI's caches: codes, scales and values are what the authors' arithmetic gives
 * (tests/golden/num/make_kivi.py), in rows and in pages; attention over them is that over the
 * values, with the same bits on every setup, for one query and for many. */
#include "backend/parts.h"
#include "base/json.h"
#include "num/elements/minifloat.h"
#include "num/kivi.h"
#include "num/rowcode.h"
#include "paired.h"

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

/* A cache and its floats; heads hold the rows of x one after another. */
struct pair {
    struct pith_row_code code[2];
    struct pith_cache cache, floats;
};

static void pair_open(struct pair *p, unsigned bits, size_t heads, size_t dim, size_t tokens)
{
    *p = (struct pair){0};
    for (int i = 0; i < 2; i++) p->code[i] = pith_row_code_kivi(bits, (uint32_t)dim, i == 0);
    p->cache = (struct pith_cache){.kv_heads = heads,
                                   .k = {.code = &p->code[0], .dim = dim},
                                   .v = {.code = &p->code[1], .dim = dim}};
    paired_open(&p->cache, &p->floats, pith_cache_pages(tokens));
}

static void pair_fill(struct pair *p, struct pith_backend *b, const float *k, const float *v,
                      size_t tokens)
{
    paired_fill(b, &p->cache, &p->floats, k, v, &(struct pith_cache_span){.n = tokens});
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
            pair_open(&p, bits, 1, DIM, TOKENS);
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

static void attends(struct setups *s, unsigned bits, struct shape c, size_t sink, size_t recent)
{
    const size_t tokens = c.start + c.n, row = c.kv_heads * c.dim, count = c.n * c.heads * c.dim;
    float *q = normals(count, 1), *k = normals(tokens * row, 2), *v = normals(tokens * row, 3);
    float *first = floats(count), *out = floats(count);
    for (size_t i = 0; i < tokens * row; i += 7) k[i] *= 5;
    for (size_t i = 0; i < s->count; i++) {
        struct pair p;
        const struct pith_cache_span span = {.start = c.start, .n = c.n};
        pair_open(&p, bits, c.kv_heads, c.dim, tokens);
        pair_fill(&p, s->backend[i], k, v, tokens);
        const struct pith_attention a = {.span = &span,
                                         .spans = 1,
                                         .heads = c.heads,
                                         .scale = 1 / sqrtf((float)c.dim),
                                         .cache = &p.cache,
                                         .plain = &p.floats,
                                         .sink = sink,
                                         .recent = recent,
                                         .q = q};
        paired_attend(s, i, a, first, out);
        pair_close(&p);
    }
    pith_free(out), pith_free(first), pith_free(v), pith_free(k), pith_free(q);
}

static void attention_is_over_the_values(void **state)
{
    (void)state;
    struct setups s;
    setups_open(&s);
    for (size_t i = 0; i < PITH_COUNT(paired_shapes); i++)
        for (unsigned bits = 2; bits <= 4; bits += 2) {
            attends(&s, bits, paired_shapes[i], 0, 1);
            attends(&s, bits, paired_shapes[i], 1, 2);
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
