/* eval/divergence: against long double, from nearly equal rows to rows that share no mass. */
#include "eval/divergence.h"

#include "base/mem.h"
#include "base/rng.h"
#include "test.h"

#include <math.h>

static float p[5000], q[5000];

static double logsumexp(const float *x, size_t n)
{
    long double max = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    for (size_t i = 0; i < n; i++) sum += expl(x[i] - max);
    return (double)(max + logl(sum));
}

/* The definition, with each term's loss of digits harmless in long double. */
static long double reference(size_t n, double p_lse, double q_lse)
{
    long double kl = 0;
    for (size_t i = 0; i < n; i++) {
        const long double a = p[i] - (long double)p_lse, b = q[i] - (long double)q_lse;
        kl += expl(a) * (a - b) - expl(a) + expl(b);
    }
    return kl;
}

static void any_distance_is_measured(void **state)
{
    (void)state;
    struct pith_rng rng;
    pith_rng_seed(&rng, 5);
    static const double distance[] = {1e-4, 1e-3, 0.01, 0.1, 0.5, 2, 10, 60};
    static const size_t sizes[] = {1, 2, 3, 4, 5, 7, 31, 320, 4096, 4999};
    for (size_t d = 0; d < PITH_COUNT(distance); d++)
        for (size_t s = 0; s < PITH_COUNT(sizes); s++) {
            const size_t n = sizes[s];
            for (size_t i = 0; i < n; i++) {
                p[i] = (float)(4 * pith_rng_normal(&rng)) + 7;
                q[i] = p[i] + (float)(distance[d] * pith_rng_normal(&rng)) - 3;
            }
            const double p_lse = logsumexp(p, n), q_lse = logsumexp(q, n);
            const double got = pith_kl_logits(p, p_lse, q, q_lse, n);
            const double want = (double)reference(n, p_lse, q_lse);
            /* Logits near 20 are rounded to 2e-6: what is left of a distance d has a relative
             * error near 2e-6 / d, which enters twice. */
            const double tolerance = 2e-6 + 4e-6 / distance[d];
            if (n > 1 && fabs(got - want) > tolerance * want + 1e-13)
                fail_msg("n %zu, distance %g: %.9g is not %.9g", n, distance[d], got, want);
            if (n == 1) assert_true(got < 1e-12);
        }
}

static void extremes(void **state)
{
    (void)state;
    for (size_t i = 0; i < 9; i++) p[i] = q[i] = 0;
    p[3] = 200;
    q[4] = 200;
    assert_true(fabs(pith_kl_logits(p, 200, q, 200, 9) - 200) < 1e-3);
    assert_true(pith_kl_logits(p, 200, p, 200, 9) == 0);
    for (size_t i = 0; i < 9; i++) p[i] = q[i] = -1e4f;
    p[0] = 3e4f;
    q[0] = 3e4f;
    assert_true(pith_kl_logits(p, 3e4, q, 3e4, 9) == 0);
}

static void first_of_the_largest(void **state)
{
    (void)state;
    struct pith_rng rng;
    pith_rng_seed(&rng, 6);
    for (size_t n = 1; n < 70; n++)
        for (int round = 0; round < 20; round++) {
            size_t want = 0;
            for (size_t i = 0; i < n; i++) {
                p[i] = (float)pith_rng_below(&rng, 12) - 6;
                if (p[i] > p[want]) want = i;
            }
            assert_int_equal(pith_argmax(p, n), want);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_distance_is_measured),
        cmocka_unit_test(extremes),
        cmocka_unit_test(first_of_the_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
