/* eval/stats: against SciPy (tests/golden/eval/make_stats.py). */
#include "base/json.h"
#include "eval/stats.h"
#include "test.h"

#include <math.h>

static json_t *golden;

static int load(void **state)
{
    (void)state;
    return pith_json_load("tests/golden/eval/stats.json", 1 << 20, &golden, NULL) == PITH_OK ? 0
                                                                                             : -1;
}

static int unload(void **state)
{
    (void)state;
    json_decref(golden);
    return 0;
}

static double at(const json_t *row, size_t i)
{
    return json_number_value(json_array_get(row, i));
}

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * fmax(1e-300, fabs(want))))
        fail_msg("%.17g is not %.17g", got, want);
}

static void t_quantiles_are_those_of_scipy(void **state)
{
    (void)state;
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(golden, "t975"), i, row) {
        assert_near(pith_t975(at(row, 0)), at(row, 1), 1e-10);
    }
    assert_true(i > 10);
    assert_true(isinf(pith_t975(0)));
    assert_true(isinf(pith_t975(NAN)));
}

static void wilson_intervals_are_those_of_scipy(void **state)
{
    (void)state;
    size_t i;
    const json_t *row;
    struct pith_interval ci;
    json_array_foreach(json_object_get(golden, "wilson"), i, row) {
        pith_wilson_ci95((size_t)at(row, 0), (size_t)at(row, 1), &ci);
        assert_true(fabs(ci.lo - at(row, 2)) < 1e-12);
        assert_true(fabs(ci.hi - at(row, 3)) < 1e-12);
    }
    pith_wilson_ci95(0, 0, &ci);
    assert_true(ci.lo == 0 && ci.hi == 1);
}

static void mcnemar_is_the_exact_test(void **state)
{
    (void)state;
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(golden, "mcnemar"), i, row) {
        assert_near(pith_mcnemar_p((size_t)at(row, 0), (size_t)at(row, 1)), at(row, 2), 1e-9);
    }
}

static size_t numbers(const json_t *list, double *out, size_t room)
{
    const size_t n = json_array_size(list);
    assert_true(n <= room);
    for (size_t i = 0; i < n; i++) out[i] = at(list, i);
    return n;
}

static void assert_interval(const json_t *row, double mean, struct pith_interval ci)
{
    assert_near(mean, json_number_value(json_object_get(row, "mean")), 1e-9);
    assert_near(ci.lo, json_number_value(json_object_get(row, "lo")), 1e-9);
    assert_near(ci.hi, json_number_value(json_object_get(row, "hi")), 1e-9);
}

static void intervals_of_means(void **state)
{
    (void)state;
    double v[512], w[512], mean;
    struct pith_interval ci;
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(golden, "means"), i, row) {
        const size_t n = numbers(json_object_get(row, "values"), v, 512);
        pith_mean_ci95(v, n, &mean, &ci);
        assert_interval(row, mean, ci);
        for (size_t k = 0; k < n; k++) w[k] = 511;
        pith_weighted_ci95(v, w, n, &mean, &ci);
        assert_interval(row, mean, ci);
    }
    json_array_foreach(json_object_get(golden, "ratios"), i, row) {
        const size_t n = numbers(json_object_get(row, "values"), v, 512);
        assert_int_equal(numbers(json_object_get(row, "weights"), w, 512), n);
        pith_weighted_ci95(v, w, n, &mean, &ci);
        assert_interval(row, mean, ci);
    }
}

static void one_value_proves_nothing(void **state)
{
    (void)state;
    const double v = 3;
    double mean;
    struct pith_interval ci;
    pith_mean_ci95(&v, 1, &mean, &ci);
    assert_true(mean == 3 && ci.lo == -INFINITY && ci.hi == INFINITY);
    assert_int_equal(pith_verdict_of(ci), PITH_INDISTINGUISHABLE);
    const double same[3] = {0, 0, 0};
    pith_mean_ci95(same, 3, &mean, &ci);
    assert_true(ci.lo == 0 && ci.hi == 0);
    assert_int_equal(pith_verdict_of(ci), PITH_INDISTINGUISHABLE);
}

static void verdicts(void **state)
{
    (void)state;
    assert_int_equal(pith_verdict_of((struct pith_interval){0.1, 0.2}), PITH_WORSE);
    assert_int_equal(pith_verdict_of((struct pith_interval){-0.2, -0.1}), PITH_BETTER);
    assert_int_equal(pith_verdict_of((struct pith_interval){-0.2, 0.1}), PITH_INDISTINGUISHABLE);
    assert_string_equal(pith_verdict_name(PITH_WORSE), "worse");
    assert_string_equal(pith_verdict_name(PITH_BETTER), "better");
    assert_string_equal(pith_verdict_name(PITH_INDISTINGUISHABLE), "indistinguishable");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(t_quantiles_are_those_of_scipy),
        cmocka_unit_test(wilson_intervals_are_those_of_scipy),
        cmocka_unit_test(mcnemar_is_the_exact_test),
        cmocka_unit_test(intervals_of_means),
        cmocka_unit_test(one_value_proves_nothing),
        cmocka_unit_test(verdicts),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
