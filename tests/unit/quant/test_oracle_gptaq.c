/* The rounders gptaq and qep against their published formulas, in double precision. */
#include "oracle_round.h"

/* A row goes its own way from the first weight on that lies between two codes. */
static void check_case(const json_t *c, FILE *codes)
{
    uint64_t state;
    struct problem p = problem_drifted(c, &state);
    const struct rounded_case r = round_case(c, &p, codes);
    assert_true(fabs(r.report.loss - r.loss) <= 0.01 * r.loss);
    assert_true(r.report.loss < r.report.nearest_loss);
    assert_true(r.other_rows <= 1);
    free_problem(&p);
}

static void codes_are_those_of_the_formulas(void **state)
{
    (void)state;
    each_case("gptaq", 10, check_case);
}

/* Without drift, or when none of it is to be made up for, both are GPTQ to the byte. */
static void without_drift_both_are_gptq(void **state)
{
    (void)state;
    static const char *const forms[] = {"gptaq", "qep"};
    struct problem p = make_problem(3, 40, 160, 320);
    struct pith_error err = {0};
    memset(p.drift, 0, sizeof(float) * p.cols * p.cols);
    for (size_t f = 0; f < PITH_COUNT(forms); f++) {
        struct pith_qmat a, b;
        struct pith_round_report one, other;
        assert_ok(run_rounder("gptq", &p, "int4:g32", PITH_ORDER_STATIC, 1, &a, &one, &err), err);
        assert_ok(run_rounder(forms[f], &p, "int4:g32", PITH_ORDER_STATIC, 1, &b, &other, &err),
                  err);
        assert_memory_equal(a.codes, b.codes, a.rows * a.stride);
        assert_true(one.loss <= other.loss); /* which counts the damping */
        pith_qmat_free(&a), pith_qmat_free(&b);
    }
    free_problem(&p);
}

/* The same Hessian for each group of rows is one Hessian for all. */
static void groups_of_rows_are_matrices_of_their_own(void **state)
{
    (void)state;
    static const char *const grids[] = {"int3:g32:asym", "q4_k", "nvfp4", "codebook3:channel",
                                        "int4:channel"};
    static const char *const forms[] = {"gptq:guided", "gptaq:guided", "qep:guided",
                                        "weighted:guided"};
    enum { VIEWS = 3 };
    struct problem p = make_problem(8, 70, 256, 300);
    const size_t square = (size_t)p.cols * p.cols;
    float *h = malloc(VIEWS * square * sizeof *h), *d = malloc(VIEWS * square * sizeof *d);
    float squares[VIEWS * 256];
    for (size_t i = 0; i < VIEWS * p.cols; i++) squares[i] = p.h[i % p.cols * (p.cols + 1)] / 2;
    p.stats.squares = squares;
    for (size_t v = 0; v < VIEWS; v++) {
        memcpy(h + v * square, p.h, square * sizeof *h);
        memcpy(d + v * square, p.drift, square * sizeof *d);
    }
    for (size_t f = 0; f < PITH_COUNT(forms); f++)
        for (size_t g = 0; g < PITH_COUNT(grids); g++) {
            struct pith_qmat a, b;
            struct pith_round_report one, other;
            struct pith_error err = {0};
            struct problem cut = p;
            cut.stats.hessian = h;
            cut.stats.drift = d;
            cut.stats.views = VIEWS;
            assert_ok(run_rounder(forms[f], &p, grids[g], PITH_ORDER_STATIC, 2, &a, &one, &err),
                      err);
            assert_ok(run_rounder(forms[f], &cut, grids[g], PITH_ORDER_STATIC, 1, &b, &other, &err),
                      err);
            float *x = decode_all(&a), *y = decode_all(&b);
            assert_memory_equal(x, y, sizeof *x * p.rows * p.cols);
            assert_true(fabs(one.loss - other.loss) < 1e-5 * one.loss);
            free(x), free(y);
            pith_qmat_free(&a), pith_qmat_free(&b);
        }
    /* One group's Hessian has no say in another's rows. */
    struct pith_qmat a, b;
    struct pith_round_report report;
    struct pith_error err = {0};
    struct problem cut = p;
    for (size_t i = 0; i < p.cols; i++) h[2 * square + i * (p.cols + 1)] *= (float)(1 + i % 5);
    cut.stats.hessian = h;
    cut.stats.views = VIEWS;
    assert_ok(run_rounder("gptq:guided", &p, "int3:g32", PITH_ORDER_STATIC, 1, &a, &report, &err),
              err);
    assert_ok(run_rounder("gptq:guided", &cut, "int3:g32", PITH_ORDER_STATIC, 1, &b, &report, &err),
              err);
    const uint32_t last = pith_rows_from(VIEWS, 2, p.rows);
    assert_memory_equal(a.codes, b.codes, last * a.stride);
    assert_memory_not_equal(a.codes + last * a.stride, b.codes + last * a.stride,
                            (p.rows - last) * a.stride);
    pith_qmat_free(&a), pith_qmat_free(&b);
    assert_int_equal(
        run_rounder("gptq:guided", &cut, "int4:tensor", PITH_ORDER_STATIC, 1, &a, &report, &err),
        PITH_UNSUPPORTED);
    assert_int_equal(
        run_rounder("gptq:guided", &cut, "int4:g32", PITH_ORDER_GROUP, 1, &a, &report, &err),
        PITH_UNSUPPORTED);
    free(h), free(d);
    free_problem(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_are_those_of_the_formulas),
        cmocka_unit_test(without_drift_both_are_gptq),
        cmocka_unit_test(groups_of_rows_are_matrices_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
