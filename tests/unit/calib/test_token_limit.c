/* calib/token_limit: which rows are above it, and by how much. */
#include "calib/token_limit.h"

#include "base/mem.h"
#include "test.h"

#include <math.h>

enum { ROWS = 33, DIM = 6 };

/* Row i has the length size[i], all of it in one column. */
static void fill(float x[ROWS][DIM], const double *size)
{
    memset(x, 0, ROWS * sizeof x[0]);
    for (int i = 0; i < ROWS; i++) x[i][i % DIM] = (float)size[i];
}

static void a_massive_row_is_shortened(void **state)
{
    (void)state;
    float x[ROWS][DIM];
    double size[ROWS];
    struct pith_pool *pool = NULL;
    struct pith_error err;
    struct pith_token_limit t;
    assert_ok(pith_pool_new(2, &pool, &err), err);
    for (int i = 0; i < ROWS; i++) size[i] = i % 2 ? 2 : 3; /* the median is 3 */
    size[0] = -600;
    size[7] = 31;
    size[8] = 29; /* below ten times the median */
    fill(x, size);
    assert_true(pith_token_limit_init(&t, 100, ROWS));
    pith_token_limit_find(&t, pool, x[0], ROWS, DIM);
    for (int i = 0; i < ROWS; i++) {
        const double by = (double)pith_token_limit_of(&t, (size_t)i);
        const double want = i == 0 ? 30.0 / 600 : i == 7 ? 30.0 / 31 : 1;
        if (fabs(by - want) > 1e-6) fail_msg("row %d: %f, not %f", i, by, want);
    }
    size[0] = size[7] = 3; /* the next window has none */
    fill(x, size);
    pith_token_limit_find(&t, pool, x[0], ROWS, DIM);
    for (size_t i = 0; i < ROWS; i++) assert_true(pith_token_limit_of(&t, i) == 1);
    pith_token_limit_free(&t);
    pith_pool_free(pool);
}

static void rows_stay_where_there_is_no_limit(void **state)
{
    (void)state;
    float x[ROWS][DIM];
    double size[ROWS] = {1000};
    struct pith_token_limit t;
    fill(x, size);
    assert_true(pith_token_limit_init(&t, 0, ROWS));
    pith_token_limit_find(&t, NULL, x[0], ROWS, DIM);
    assert_true(pith_token_limit_of(&t, 0) == 1);
    assert_true(pith_token_limit_init(&t, 100, ROWS));
    pith_token_limit_find(&t, NULL, x[0], 15, DIM); /* too few */
    assert_true(pith_token_limit_of(&t, 0) == 1);
    pith_token_limit_find(&t, NULL, x[0], ROWS, DIM); /* the median is 0 */
    assert_true(pith_token_limit_of(&t, 0) == 1);
    size[3] = (double)NAN;
    fill(x, size);
    pith_token_limit_find(&t, NULL, x[0], ROWS, DIM); /* found out later (quantize/site/site.c) */
    assert_true(pith_token_limit_of(&t, 3) == 1);
    pith_token_limit_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_massive_row_is_shortened),
        cmocka_unit_test(rows_stay_where_there_is_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
