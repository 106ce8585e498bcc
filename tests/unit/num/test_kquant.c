/* num/gguf/kquant: GGUF's blocks against the gguf package and ggml
 * (tests/golden/num/make_kquants.py).
 */
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "num/elements/minifloat.h"
#include "num/gguf/kquant.h"
#include "test.h"

#include <math.h>

static json_t *load_golden(void)
{
    struct pith_error err = {0};
    json_t *j = NULL;
    assert_ok(pith_json_load("tests/golden/num/kquants.json", 1 << 20, &j, &err), err);
    return j;
}

static uint8_t *bytes_of(const char *hex, size_t n)
{
    assert_int_equal(strlen(hex), 2 * n);
    uint8_t *out = malloc(n);
    for (size_t i = 0; i < n; i++) {
        const char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return out;
}

static size_t number_of(const json_t *j, const char *key)
{
    return (size_t)json_integer_value(json_object_get(j, key));
}

static void check_block(const struct pith_kquant *t, const uint8_t *block, const char *words)
{
    struct pith_kblock b, back;
    float values[PITH_KBLOCK], again[PITH_KBLOCK];
    uint8_t packed[256];
    assert_true(pith_kquant_unpack(t, block, &b));
    pith_kquant_values(t, &b, values);
    for (size_t e = 0; e < t->elements; e++) {
        const uint32_t want = (uint32_t)strtoul(words + 9 * e, NULL, 16);
        if (pith_float_to_bits(values[e] + 0.0f) != want)
            fail_msg("%s: element %zu is %g", t->name, e, (double)values[e]);
    }
    memset(packed, 0xa5, sizeof packed);
    assert_true(pith_kquant_pack(t, &b, packed));
    assert_true(pith_kquant_unpack(t, packed, &back));
    pith_kquant_values(t, &back, again);
    assert_memory_equal(values, again, t->elements * sizeof *values);
    assert_memory_equal(b.codes, back.codes, t->elements);
    if (strcmp(t->name, "NVFP4") != 0) assert_memory_equal(block, packed, t->bytes);
}

static void values_are_those_of_ggml(void **state)
{
    (void)state;
    json_t *golden = load_golden(), *row;
    const char *name;
    size_t count, seen = 0;
    const struct pith_kquant *all = pith_kquants(&count);
    json_object_foreach (golden, name, row) {
        const struct pith_kquant *t = pith_kquant_find(name);
        assert_non_null(t);
        assert_string_equal(t->name, name);
        assert_ptr_equal(t, pith_kquant_by_id((uint32_t)number_of(row, "id")));
        assert_int_equal(t->elements, number_of(row, "elements"));
        assert_int_equal(t->bytes, number_of(row, "bytes"));
        const char *hex = json_string_value(json_object_get(row, "blocks"));
        const char *words = json_string_value(json_object_get(row, "values"));
        const size_t n = strlen(hex) / 2 / t->bytes;
        uint8_t *blocks = bytes_of(hex, n * t->bytes);
        assert_true(n >= 4);
        for (size_t i = 0; i < n; i++)
            check_block(t, blocks + i * t->bytes, words + i * t->elements * 9);
        free(blocks);
        seen++;
    }
    assert_int_equal(seen, count);
    for (size_t i = 1; i < count; i++) assert_true(all[i].id > all[i - 1].id);
    json_decref(golden);
}

static void rows_fit_together(void **state)
{
    (void)state;
    size_t count;
    const struct pith_kquant *all = pith_kquants(&count);
    for (size_t i = 0; i < count; i++) {
        const struct pith_kquant *t = &all[i];
        const struct pith_format *f = pith_format_find(t->element);
        unsigned bits = 0;
        assert_non_null(f);
        assert_ptr_equal(pith_kquant_find(t->format), t);
        /* The grid of that name has the same shape. */
        const struct pith_format *grid = pith_format_find(t->format);
        assert_non_null(grid);
        assert_string_equal(grid->element, t->element);
        assert_int_equal(grid->block, t->sub);
        assert_int_equal(t->elements % t->sub, 0);
        assert_true(t->elements / t->sub <= PITH_KSUBS);
        for (int p = 0; p < 2; p++) bits += t->plane[p].bits;
        assert_int_equal(bits, bits == 0 || strcmp(t->name, "Q1_0") == 0 ? bits : f->bits);
        assert_true(bits > 0 || t->copied); /* vectors and ternary digits */
    }
    assert_null(pith_kquant_by_id(15));
    assert_null(pith_kquant_find("q4"));
    assert_null(pith_kquant_find("q4_kk"));
}

/* A scale that a type cannot hold is refused, never rounded. */
static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    size_t count;
    const struct pith_kquant *all = pith_kquants(&count);
    for (size_t i = 0; i < count; i++) {
        const struct pith_kquant *t = &all[i];
        struct pith_kblock b;
        uint8_t block[256] = {0};
        const bool two = t->scale_most != 0;
        assert_true(pith_kquant_unpack(t, block, &b)); /* codes that there are */
        b.d = 0x1p-4f;
        b.dmin = 0x1p-5f;
        if (!two) b.d = b.dmin = 0;
        for (int k = 0; k < PITH_KSUBS; k++) {
            b.scale[k] = two ? b.d * 3 : 0x1p-3f;
            b.offset[k] = t->minimums ? (two ? -b.dmin * 7 : -0x1p-2f) : 0;
        }
        assert_true(pith_kquant_pack(t, &b, block));
        struct pith_kblock bad = b;
        bad.scale[0] *= 1.0001f;
        assert_false(pith_kquant_pack(t, &bad, block));
        bad = b;
        bad.scale[0] = NAN;
        assert_false(pith_kquant_pack(t, &bad, block));
        bad = b;
        bad.offset[0] *= 1.0001f;
        assert_true(pith_kquant_pack(t, &bad, block) == !t->minimums);
        if (!two) continue;
        bad = b;
        bad.scale[0] = b.d * (float)(t->scale_most + 1);
        assert_false(pith_kquant_pack(t, &bad, block));
        bad.scale[0] = b.d * (float)(t->scale_least - 1);
        assert_false(pith_kquant_pack(t, &bad, block));
    }
}

/* A code that no block has, alone or beside its neighbours. */
static void codes_of_no_block_are_refused(void **state)
{
    static const struct {
        const char *type;
        unsigned at;
        uint8_t code;
    } cases[] = {
        {"IQ1_S", 5, 3},     {"IQ1_S", 9, 8},    {"IQ1_M", 255, 9},  {"IQ2_XXS", 0, 3},
        {"IQ2_XXS", 63, 8},  {"IQ2_XS", 70, 10}, {"IQ2_S", 100, 7},  {"IQ3_XXS", 7, 8},
        {"IQ3_XXS", 200, 7}, {"IQ3_S", 255, 3},  {"TQ1_0", 0, 0},    {"TQ1_0", 255, 4},
        {"Q1_0", 127, 2},
    };
    (void)state;
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        const struct pith_kquant *t = pith_kquant_find(cases[i].type);
        struct pith_kblock b;
        uint8_t block[256] = {0};
        assert_true(pith_kquant_unpack(t, block, &b));
        assert_true(pith_kquant_pack(t, &b, block));
        b.codes[cases[i].at] = cases[i].code;
        if (pith_kquant_pack(t, &b, block)) fail_msg("case %zu, %s", i, t->name);
    }
}

/* Halves that are infinite or NaN, E8M0's NaN. */
static void scales_that_are_no_numbers_are_seen(void **state)
{
    (void)state;
    uint8_t block[256] = {0};
    struct pith_kblock b;
    size_t count;
    const struct pith_kquant *all = pith_kquants(&count);
    for (size_t i = 0; i < count; i++) {
        const struct pith_kquant *t = &all[i];
        memset(block, 0, sizeof block);
        assert_true(pith_kquant_unpack(t, block, &b));
        memset(block, 0xff, sizeof block);
        assert_false(pith_kquant_unpack(t, block, &b));
    }
}

/* Any bytes: what is finite survives a round trip in value. */
static void bytes_at_random(void **state)
{
    (void)state;
    struct pith_rng rng;
    size_t count, kept = 0;
    const struct pith_kquant *all = pith_kquants(&count);
    pith_rng_seed(&rng, 3);
    for (size_t i = 0; i < count * 200; i++) {
        const struct pith_kquant *t = &all[i % count];
        struct pith_kblock a, b;
        float x[PITH_KBLOCK], y[PITH_KBLOCK];
        uint8_t block[256], packed[256];
        for (size_t k = 0; k < t->bytes; k++) block[k] = (uint8_t)pith_rng_next(&rng);
        if (!pith_kquant_unpack(t, block, &a)) continue;
        assert_true(pith_kquant_pack(t, &a, packed));
        assert_true(pith_kquant_unpack(t, packed, &b));
        pith_kquant_values(t, &a, x);
        pith_kquant_values(t, &b, y);
        for (size_t e = 0; e < t->elements; e++) assert_true(x[e] == y[e]);
        kept++;
    }
    assert_true(kept > count * 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_ggml),
        cmocka_unit_test(rows_fit_together),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(codes_of_no_block_are_refused),
        cmocka_unit_test(scales_that_are_no_numbers_are_seen),
        cmocka_unit_test(bytes_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
