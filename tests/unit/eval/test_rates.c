/* What kernels take is measured of every kind of matrix and cache, and more rows take longer. */
#include "base/cpu.h"
#include "eval/speed/rates.h"
#include "test.h"

static struct pith_backend *backend;
static const size_t rows[] = {1, 32};

static void of_matrices(void **state)
{
    static const char *const grids[] = {"none", "int4:g128", "q4_k", "nf4:g64"};
    (void)state;
    for (size_t i = 0; i < sizeof grids / sizeof grids[0]; i++) {
        struct pith_error err = {0};
        struct pith_grid g;
        double seconds[2] = {0};
        assert_ok(pith_grid_parse(grids[i], &g, &err), err);
        assert_ok(pith_rate_matrix(backend, &g, rows, 2, seconds, &err), err);
        assert_true(seconds[0] > 0 && seconds[1] > seconds[0] && seconds[1] < 1e-6);
    }
}

static void of_caches(void **state)
{
    static const char *const caches[] = {"bf16", "int8:token", "kivi4"};
    (void)state;
    for (size_t i = 0; i < sizeof caches / sizeof caches[0]; i++) {
        struct pith_error err = {0};
        double seconds[2] = {0};
        assert_ok(pith_rate_cache(backend, caches[i], rows, 2, seconds, &err), err);
        assert_true(seconds[0] > 0 && seconds[1] > 0 && seconds[0] < 1e-6);
    }
}

static void of_the_rest(void **state)
{
    struct pith_error err = {0};
    double seconds[2] = {0};
    (void)state;
    assert_ok(pith_rate_rest(backend, rows, 2, seconds, &err), err);
    assert_true(seconds[0] > 0 && seconds[1] > 0 && seconds[0] < 1e-5);
}

static void what_cannot_be_is_refused(void **state)
{
    struct pith_error err = {0};
    struct pith_grid g;
    double seconds[2];
    (void)state;
    assert_ok(pith_grid_parse("trellis3:channel", &g, &err), err);
    assert_int_equal(pith_rate_matrix(backend, &g, rows, 2, seconds, &err), PITH_UNSUPPORTED);
    err = (struct pith_error){0};
    assert_int_equal(pith_rate_cache(backend, "x9", rows, 2, seconds, &err), PITH_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_matrices), cmocka_unit_test(of_caches),
                                       cmocka_unit_test(of_the_rest),
                                       cmocka_unit_test(what_cannot_be_is_refused)};
    struct pith_error err = {0};
    assert_ok(pith_backend_new(NULL, PITH_CPU_ALL, &backend, &err), err);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    pith_backend_free(backend);
    return failed;
}
