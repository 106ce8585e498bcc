/* KVQuant's caches: codes, outliers and values are what the authors' arithmetic gives
 * (tests/golden/num/make_kvquant.py); pages hold them as far as they have room, whatever was stored
 * there before; attention over them is that over the values, keys turned, with the same bits on
 * every setup, for one query and for many. */
#include "backend/parts.h"
#include "base/json.h"
#include "num/elements/minifloat.h"
#include "num/kvquant.h"
#include "num/rowcode.h"
#include "paired.h"

enum { TOKENS = 64, DIM = 64, ALL = TOKENS * DIM };

static uint32_t word_of(const char *hex, size_t i, size_t digits)
{
    char word[9] = {0};
    memcpy(word, hex + i * digits, digits);
    return (uint32_t)strtoul(word, NULL, 16);
}

static void read_floats(const json_t *file, const char *key, size_t n, float *x)
{
    const json_t *hex = json_object_get(file, key);
    assert_int_equal(json_string_length(hex), 8 * n);
    for (size_t i = 0; i < n; i++) x[i] = pith_bits_to_float(word_of(json_string_value(hex), i, 8));
}

static json_t *open_file(void)
{
    struct pith_error err = {0};
    json_t *file;
    assert_ok(pith_json_load("tests/golden/num/kvquant.json", 1 << 20, &file, &err), err);
    return file;
}

static float half_of(float x)
{
    return pith_f16_to_f32(pith_f32_to_f16(x));
}

/* A side of the file in so many bits. */
struct side {
    float x[ALL], back[ALL], level[16], middle[DIM], range[DIM];
    const char *code, *apart;
};

static void read_side(const json_t *file, bool keys, unsigned bits, struct side *s)
{
    char key[2] = {(char)('0' + bits)};
    const json_t *of = json_object_get(file, key);
    read_floats(file, keys ? "k" : "v", ALL, s->x);
    read_floats(file, "middle", DIM, s->middle);
    read_floats(file, "range", DIM, s->range);
    read_floats(of, "level", 1u << bits, s->level);
    read_floats(of, keys ? "k_back" : "v_back", ALL, s->back);
    s->code = json_string_value(json_object_get(of, keys ? "k" : "v"));
    s->apart = json_string_value(json_object_get(file, keys ? "k_apart" : "v_apart"));
}

static struct pith_kvquant rule_of(const struct side *s, bool keys, unsigned bits)
{
    struct pith_kvquant q = {.bits = bits, .cols = DIM, .level = s->level, .beyond = 4};
    if (keys) q.middle = s->middle, q.range = s->range;
    return q;
}

/* What a row becomes, as floats. */
static void decode(const struct pith_kvquant *q, const struct pith_kvquant_row *row, float *x)
{
    for (uint32_t c = 0; c < q->cols; c++) {
        const float level = q->level[row->code[c]];
        x[c] = q->range ? level * pith_kvquant_factor(row->step) * q->range[c] + q->middle[c]
                        : level * row->range + row->middle;
    }
    for (uint32_t i = 0; i < row->outliers; i++) x[row->column[i]] = row->outlier[i];
}

static void rows_are_the_authors(void **state)
{
    (void)state;
    static struct side s;
    json_t *file = open_file();
    for (unsigned bits = 2; bits <= 4; bits++)
        for (int keys = 0; keys < 2; keys++) {
            read_side(file, keys, bits, &s);
            const struct pith_kvquant q = rule_of(&s, keys, bits);
            for (size_t t = 0; t < TOKENS; t++) {
                uint8_t code[DIM];
                uint16_t column[DIM];
                float outlier[DIM], got[DIM];
                struct pith_kvquant_row row = {
                    .code = code, .column = column, .outlier = outlier, .room = DIM};
                if (keys) pith_kvquant_key(&q, s.x + t * DIM, &row);
                else pith_kvquant_value(&q, s.x + t * DIM, &row);
                assert_int_equal(row.step, 0);
                decode(&q, &row, got);
                for (size_t c = 0, o = 0; c < DIM; c++) {
                    const size_t at = t * DIM + c;
                    if (word_of(s.apart, at, 1)) {
                        assert_int_equal(column[o++], c);
                        assert_true(got[c] == half_of(s.x[at]));
                        continue;
                    }
                    assert_int_equal(code[c], word_of(s.code, at, 1));
                    assert_true(got[c] == s.back[at]);
                }
            }
        }
    json_decref(file);
}

static double loss(const float *a, const float *b)
{
    double sum = 0;
    for (size_t i = 0; i < DIM; i++) sum += pow((double)a[i] - (double)b[i], 2);
    return sum;
}

/* Without room the range of a key grows where that is better than cutting off, which is not less
 * than what cutting off to its channels' ranges gives; values are never cut off; what is not finite
 * is not kept. */
static void rows_without_room(void **state)
{
    (void)state;
    static struct side s;
    json_t *file = open_file();
    uint8_t code[DIM];
    uint16_t column[DIM];
    float outlier[DIM], got[DIM], cut[DIM], x[DIM], least = 0;
    size_t grown = 0;
    read_side(file, true, 4, &s);
    struct pith_kvquant q = rule_of(&s, true, 4);
    struct pith_kvquant_row row = {.code = code, .column = column, .outlier = outlier};
    for (size_t t = 0; t < TOKENS; t++)
        for (row.room = 0; row.room < 4; row.room++) {
            for (size_t c = 0; c < DIM; c++) x[c] = s.x[t * DIM + c] * (t % 2 ? 3.0f : 1.0f);
            pith_kvquant_key(&q, x, &row);
            decode(&q, &row, got);
            memcpy(cut, got, sizeof cut);
            for (size_t c = 0; c < DIM; c++) {
                const float z = (x[c] - q.middle[c]) / q.range[c], end = z < 0 ? -1 : 1;
                if (fabsf(z) > 1) cut[c] = end * q.range[c] + q.middle[c];
            }
            for (size_t o = 0; o < row.outliers; o++) cut[column[o]] = outlier[o];
            assert_in_range(row.outliers, 0, row.room);
            if (row.step > 0) assert_true(loss(got, x) < loss(cut, x) * 1.2), grown++;
        }
    assert_in_range(grown, 20, 200);
    x[3] = NAN;
    pith_kvquant_key(&q, x, &row);
    assert_true(row.step == PITH_KVQUANT_NAN && isnan(pith_kvquant_factor(row.step)));
    q = rule_of(&s, false, 4);
    pith_kvquant_value(&q, x, &row);
    assert_true(isnan(row.middle) && row.outliers == 0);
    for (size_t c = 0; c < DIM; c++) x[c] = c == 9 ? 50.0f : 0.01f * (float)c;
    row.room = 0;
    pith_kvquant_value(&q, x, &row);
    decode(&q, &row, got);
    for (size_t c = 0; c < DIM; c++) least = fmaxf(least, fabsf(got[c] - x[c]));
    assert_true(least < row.range * 0.2f && row.range == 25);
    row.room = 1;
    pith_kvquant_value(&q, x, &row);
    assert_true(row.outliers == 1 && column[0] == 9 && outlier[0] == 50 && row.range < 0.4f);
    for (size_t c = 0; c < DIM; c++) x[c] = 0;
    pith_kvquant_value(&q, x, &row);
    decode(&q, &row, got);
    for (size_t c = 0; c < DIM; c++) assert_true(got[c] == 0);
    json_decref(file);
}

/* A cache of keys that are turned, and its floats. */
struct pair {
    struct pith_row_code code[2];
    struct pith_cache cache, floats;
    struct pith_cache_rope rope;
    float *angles, *middle, *range, level[16];
};

static void pair_open(struct pair *p, unsigned bits, size_t heads, size_t dim, size_t tokens)
{
    const size_t pages = pith_cache_pages(tokens);
    *p = (struct pair){0};
    const size_t half = dim / 4 + dim % 4 / 2, angles = pages * half * 32;
    p->angles = normals(2 * angles, 9);
    p->middle = normals(heads * dim, 10);
    p->range = floats(heads * dim);
    for (size_t i = 0; i < angles; i++) {
        const float a = p->angles[i];
        p->angles[i] = cosf(a), p->angles[angles + i] = sinf(a);
    }
    for (size_t i = 0; i < heads * dim; i++)
        p->range[i] = 2.2f + 0.25f * (float)(i % 5), p->middle[i] *= 0.2f;
    for (unsigned i = 0; i < 1u << bits; i++)
        p->level[i] = sinf(3.0f * ((float)i / (float)((1u << bits) - 1) - 0.5f));
    p->rope = (struct pith_cache_rope){.cos = p->angles,
                                       .sin = p->angles + angles,
                                       .offset = dim - 2 * half,
                                       .dim = 2 * half,
                                       .adjacent = heads % 2 == 0,
                                       .back = 1};
    for (int i = 0; i < 2; i++) {
        p->code[i] = pith_row_code_kvquant(bits, (uint32_t)dim, i == 0, p->level);
        p->code[i].beyond = 3.2f;
    }
    p->cache = (struct pith_cache){.kv_heads = heads,
                                   .k = {.code = &p->code[0],
                                         .dim = dim,
                                         .middle = p->middle,
                                         .range = p->range,
                                         .rope = half ? &p->rope : NULL},
                                   .v = {.code = &p->code[1], .dim = dim}};
    paired_open(&p->cache, &p->floats, pages);
}

static void pair_fill(struct pair *p, struct pith_backend *b, const float *k, const float *v,
                      size_t from, size_t tokens)
{
    paired_fill(b, &p->cache, &p->floats, k, v,
                &(struct pith_cache_span){.start = from, .n = tokens - from});
}

static void pair_close(struct pair *p)
{
    pith_free(p->cache.memory);
    pith_free(p->floats.memory);
    pith_free(p->angles);
    pith_free(p->middle);
    pith_free(p->range);
}

/* Outliers that crowd into few tokens are held as long as the page has room, and a page's bytes are
 * those of its rows one after another. */
static void pages_hold_them(void **state)
{
    (void)state;
    static struct side k, v;
    struct setups s;
    json_t *file = open_file();
    setups_open(&s);
    for (unsigned bits = 2; bits <= 4; bits++) {
        read_side(file, true, bits, &k);
        read_side(file, false, bits, &v);
        for (size_t i = 0; i < s.count; i++) {
            struct pair p;
            size_t used[2] = {0}, most = 0;
            pair_open(&p, bits, 1, DIM, TOKENS);
            const uint32_t slots[2] = {pith_kvquant_slots(&p.code[0], true),
                                       pith_kvquant_slots(&p.code[1], false)};
            /* 32 positions: codes; two bytes a key, five a value; three an outlier. */
            assert_true(slots[0] >= 28 && slots[1] >= 28);
            assert_true(p.cache.k.bytes >= 32 * (DIM * bits / 8 + 2) + 3 * slots[0]);
            assert_true(p.cache.v.bytes >= 32 * (DIM * bits / 8 + 5) + 3 * slots[1]);
            assert_true(p.cache.page_bytes < 2 * 32 * DIM * (4 * bits + 5) / 32);
            p.cache.k.middle = k.middle;
            p.cache.k.range = k.range;
            p.cache.k.rope = NULL;
            p.code[0].level = p.code[1].level = k.level;
            p.code[1].beyond = 4;
            pair_fill(&p, s.backend[i], k.x, v.x, 0, TOKENS);
            for (size_t t = 0; t < TOKENS; t++) {
                float both[2 * DIM], expected[2 * DIM], outlier[255];
                uint16_t column[255];
                uint8_t code[DIM];
                if (t % 32 == 0) used[0] = used[1] = 0;
                for (int side = 0; side < 2; side++) {
                    const struct pith_kvquant q = rule_of(side ? &v : &k, side == 0, bits);
                    struct pith_kvquant_row row = {.code = code,
                                                   .column = column,
                                                   .outlier = outlier,
                                                   .room = slots[side] - (uint32_t)used[side]};
                    if (side) pith_kvquant_value(&q, v.x + t * DIM, &row);
                    else pith_kvquant_key(&q, k.x + t * DIM, &row);
                    decode(&q, &row, expected + side * DIM);
                    used[side] += row.outliers;
                    if (row.outliers > most) most = row.outliers;
                }
                pith_cache_read(s.backend[i], &p.cache, &(struct pith_cache_span){.n = TOKENS}, t,
                                0, both);
                assert_same(both, expected, 2 * DIM, "keys and values", i);
            }
            assert_in_range(most, 16, 64); /* of token 20, half of the page's */
            pair_close(&p);
        }
    }
    setups_close(&s);
    json_decref(file);
}

/* Cut back to any place and gone on with otherwise, then again as before. */
static void places_are_found_again(void **state)
{
    (void)state;
    enum { HEADS = 2, ROW = HEADS * DIM, ROWS = TOKENS * ROW };
    struct setups s;
    struct pair p, q;
    float *k = normals(ROWS, 2), *v = normals(ROWS, 3), *other = normals(ROWS, 4);
    setups_open(&s);
    for (size_t i = 0; i < ROWS; i += 5) k[i] *= 6, v[i] *= 6;
    pair_open(&p, 3, HEADS, DIM, TOKENS);
    pair_open(&q, 3, HEADS, DIM, TOKENS);
    pair_fill(&p, s.backend[0], k, v, 0, TOKENS);
    pair_fill(&q, s.backend[0], k, v, 0, TOKENS);
    for (size_t at = 0; at < TOKENS; at++) {
        const struct pith_cache_span wrong = {.start = at, .n = (TOKENS - at + 1) / 2};
        pith_cache_store(s.backend[0], &q.cache, &wrong, other + at * ROW, other + at * ROW);
        pair_fill(&q, s.backend[0], k, v, at, TOKENS);
        for (size_t t = 0; t < TOKENS; t++)
            for (size_t h = 0; h < HEADS; h++) {
                float a[2 * DIM], b[2 * DIM];
                const struct pith_cache_span all = {.n = TOKENS};
                pith_cache_read(s.backend[0], &p.cache, &all, t, h, a);
                pith_cache_read(s.backend[0], &q.cache, &all, t, h, b);
                assert_memory_equal(a, b, sizeof a);
            }
    }
    pair_close(&p), pair_close(&q);
    setups_close(&s);
    pith_free(k), pith_free(v), pith_free(other);
}

/* Turned keys are near what they were; a whole page of them reads as one does. */
static void keys_are_turned_again(struct pair *p, struct pith_backend *b, const float *k,
                                  size_t tokens)
{
    const size_t dim = p->cache.k.dim;
    float both[2 * 256];
    double error = 0, size = 0;
    for (size_t t = 0; t < tokens; t++)
        for (size_t h = 0; h < p->cache.kv_heads; h++, k += dim) {
            pith_cache_read(b, &p->cache, &(struct pith_cache_span){.n = tokens}, t, h, both);
            for (size_t e = 0; e < dim; e++) {
                error += pow((double)both[e] - (double)k[e], 2);
                size += (double)k[e] * (double)k[e];
            }
        }
    assert_true(error < 0.05 * size);
}

static void attends(struct setups *s, unsigned bits, struct shape c, size_t sink)
{
    const size_t tokens = c.start + c.n, row = c.kv_heads * c.dim, count = c.n * c.heads * c.dim;
    float *q = normals(count, 1), *k = normals(tokens * row, 2), *v = normals(tokens * row, 3);
    float *first = floats(count), *out = floats(count);
    for (size_t i = 0; i < tokens * row; i += 70) k[i] *= 5, v[i] *= 5;
    for (size_t i = 0; i < s->count; i++) {
        struct pair p;
        const struct pith_cache_span span = {.start = c.start, .n = c.n};
        pair_open(&p, bits, c.kv_heads, c.dim, tokens);
        pair_fill(&p, s->backend[i], k, v, 0, tokens);
        const struct pith_attention a = {.span = &span,
                                         .spans = 1,
                                         .heads = c.heads,
                                         .scale = 1 / sqrtf((float)c.dim),
                                         .cache = &p.cache,
                                         .plain = &p.floats,
                                         .sink = sink,
                                         .q = q};
        if (i == 0 && bits == 4) keys_are_turned_again(&p, s->backend[i], k, tokens);
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
        for (unsigned bits = 2; bits <= 4; bits++) attends(&s, bits, paired_shapes[i], i % 2);
    setups_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_the_authors),
        cmocka_unit_test(rows_without_room),
        cmocka_unit_test(pages_hold_them),
        cmocka_unit_test(places_are_found_again),
        cmocka_unit_test(attention_is_over_the_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
