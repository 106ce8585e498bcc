/* Rows kept as codes: what they stand for is what num/input.h rounds to; every format of the table
 * that a row can have; and what the authors' code makes of them (tests/golden/num/make_kv.py). */
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "num/elements/minifloat.h"
#include "num/rowcode.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COLS = 128, ROWS = 40, WIDE = 256, COUNT = 5 * WIDE };

/* Of all sizes: small, large, outliers, all zeros, a single value. */
static void fill(struct pith_rng *r, int row, float *x)
{
    const float size = ldexpf(1.0f, row % 23 - 11);
    for (int c = 0; c < COLS; c++) {
        x[c] = (float)pith_rng_normal(r) * size;
        if (row % 5 == 1 && c % 37 == 3) x[c] *= 50;
        if (row % 7 == 6) x[c] = row == 6 ? 0.0f : c == 9 ? size : 0.0f;
    }
}

static void check_row(const struct pith_row_code *code, const struct pith_input *in, const float *x,
                      const char *name)
{
    const struct pith_input_call call = {0};
    float expected[COLS], got[COLS];
    uint8_t codes[COLS], bytes[8];
    struct pith_row_scale of[COLS];
    pith_input_row(in, &call, x, COLS, expected);
    pith_row_encode(code, in->scale, x, codes, of);
    for (uint32_t g = 0; g < code->groups; g++) {
        assert_in_range(pith_row_group_bytes(code), 0, sizeof bytes);
        pith_row_scale_put(code, in->scale, &of[g], bytes);
        of[g] = pith_row_scale_get(code, in->scale, bytes);
    }
    for (int c = 0; c < COLS; c++) assert_in_range(codes[c], 0, (1u << code->bits) - 1);
    pith_row_decode(code, codes, of, got);
    for (int c = 0; c < COLS; c++)
        if (got[c] != expected[c])
            fail_msg("%s: column %d of %a is %a, not %a", name, c, (double)x[c], (double)got[c],
                     (double)expected[c]);
}

static void check_grid(const char *name)
{
    struct pith_error err = {0};
    struct pith_grid grid;
    struct pith_row_code code;
    struct pith_rng r;
    float level[PITH_ROW_LEVELS], x[COLS];
    assert_ok(pith_grid_parse(name, &grid, &err), err);
    pith_kv_grid_settle(&grid);
    assert_ok(pith_row_code_make(&grid, COLS, level, &code, &err), err);
    struct pith_input in = code.in;
    in.scale = grid.is_static ? 0.03f : 1.0f;
    pith_rng_seed(&r, 5);
    for (int row = 0; row < ROWS; row++) {
        fill(&r, row, x);
        check_row(&code, &in, x, name);
    }
}

static void codes_stand_for_what_is_rounded(void **state)
{
    (void)state;
    static const char *const grids[] = {"int8:token",     "int8:token:asym",
                                        "int4:token",     "int4:g32",
                                        "int4:g32:asym",  "int8:g64",
                                        "int3:g32:asym",  "int2:g32",
                                        "int5:token",     "int6:g16:asym",
                                        "int7:token",     "int8:tensor",
                                        "fp8_e4m3",       "fp8_e5m2",
                                        "fp8_e4m3:token", "fp8_e5m2:token",
                                        "fp8_e4m3:g32",   "fp8_e5m2:g16",
                                        "mxfp8",          "mxfp8_e5m2",
                                        "mxfp6_e3m2",     "mxfp6_e2m3",
                                        "mxfp4",          "q8_0",
                                        "q4_0",           "q4_1",
                                        "q5_0",           "q5_1",
                                        "iq4_nl"};
    for (size_t i = 0; i < PITH_COUNT(grids); i++) check_grid(grids[i]);
}

/* The rows of a file in hexadecimal, COUNT numbers. */
static void read_words(const json_t *words, float *x)
{
    const char *hex = json_string_value(words);
    for (size_t i = 0; i < COUNT; i++, hex += 8) {
        char word[9] = {0};
        memcpy(word, hex, 8);
        x[i] = pith_bits_to_float((uint32_t)strtoul(word, NULL, 16));
    }
}

static json_t *load(const char *path)
{
    struct pith_error err = {0};
    json_t *j;
    assert_ok(pith_json_load(path, 1 << 20, &j, &err), err);
    return j;
}

/* Rows of WIDE columns by way of codes and bytes. */
static void make_code(const char *name, uint32_t cols, float *level, struct pith_row_code *code)
{
    struct pith_error err = {0};
    struct pith_grid grid;
    if (strncmp(name, "turbo", 5) == 0) {
        assert_ok(pith_row_code_gaussian((unsigned)(name[5] - '0'), cols, level, code, &err), err);
        return;
    }
    assert_ok(pith_grid_parse(name, &grid, &err), err);
    pith_kv_grid_settle(&grid);
    assert_ok(pith_row_code_make(&grid, cols, level, code, &err), err);
}

static void keep_rows(const char *name, float scale, const float *x, float *y)
{
    struct pith_row_code code;
    struct pith_row_scale of[WIDE];
    float level[PITH_ROW_LEVELS];
    uint8_t codes[WIDE], bytes[8];
    make_code(name, WIDE, level, &code);
    for (size_t r = 0; r < COUNT; r += WIDE) {
        pith_row_encode(&code, scale, x + r, codes, of);
        for (uint32_t g = 0; g < code.groups; g++) {
            pith_row_scale_put(&code, scale, &of[g], bytes);
            of[g] = pith_row_scale_get(&code, scale, bytes);
        }
        pith_row_decode(&code, codes, of, y + r);
    }
}

static void assert_rows(const char *name, const float *x, const float *y, const float *want)
{
    for (size_t i = 0; i < COUNT; i++)
        if (y[i] != want[i])
            fail_msg("%s: value %zu of %a is %a, not %a", name, i, (double)x[i], (double)y[i],
                     (double)want[i]);
}

static void rows_are_those_of_the_authors(void **state)
{
    (void)state;
    int modelopt = 0;
    static float x[COUNT], y[COUNT], want[COUNT];
    json_t *inputs = load("tests/golden/num/inputs.json"), *all = load("tests/golden/num/kv.json");
    const char *name;
    json_t *rows;
    read_words(json_object_get(inputs, "x"), x);
    assert_in_range(json_object_size(all), 8, 100);
    json_object_foreach (all, name, rows) {
        read_words(rows, want);
        keep_rows(name, 1.0f, x, y);
        assert_rows(name, x, y, want);
    }
    size_t i;
    json_array_foreach (json_object_get(inputs, "cases"), i, rows) {
        const float scale = (float)json_number_value(json_object_get(rows, "scale"));
        if (strcmp(json_string_value(json_object_get(rows, "grid")), "nvfp4") != 0 ||
            json_integer_value(json_object_get(rows, "rule")) != PITH_INPUT_MODELOPT)
            continue;
        read_words(json_object_get(rows, "y"), want);
        keep_rows("nvfp4", scale, x, y);
        assert_rows("ModelOpt's nvfp4", x, y, want);
        modelopt++;
    }
    assert_int_equal(modelopt, 1);
    json_decref(all);
    json_decref(inputs);
}

/* Of normally distributed rows what Max (1960, table I) gives: TurboQuant's 0.117, 0.03, 0.009.
 * Rows are long, since in short ones that have their norm no element is as large as a normal one
 * may be.
 */
static void levels_have_the_least_error(void **state)
{
    (void)state;
    enum { LONG = 1024 };
    static const double published[] = {0.1175, 0.03454, 0.009497};
    struct pith_rng r;
    pith_rng_seed(&r, 8);
    for (unsigned bits = 2; bits <= 4; bits++) {
        float level[PITH_ROW_LEVELS], x[LONG], y[LONG];
        uint8_t codes[LONG];
        struct pith_row_code code;
        struct pith_row_scale of;
        double error = 0, norm = 0;
        const char name[] = {'t', 'u', 'r', 'b', 'o', (char)('0' + bits), '\0'};
        make_code(name, LONG, level, &code);
        for (int row = 0; row < 300; row++) {
            for (int c = 0; c < LONG; c++) x[c] = (float)pith_rng_normal(&r) * 0.37f;
            pith_row_encode(&code, 1.0f, x, codes, &of);
            pith_row_decode(&code, codes, &of, y);
            for (int c = 0; c < LONG; c++) {
                error += (double)(x[c] - y[c]) * (double)(x[c] - y[c]);
                norm += (double)x[c] * (double)x[c];
            }
        }
        if (fabs(error / norm / published[bits - 2] - 1) > 0.01)
            fail_msg("%u bits: %g of the norm, not %g", bits, error / norm, published[bits - 2]);
    }
}

/* What every name of the table says of itself agrees with what is accepted. */
static void what_cannot_be_kept_is_refused(void **state)
{
    (void)state;
    static const char *const refused[] = {"nf4",          "q4_k",     "q6_k",
                                          "int8:channel", "int4:b32", "int4:g32:mse"};
    for (size_t i = 0; i < PITH_COUNT(refused); i++) {
        struct pith_error err = {0};
        struct pith_grid grid;
        struct pith_row_code code;
        float level[PITH_ROW_LEVELS];
        if (pith_grid_parse(refused[i], &grid, &err) != PITH_OK) continue;
        if (pith_row_code_make(&grid, COLS, level, &code, &err) == PITH_OK)
            fail_msg("%s is taken", refused[i]);
    }
}

static void sizes_are_what_the_format_says(void **state)
{
    (void)state;
    static const struct {
        const char *grid;
        uint32_t bits, groups, beside;
    } cases[] = {{"int8:token", 8, 1, 4},   {"int4:g32", 4, 4, 2},       {"int4:g32:asym", 4, 4, 3},
                 {"fp8_e4m3:g32", 8, 4, 2}, {"fp8_e4m3", 8, 1, 0},       {"mxfp4", 4, 4, 1},
                 {"q8_0", 8, 4, 2},         {"nvfp4", 4, 8, 1},          {"fp8_e5m2:head", 8, 1, 0},
                 {"q5_1", 5, 4, 4},         {"int4:token:asym", 4, 1, 5}};
    for (size_t i = 0; i < PITH_COUNT(cases); i++) {
        struct pith_error err = {0};
        struct pith_grid grid;
        struct pith_row_code code;
        float level[PITH_ROW_LEVELS];
        assert_ok(pith_grid_parse(cases[i].grid, &grid, &err), err);
        pith_kv_grid_settle(&grid);
        assert_ok(pith_row_code_make(&grid, COLS, level, &code, &err), err);
        assert_int_equal(code.bits, cases[i].bits);
        assert_int_equal(code.groups, cases[i].groups);
        assert_int_equal(pith_row_group_bytes(&code), cases[i].beside);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_stand_for_what_is_rounded),
        cmocka_unit_test(rows_are_those_of_the_authors),
        cmocka_unit_test(levels_have_the_least_error),
        cmocka_unit_test(what_cannot_be_kept_is_refused),
        cmocka_unit_test(sizes_are_what_the_format_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
