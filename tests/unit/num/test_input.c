/* num/input: activations rounded as compressed-tensors, bitsandbytes and ModelOpt round them
 * (tests/golden/num/make_inputs.py), as values and as integer codes. */
#include "base/json.h"
#include "num/elements/minifloat.h"
#include "num/input.h"
#include "test.h"

#include <math.h>

enum { ROWS = 5, COLS = 256, COUNT = ROWS * COLS };

struct golden {
    json_t *root;
    float x[COUNT];
};

static void read_words(const json_t *j, const char *key, float *out)
{
    const char *s = json_string_value(json_object_get(j, key));
    assert_non_null(s);
    assert_int_equal(strlen(s), COUNT * 8);
    for (size_t i = 0; i < COUNT; i++) {
        char word[9] = {0};
        memcpy(word, s + 8 * i, 8);
        out[i] = pith_bits_to_float((uint32_t)strtoul(word, NULL, 16));
    }
}

static int setup(void **state)
{
    static struct golden g;
    struct pith_error err = {0};
    assert_ok(pith_json_load("tests/golden/num/inputs.json", 1 << 20, &g.root, &err), err);
    read_words(g.root, "x", g.x);
    *state = &g;
    return 0;
}

static int teardown(void **state)
{
    struct golden *g = *state;
    json_decref(g->root);
    return 0;
}

static double real_of(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

static struct pith_input input_of(const json_t *j)
{
    struct pith_error err = {0};
    struct pith_input in = {.scale = (float)real_of(j, "scale"),
                            .zero = (float)real_of(j, "zero"),
                            .threshold = (float)real_of(j, "threshold"),
                            .rule = (enum pith_input_rule)(int)real_of(j, "rule")};
    const char *grid = json_string_value(json_object_get(j, "grid"));
    assert_ok(pith_grid_parse(grid, &in.grid, &err), err);
    assert_ok(pith_input_check(&in, COLS, &err), err);
    return in;
}

static void values_are_those_of_the_peers(void **state)
{
    const struct golden *g = *state;
    const json_t *cases = json_object_get(g->root, "cases"), *row;
    size_t i;
    assert_int_equal(json_array_size(cases), 25);
    json_array_foreach (cases, i, row) {
        static float want[COUNT], y[COUNT];
        uint8_t kept[COLS];
        const struct pith_input in = input_of(row);
        const bool loose = json_is_true(json_object_get(row, "loose"));
        const json_t *without = json_object_get(row, "without_row");
        size_t wrong = 0;
        read_words(row, "y", want);
        pith_input_rows(&in, g->x, ROWS, COLS, kept, y);
        for (size_t e = 0; e < COUNT; e++) {
            if (without && e / COLS == (size_t)json_integer_value(without)) continue;
            if (loose) wrong += !(fabsf(y[e] - want[e]) <= 1e-6f * fabsf(want[e]));
            else wrong += y[e] != want[e];
        }
        if (wrong)
            fail_msg("case %zu, %s by rule %d: %zu values differ", i,
                     json_string_value(json_object_get(row, "grid")), (int)in.rule, wrong);
    }
}

static void codes_stand_for_the_values(void **state)
{
    const struct golden *g = *state;
    const json_t *cases = json_object_get(g->root, "cases"), *row;
    size_t i, seen = 0;
    json_array_foreach (cases, i, row) {
        const struct pith_input in = input_of(row);
        if (in.grid.format->kind != PITH_KIND_INT) continue;
        for (size_t block = 32; block <= 128; block *= 4, seen++) {
            float y[COLS], scale[COLS / 32], zero;
            int8_t q[COLS];
            int32_t sum[COLS / 32];
            uint8_t kept[COLS] = {0};
            const struct pith_input_codes out = {block, q, scale, sum, &zero};
            struct pith_input_call call = {0};
            if (in.grid.group && in.grid.group % block) continue;
            pith_input_survey(&in, g->x, ROWS, COLS, &call, kept);
            for (size_t r = 0; r < ROWS; r++) {
                int32_t sums[COLS / 32] = {0};
                pith_input_row(&in, &call, g->x + r * COLS, COLS, y);
                pith_input_encode(&in, &call, g->x + r * COLS, COLS, &out);
                for (size_t c = 0; c < COLS; c++) {
                    sums[c / block] += q[c];
                    if (call.outlier && kept[c]) assert_int_equal(q[c], 0);
                    else assert_true(((float)q[c] - zero) * scale[c / block] == y[c]);
                }
                assert_memory_equal(sums, sum, COLS / block * sizeof *sum);
            }
        }
    }
    assert_true(seen >= 16);
}

/* Of the columns that some row of the call marks, all rows stay; the others do not see them. */
static void outlier_columns_are_those_of_the_call(void **state)
{
    const struct golden *g = *state;
    struct pith_error err = {0};
    struct pith_input in = {.threshold = 6.0f, .rule = PITH_INPUT_BNB};
    uint8_t kept[COLS];
    float y[2 * COLS], alone[COLS];
    assert_ok(pith_grid_parse("int8:token", &in.grid, &err), err);
    pith_input_rows(&in, g->x, 2, COLS, kept, y);
    assert_int_equal(kept[17], 1);
    assert_int_equal(kept[130], 1);
    assert_true(y[17] == 9.5f && y[130] == 1.0f && y[COLS + 130] == -7.5f);
    pith_input_rows(&in, g->x, 1, COLS, kept, alone);
    assert_int_equal(kept[130], 0);
    assert_true(alone[130] != 1.0f && alone[17] == 9.5f);
}

static void what_is_not_finite_shows(void **state)
{
    static const char *const grids[] = {"int8:token", "int8:tensor", "int8:g32",       "fp8:token",
                                        "mxfp8",      "mxfp4",       "int4:token:asym"};
    (void)state;
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++)
        for (int inf = 0; inf < 2; inf++) {
            struct pith_error err = {0};
            struct pith_input in = {0};
            float x[64], y[64];
            for (size_t c = 0; c < 64; c++) x[c] = (float)c - 20.0f;
            x[40] = inf ? INFINITY : NAN;
            assert_ok(pith_grid_parse(grids[i], &in.grid, &err), err);
            pith_input_rows(&in, x, 1, 64, NULL, y);
            assert_true(isnan(y[40]));
        }
}

static void what_cannot_be_is_refused(void **state)
{
    static const char *const grids[] = {"nf4", "int8:channel", "fp8:block128", "bf16",
                                        "int4:g128:static"};
    (void)state;
    struct pith_error err = {0};
    struct pith_input in = {0};
    for (size_t i = 0; i < sizeof grids / sizeof *grids; i++) {
        assert_ok(pith_grid_parse(grids[i], &in.grid, &err), err);
        assert_int_equal(pith_input_check(&in, 256, NULL), PITH_UNSUPPORTED);
    }
    assert_ok(pith_grid_parse("int8:g128", &in.grid, &err), err);
    assert_int_equal(pith_input_check(&in, 200, NULL), PITH_UNSUPPORTED);
    assert_int_equal(pith_input_check(&in, 256, NULL), PITH_OK);
    assert_ok(pith_grid_parse("fp8:tensor:static", &in.grid, &err), err);
    assert_int_equal(pith_input_check(&in, 256, NULL), PITH_ARG);
    in.scale = NAN;
    assert_int_equal(pith_input_check(&in, 256, NULL), PITH_ARG);
    in.scale = 0.5f;
    assert_int_equal(pith_input_check(&in, 256, NULL), PITH_OK);
    in.threshold = 6.0f;
    assert_int_equal(pith_input_check(&in, 256, NULL), PITH_UNSUPPORTED);
    in.threshold = NAN;
    assert_int_equal(pith_input_check(&in, 256, NULL), PITH_ARG);
    assert_ok(pith_grid_parse("int8:tensor:asym:static", &in.grid, &err), err);
    in.threshold = 0.0f;
    in.zero = 256.0f;
    assert_int_equal(pith_input_check(&in, 256, NULL), PITH_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_peers),
        cmocka_unit_test(codes_stand_for_the_values),
        cmocka_unit_test(outlier_columns_are_those_of_the_call),
        cmocka_unit_test(what_is_not_finite_shows),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
