/* base/ranks/ranks.h where there is one rank: nothing goes anywhere, and nothing waits. */
#include "base/ranks/ranks.h"

#include "test.h"

#include <string.h>

static void test_alone(void **state)
{
    struct pith_error err = {0};
    int32_t data[3] = {1, 2, 3};
    (void)state;
    assert_int_equal(pith_ranks_count(NULL), 1);
    assert_int_equal(pith_ranks_own(NULL), 0);
    assert_true(pith_ranks_first(NULL) && pith_ranks_alone(NULL));
    assert_int_equal(pith_ranks_share(NULL, 0, data, sizeof data, &err), PITH_OK);
    assert_int_equal(pith_ranks_share_parts(NULL, data, 3, sizeof *data, &err), PITH_OK);
    assert_int_equal(pith_ranks_meet(NULL, &err), PITH_OK);
    assert_int_equal(pith_ranks_agree(NULL, "a", "a value", &err), PITH_OK);
    assert_int_equal(data[2], 3);
    assert_int_equal(pith_ranks_fail(NULL, PITH_IO, &err), PITH_IO);
    pith_ranks_close(NULL);
}

/* Runs of things cover all of them, in order, and differ by one at most. */
static void test_parts(void **state)
{
    (void)state;
    for (size_t items = 0; items < 20; items++) {
        assert_int_equal(pith_ranks_from(NULL, 0, items), 0);
        assert_int_equal(pith_ranks_from(NULL, 1, items), items);
    }
}

static void test_no_object(void **state)
{
    struct pith_error err = {0};
    struct pith_ranks *r = NULL;
    (void)state;
    assert_int_equal(pith_ranks_open("/nowhere/libpith_mpi.so", NULL, &r, &err), PITH_UNSUPPORTED);
    assert_null(r);
    assert_non_null(strstr(err.text, "/nowhere/libpith_mpi.so"));
}

static void test_slowest(void **state)
{
    (void)state;
    static const struct {
        double seconds[4];
        unsigned count, slowest;
        double median;
    } row[] = {
        {{1, 1, 1, 1}, 4, 4, 1},   {{1, 1.6, 1, 1}, 4, 1, 1},
        {{1, 1.4, 1, 1}, 4, 4, 1}, {{2, 1}, 2, 0, 1},
        {{3, 9, 4}, 3, 1, 4},      {{0.1, 0.5, 0.1}, 3, 3, 0.1},
        {{5, 5, 1, 1}, 4, 0, 1},   {{0}, 1, 1, 0},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        double median;
        assert_int_equal(pith_ranks_slowest(row[i].seconds, row[i].count, &median), row[i].slowest);
        assert_true(median == row[i].median);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_no_object),
        cmocka_unit_test(test_slowest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
