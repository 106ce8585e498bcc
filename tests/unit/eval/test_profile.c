/* eval/profile: the histogram counts everything, and the worst positions are the largest. */
#include "base/rng.h"
#include "eval/profile.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

static int down(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static void keeps_the_largest(void **state)
{
    (void)state;
    enum { N = 1000 };
    static double all[N];
    for (size_t n = 1; n <= N; n += 37) {
        struct pith_profile f = {0};
        struct pith_rng rng;
        uint64_t total = 0;
        pith_rng_seed(&rng, n);
        for (size_t i = 0; i < n; i++) {
            all[i] = pow(10, -10 + 13 * pith_rng_unit(&rng));
            const struct pith_position p = {.at = i, .kld = all[i]};
            pith_profile_see(&f, &p);
        }
        qsort(all, n, sizeof *all, down);
        assert_int_equal(f.count, n < PITH_PROFILE_WORST ? n : PITH_PROFILE_WORST);
        for (size_t i = 0; i < f.count; i++) assert_true(f.worst[i].kld == all[i]);
        for (size_t i = 0; i < PITH_PROFILE_BINS; i++) total += f.bin[i];
        assert_int_equal(total, n);
    }
}

static void bins_begin_where_they_say(void **state)
{
    (void)state;
    for (size_t i = 1; i + 1 < PITH_PROFILE_BINS; i++) {
        struct pith_profile f = {0};
        pith_profile_see(&f, &(struct pith_position){.kld = pith_profile_from(i) * 1.01});
        pith_profile_see(&f, &(struct pith_position){.kld = pith_profile_from(i) * 0.99});
        assert_true(f.bin[i] == 1 && f.bin[i - 1] == 1);
    }
    struct pith_profile f = {0};
    pith_profile_see(&f, &(struct pith_position){.kld = 0});
    pith_profile_see(&f, &(struct pith_position){.kld = 1e9});
    assert_true(f.bin[0] == 1 && f.bin[PITH_PROFILE_BINS - 1] == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_largest),
        cmocka_unit_test(bins_begin_where_they_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
