/* num/recode: the same codes on other grids stand for the same weights, but for rounded scales. */
#include "num/recode.h"
#include "test.h"

#include <math.h>

enum { ROWS = 6, COLS = 256 };

static struct pith_grid grid_of(const char *text)
{
    struct pith_error err = {0};
    struct pith_grid g;
    assert_ok(pith_grid_parse(text, &g, &err), err);
    return g;
}

static uint32_t next(uint32_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 17;
    *x ^= *x << 5;
    return *x;
}

/* Any codes and zeros; scales that halves hold. */
static struct pith_qmat matrix(const char *grid)
{
    struct pith_error err = {0};
    const struct pith_grid g = grid_of(grid);
    struct pith_qmat q;
    uint32_t x = 362436069u;
    assert_ok(pith_qmat_init(&q, ROWS, COLS, &g, PITH_F16, &err), err);
    for (uint32_t r = 0; r < ROWS; r++) {
        uint8_t codes[COLS];
        for (int c = 0; c < COLS; c++) {
            codes[c] = (uint8_t)(next(&x) & ((1u << q.format->bits) - 1));
            if (q.format->kind == PITH_KIND_FLOAT) codes[c] &= 0x77; /* no NaN */
        }
        pith_qmat_set_codes(&q, r, codes);
    }
    for (size_t i = 0; i < pith_qmat_scale_count(&q); i++) {
        q.scales[i] = pith_round_to(PITH_F16, ldexpf(1.0f + (float)(next(&x) & 1023) / 1024, -8));
        if (q.zeros) q.zeros[i] = (uint8_t)(next(&x) & ((1u << q.format->bits) - 1));
        if (q.offsets)
            q.offsets[i] = -q.scales[i] * (float)(next(&x) & ((16u << q.format->bits) - 1)) / 16;
    }
    return q;
}

/* Largest difference of a weight in steps of its scale, at most 2^bits of which are a range. */
static double moved(const struct pith_qmat *a, const struct pith_qmat *b)
{
    double most = 0;
    for (uint32_t r = 0; r < ROWS; r++) {
        float x[COLS], y[COLS];
        pith_qmat_decode(a, r, 1, x);
        pith_qmat_decode(b, r, 1, y);
        for (uint32_t c = 0; c < COLS; c++) {
            const double s = a->scales[pith_qmat_scale_index(a, r, c / a->group)];
            most = fmax(most, fabs((double)x[c] - y[c]) / s);
        }
    }
    return most;
}

static const struct {
    const char *from, *to;
    bool fits;
    double limit; /* in steps */
} cases[] = {
    {"int4:g128", "int4:g32", true, 0},          {"int4:g128", "int4:g64", true, 0},
    {"int4:channel", "q4_0", true, 0},           {"int3:g64", "int4:g32", true, 0},
    {"int3:g64:asym", "int4:g64:asym", true, 0}, {"int3:g64:asym", "q4_0", true, 0},
    {"int2:channel", "int8:channel", true, 0},   {"int4:g64:asym", "q5_0", true, 0},
    {"int4:g64:asym", "q4_1", true, 0.0075},     {"int4:g128", "q4_1", true, 0.0075},
    {"int5:g32:asym", "q5_1", true, 0.016},      {"int7:g32:asym", "q8_0", true, 0},
    {"int4:tensor", "int4:channel", true, 0},    {"fp8:block128", "fp8:g128", true, 0},
    {"nf4:g64:dq", "nf4:g64", true, 0},          {"q5_0", "int8:g32", true, 0},
    {"int4:g32", "int4:g64", false, 0},          {"int4:g64", "int4:channel", false, 0},
    {"int4:g64:asym", "int4:g64", false, 0},     {"int4:g64:asym", "q4_0", false, 0},
    {"int5:g32", "int4:g32", false, 0},          {"int8:g32:asym", "q8_0", false, 0},
    {"int4:g32", "q4_k", false, 0},              {"q4_1", "int4:g32:asym", false, 0},
    {"mxfp4", "nvfp4", false, 0},                {"nf4:g64", "nf4:g64:dq", false, 0},
    {"codebook4", "nf4:g64", false, 0},          {"int4:g48", "q4_0", false, 0},
    {"int4:g64:asym:hqq", "q4_1", true, 0.0075}, {"int4:g64:asym:hqq", "int4:g64:asym", false, 0},
    {"int3:g64:asym:hqq", "int4:g64", false, 0}, {"int4:g64:asym:hqq", "q5_0", false, 0},
    {"int3:g64:asym:hqq", "int8:g64", false, 0}, {"int2:g128", "q1_0", false, 0},
    {"int2:g256", "tq2_0", false, 0},            {"tq1_0", "int2:g128", true, 0},
    {"q2_0", "int4:g32", true, 0},               {"iq2_xs", "int4:g32", false, 0},
};

static void codes_stay_and_values_with_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pith_error err = {0};
        const struct pith_grid from = grid_of(cases[i].from), to = grid_of(cases[i].to);
        if (pith_recode_fits(&from, &to, COLS) != cases[i].fits)
            fail_msg("%s to %s: fits is %d", cases[i].from, cases[i].to, !cases[i].fits);
        if (!cases[i].fits) continue;
        struct pith_qmat a = matrix(cases[i].from), b;
        assert_ok(pith_recode(&a, &to, PITH_F16, &b, &err), err);
        assert_ok(pith_qmat_check(&b, &err), err);
        const double d = moved(&a, &b);
        if (!(d <= cases[i].limit))
            fail_msg("%s to %s moves a weight by %g steps", cases[i].from, cases[i].to, d);
        pith_qmat_free(&a);
        pith_qmat_free(&b);
    }
}

static void minimums_of_zero_points_go_back(void **state)
{
    (void)state;
    struct pith_error err = {0};
    const struct pith_grid there = grid_of("q4_1"), back = grid_of("int4:g32:asym");
    struct pith_qmat a = matrix("int4:g32:asym"), b, c;
    assert_ok(pith_recode(&a, &there, PITH_F16, &b, &err), err);
    assert_ok(pith_recode(&b, &back, PITH_F16, &c, &err), err);
    assert_true(pith_qmat_equal(&a, &c));
    pith_qmat_free(&a);
    pith_qmat_free(&b);
    pith_qmat_free(&c);
}

static void scales_that_do_not_fit_are_an_error(void **state)
{
    (void)state;
    struct pith_error err = {0};
    const struct pith_grid to = grid_of("q4_0");
    struct pith_qmat a = matrix("int4:g32"), b;
    a.scales[3] = 1e6f;
    assert_int_equal(pith_recode(&a, &to, PITH_F16, &b, &err), PITH_NUMERIC);
    assert_null(b.codes);
    pith_qmat_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_stay_and_values_with_them),
        cmocka_unit_test(minimums_of_zero_points_go_back),
        cmocka_unit_test(scales_that_do_not_fit_are_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
