/* How far a matrix is from its original, plainly and when factors of rows and columns are free. */
#include "quantize/site/closeness.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "base/rng.h"
#include "test.h"

#include <math.h>

enum { ROWS = 24, COLS = 40, COUNT = ROWS * COLS };

static struct pith_weight dense(const float *x)
{
    return (struct pith_weight){.rows = ROWS, .cols = COLS, .dtype = PITH_F32, .dense = x};
}

/* The same bits for any number of threads. */
static double error_between(const struct pith_weight *made, const struct pith_weight *was,
                            bool rescaled)
{
    double error[3];
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct pith_pool *pool;
        struct pith_backend *be;
        struct pith_error err = {0};
        assert_ok(pith_pool_new(threads, &pool, &err), err);
        assert_ok(pith_backend_new(pool, threads == 1 ? PITH_CPU_SCALAR : PITH_CPU_ALL, &be, &err),
                  err);
        assert_true(pith_relative_error(be, made, was, rescaled, &error[threads - 1]));
        pith_backend_free(be);
        pith_pool_free(pool);
    }
    assert_true(error[0] == error[1] || isnan(error[0]));
    assert_true(error[0] == error[2] || isnan(error[0]));
    return error[0];
}

static double error_of(const float *q, const float *w, bool rescaled)
{
    const struct pith_weight made = dense(q), was = dense(w);
    return error_between(&made, &was, rescaled);
}

static void fill(float *x, uint64_t seed)
{
    struct pith_rng r;
    pith_rng_seed(&r, seed);
    for (size_t i = 0; i < COUNT; i++) x[i] = (float)pith_rng_normal(&r);
}

static double naive(const float *q, const float *w)
{
    double above = 0, below = 0;
    for (size_t i = 0; i < COUNT; i++) {
        above += ((double)w[i] - q[i]) * ((double)w[i] - q[i]);
        below += (double)w[i] * w[i];
    }
    return sqrt(above / below);
}

static void test_plain(void **state)
{
    (void)state;
    float w[COUNT], q[COUNT];
    fill(w, 1);
    fill(q, 2);
    assert_true(error_of(w, w, false) == 0);
    assert_float_equal(error_of(q, w, false), naive(q, w), 1e-12);
    for (size_t i = 0; i < COUNT; i++) q[i] = w[i] * 1.5f;
    assert_float_equal(error_of(q, w, false), 0.5, 1e-6);
    memset(q, 0, sizeof q);
    assert_float_equal(error_of(q, w, false), 1, 1e-12);
}

static void test_zero_original(void **state)
{
    (void)state;
    float w[COUNT] = {0}, q[COUNT] = {0};
    assert_true(error_of(q, w, false) == 0);
    assert_true(error_of(q, w, true) == 0);
    q[7] = 3;
    assert_float_equal(error_of(q, w, false), 3, 1e-12);
    assert_float_equal(error_of(q, w, true), 3, 1e-12);
}

/* diag(row) W diag(column) with factors like those of a transform. */
static void rescale(const float *w, float *q)
{
    struct pith_rng r;
    float row[ROWS], column[COLS];
    pith_rng_seed(&r, 9);
    for (size_t i = 0; i < ROWS; i++) row[i] = (float)exp(0.5 * pith_rng_normal(&r));
    for (size_t i = 0; i < COLS; i++) column[i] = (float)exp(0.7 * pith_rng_normal(&r));
    for (size_t i = 0; i < COUNT; i++) q[i] = w[i] * row[i / COLS] * column[i % COLS];
}

static void test_rescaled(void **state)
{
    (void)state;
    float w[COUNT], q[COUNT];
    fill(w, 1);
    rescale(w, q);
    assert_true(error_of(q, w, false) > 0.3);
    assert_true(error_of(q, w, true) < 1e-2);
    assert_true(error_of(w, w, true) < 1e-6);
}

/* With noise, what is left is about the noise. */
static void test_rescaled_and_rounded(void **state)
{
    (void)state;
    float w[COUNT], q[COUNT], noise[COUNT];
    fill(w, 1);
    fill(noise, 3);
    rescale(w, q);
    for (size_t i = 0; i < COUNT; i++) q[i] *= 1 + 0.1f * noise[i];
    const double error = error_of(q, w, true);
    assert_true(error > 0.05 && error < 0.13);
}

/* Free factors do not make a wrong matrix look right. */
static void test_wrong_matrix(void **state)
{
    (void)state;
    float w[COUNT], other[COUNT], moved[COUNT];
    fill(w, 1);
    fill(other, 2);
    for (size_t i = 0; i < COUNT; i++) moved[i] = w[(i + COLS) % COUNT]; /* rows by one */
    assert_true(error_of(other, w, true) > 0.7);
    assert_true(error_of(moved, w, true) > 0.7);
    for (size_t r = 0; r < ROWS; r++) /* columns by one */
        for (size_t c = 0; c < COLS; c++) moved[r * COLS + c] = w[r * COLS + (c + 1) % COLS];
    assert_true(error_of(moved, w, true) > 0.7);
}

/* A dead row or column has no factor: it counts only where it should have been zero. */
static void test_dead_column(void **state)
{
    (void)state;
    float w[COUNT], q[COUNT];
    fill(w, 1);
    for (size_t r = 0; r < ROWS; r++) w[r * COLS + 3] = 0;
    rescale(w, q);
    assert_true(error_of(q, w, true) < 1e-2);
    q[3] = 100;
    assert_true(error_of(q, w, true) > 1);
}

/* The two sides may be held in different forms; NaN is never close. */
static void test_forms(void **state)
{
    (void)state;
    struct pith_error err = {0};
    struct pith_qmat q;
    struct pith_grid grid;
    float w[COUNT], back[COUNT];
    fill(w, 1);
    assert_ok(pith_grid_parse("int8:channel", &grid, &err), err);
    assert_ok(pith_qmat_init(&q, ROWS, COLS, &grid, PITH_F32, &err), err);
    for (size_t r = 0; r < ROWS; r++) {
        uint8_t codes[COLS];
        q.scales[r] = 0.03f;
        for (size_t c = 0; c < COLS; c++)
            codes[c] = (uint8_t)lrintf(fminf(fmaxf(w[r * COLS + c] / 0.03f + 128, 0), 255));
        pith_qmat_set_codes(&q, (uint32_t)r, codes);
    }
    pith_qmat_decode(&q, 0, ROWS, back);
    const struct pith_weight made = {.rows = ROWS, .cols = COLS, .quant = &q}, was = dense(w);
    const double error = error_between(&made, &was, false);
    assert_float_equal(error, naive(back, w), 1e-12);
    assert_true(error > 0 && error < 0.02);
    pith_qmat_free(&q);
    back[5] = NAN;
    assert_false(error_of(back, w, false) < 1e30);
    assert_false(error_of(back, w, true) < 1e30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),        cmocka_unit_test(test_zero_original),
        cmocka_unit_test(test_rescaled),     cmocka_unit_test(test_rescaled_and_rounded),
        cmocka_unit_test(test_wrong_matrix), cmocka_unit_test(test_dead_column),
        cmocka_unit_test(test_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
