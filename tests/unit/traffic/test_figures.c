/* What measurements come to: src/traffic/figures.c. */
#include "base/rng.h"
#include "tests/test.h"
#include "traffic/figures.h"

#include <math.h>

/* The q-quantile of values by counting, without sorting: the value that has `rank` others below it,
 * and the next one, weighted. */
static double ranked(const double *v, size_t n, size_t rank)
{
    for (size_t i = 0; i < n; i++) {
        size_t below = 0, same = 0;
        for (size_t k = 0; k < n; k++) {
            below += v[k] < v[i];
            same += v[k] == v[i];
        }
        if (below <= rank && rank < below + same) return v[i];
    }
    return (double)NAN;
}

static double by_counting(const double *v, size_t n, double q)
{
    const double place = q * (double)(n - 1);
    const size_t low = (size_t)floor(place), high = (size_t)ceil(place);
    const double part = place - floor(place);
    return (1 - part) * ranked(v, n, low) + part * ranked(v, n, high);
}

static void near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-12 * fmax(1, fabs(wanted)))) fail_msg("%g, not %g", got, wanted);
}

static void quantiles_are_those_of_counting(void **state)
{
    (void)state;
    struct pith_rng rng;
    pith_rng_seed(&rng, 1);
    for (size_t n = 1; n <= 400; n += n < 20 ? 1 : 37) {
        double v[400], copy[402];
        double sum = 0;
        for (size_t i = 0; i < n; i++) {
            v[i] = n % 2 ? floor(10 * pith_rng_unit(&rng)) : exp(pith_rng_normal(&rng)); /* ties */
            copy[i] = v[i];
            sum += v[i];
        }
        copy[n] = copy[n + 1] = (double)NAN;
        struct pith_quantiles q;
        pith_quantiles_of(copy, n + 2, &q);
        assert_int_equal(q.n, n);
        near(q.mean, sum / (double)n);
        near(q.least, ranked(v, n, 0));
        near(q.p50, by_counting(v, n, 0.5));
        near(q.p90, by_counting(v, n, 0.9));
        near(q.p99, by_counting(v, n, 0.99));
        near(q.most, ranked(v, n, n - 1));
    }
    struct pith_quantiles q;
    double none = (double)NAN;
    pith_quantiles_of(&none, 1, &q);
    assert_true(q.n == 0 && isnan(q.mean) && isnan(q.p99));
}

static void records_are_kept(void **state)
{
    (void)state;
    struct pith_level_result r = {0};
    struct pith_error err = {0};
    struct pith_quantiles q;
    for (size_t i = 0; i < 1000; i++) {
        const struct pith_record one = {.first = (double)i, .between = (double)NAN, .total = 2};
        assert_ok(pith_level_record(&r, &one, &err), err);
        assert_ok(pith_level_gap(&r, (double)i, i % 2 ? 0.5 : 0.25, &err), err);
        assert_ok(pith_level_fail(&r, i % 3 ? "cut" : "http 429", i ? "later" : "first", &err),
                  err);
    }
    assert_ok(pith_quantiles_member(&r, offsetof(struct pith_record, first), &q, &err), err);
    assert_true(q.n == 1000 && q.most == 999 && q.p50 == 499.5);
    assert_ok(pith_quantiles_member(&r, offsetof(struct pith_record, between), &q, &err), err);
    assert_true(q.n == 0);
    assert_ok(pith_quantiles_gaps(&r, &q, &err), err);
    assert_true(q.mean == 0.375);
    assert_int_equal(r.failures, 2);
    assert_int_equal(pith_level_failed(&r), 1000);
    assert_string_equal(r.failure[0].kind, "http 429");
    assert_string_equal(r.failure[0].example, "first");
    assert_int_equal(r.failure[0].count, 334);
    pith_level_free(&r);
    assert_true(r.records == 0 && r.record == NULL);
}

static void limits_are_kept_or_not(void **state)
{
    (void)state;
    struct pith_goals g = {.any = false};
    struct pith_error err = {0};
    struct pith_record r = {.first = 0.5, .between = 0.1, .pause = 2, .total = 9};
    assert_ok(pith_goals_parse("first=500ms,between=99ms,total=1e1s", &g, &err), err);
    assert_true(pith_goal_met(&g, 0, &r) && !pith_goal_met(&g, 1, &r));
    assert_true(pith_goal_met(&g, 2, &r) && pith_goal_met(&g, 3, &r));
    assert_true(isinf(g.most[2]));
    /* One token: nothing lies between. No token: not in time. */
    r.between = r.first = (double)NAN;
    assert_true(!pith_goal_met(&g, 0, &r) && pith_goal_met(&g, 1, &r));
    static const char *const bad[] = {"",          "first",         "first=",     "first=5",
                                      "first=5m",  "first=-5ms",    "frist=5ms",  "first=5ms,",
                                      "first=0ms", "first=5ms;b=3", "first=infs", ",first=5ms"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct pith_goals none = {.any = false};
        if (pith_goals_parse(bad[i], &none, &err) != PITH_ARG) fail_msg("%s is taken", bad[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_those_of_counting),
        cmocka_unit_test(records_are_kept),
        cmocka_unit_test(limits_are_kept_or_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
