/* The exponentials and the logarithm against libm in double; sums in lanes against their
 * definition. */
#include "kern/ops.h"
#include "test.h"

#include <float.h>
#include <math.h>

/* Distance of got from exact in units of exact's last place as a float. */
static double ulps(float got, double exact)
{
    int e;
    frexp(exact, &e);
    const double unit = ldexp(1.0, e - 24 < -149 ? -149 : e - 24);
    return fabs((double)got - exact) / unit;
}

static void exp_f32_is_within_one_ulp(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t bits = 0; bits < 0x42d40000; bits += 379) { /* up to 106, both signs */
        for (uint32_t sign = 0; sign < 2; sign++) {
            const uint32_t u = bits | sign << 31;
            float x;
            memcpy(&x, &u, sizeof x);
            const float got = pith_exp_f32(x);
            const double exact = exp((double)x);
            if (exact > (double)FLT_MAX) {
                assert_true(got >= FLT_MAX);
                continue;
            }
            const double e = ulps(got, exact);
            if (e > worst) worst = e;
            if (e > 1.0) fail_msg("exp(%a) = %a is %.3f ulp off", (double)x, (double)got, e);
        }
    }
    printf("worst %.3f ulp\n", worst);
    assert_true(pith_exp_f32(0.0f) == 1.0f && pith_exp_f32(-0.0f) == 1.0f);
    assert_true(pith_exp_f32(INFINITY) == INFINITY && pith_exp_f32(-INFINITY) == 0.0f);
    assert_true(pith_exp_f32(FLT_MAX) == INFINITY && pith_exp_f32(-FLT_MAX) == 0.0f);
    assert_true(isnan(pith_exp_f32(NAN)));
}

static void exp_f64_and_log_are_close(void **state)
{
    (void)state;
    for (double x = 709.4; x > -700; x -= 0.00371) {
        const double e = exp(x);
        if (fabs(pith_exp_f64(x) - e) > 1e-15 * e) fail_msg("exp(%a)", x);
    }
    assert_true(pith_exp_f64(0) == 1.0 && pith_exp_f64(-INFINITY) < 1e-300 &&
                isnan(pith_exp_f64((double)NAN)));
    assert_true(pith_exp_f64(709.5) == INFINITY && pith_exp_f64(711) == INFINITY &&
                pith_exp_f64(1e30) == INFINITY && pith_exp_f64(INFINITY) == INFINITY);
    for (double x = 1; x < 1e300; x *= 1.000371) {
        const double l = log(x);
        if (fabs(pith_log_f64(x) - l) > 1e-15 * (l > 1 ? l : 1)) fail_msg("log(%a)", x);
    }
    assert_true(pith_log_f64(1) == 0.0 && isnan(pith_log_f64((double)NAN)) &&
                isnan(pith_log_f64(0.5)));
    assert_true(isnan(pith_log_f64((double)INFINITY)));
}

static void lanes_fold_in_halves(void **state)
{
    (void)state;
    float f[PITH_LANES];
    double d[PITH_LANES];
    for (int i = 0; i < PITH_LANES; i++) {
        f[i] = 1.0f / (float)(i + 3);
        d[i] = 1.0 / (i + 3);
    }
    float a[8];
    double b[8];
    for (int i = 0; i < 8; i++) {
        a[i] = f[i] + f[i + 8];
        b[i] = d[i] + d[i + 8];
    }
    const float af = ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
    const double bf = ((b[0] + b[4]) + (b[2] + b[6])) + ((b[1] + b[5]) + (b[3] + b[7]));
    assert_true(pith_lanes_sum(f) == af);
    assert_true(pith_lanes_sum_f64(d) == bf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_f32_is_within_one_ulp),
        cmocka_unit_test(exp_f64_and_log_are_close),
        cmocka_unit_test(lanes_fold_in_halves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
