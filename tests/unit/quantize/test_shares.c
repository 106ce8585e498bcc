/* quantize/ranks/shares: rows and linears by rank, worked out by hand. */
#include "quantize/ranks/shares.h"
#include "test.h"

static void are(const uint32_t *first, unsigned ranks, const uint32_t *want)
{
    for (unsigned k = 0; k <= ranks; k++)
        if (first[k] != want[k]) fail_msg("rank %u begins at %u, not %u", k, first[k], want[k]);
}

/* Queries, keys and values of 8, 4 and 4 rows: 8 a rank. Of three ranks none has over 6, and a
 * part is a multiple of the unit. */
static void rows_go_to_all(void **state)
{
    (void)state;
    const struct pith_spread_part l[] = {{8, 2}, {4, 2}, {4, 2}};
    uint32_t first[3 * 4];
    pith_spread_rows(l, 3, 2, first);
    are(first, 2, (uint32_t[]){0, 8, 8});
    are(first + 3, 2, (uint32_t[]){0, 0, 4});
    are(first + 6, 2, (uint32_t[]){0, 0, 4});
    assert_int_equal(pith_rows_owner(first, 2), 0);
    assert_int_equal(pith_rows_owner(first + 3, 2), 1);
    assert_int_equal(pith_rows_workers(first, 3, 2), 2);
    pith_spread_rows(l, 3, 3, first);
    are(first, 3, (uint32_t[]){0, 6, 8, 8});
    are(first + 4, 3, (uint32_t[]){0, 0, 4, 4});
    are(first + 8, 3, (uint32_t[]){0, 0, 0, 4});
    assert_int_equal(pith_rows_owner(first, 3), PITH_TO_ALL);
    assert_int_equal(pith_rows_owner(first + 8, 3), 2);
    assert_true(pith_rows_some(first, 3, 3, 1));
}

/* What couples rows is one rank's; what stays as it is is nobody's. */
static void some_are_whole(void **state)
{
    (void)state;
    const struct pith_spread_part l[] = {{8, 0}, {0, 2}};
    uint32_t first[2 * 5];
    pith_spread_rows(l, 2, 4, first);
    are(first, 4, (uint32_t[]){0, 8, 8, 8, 8});
    are(first + 5, 4, (uint32_t[]){0, 0, 0, 0, 0});
    assert_int_equal(pith_rows_workers(first, 2, 4), 1);
    pith_spread_whole(8, 4, 2, first);
    are(first, 4, (uint32_t[]){0, 0, 0, 8, 8});
    assert_int_equal(pith_rows_owner(first, 4), 2);
}

static bool all_but(const void *ctx, uint32_t linear)
{
    return linear != *(const uint32_t *)ctx;
}

/* Experts are their number's; then the largest goes to who has the least, and what stays as it is
 * weighs nothing. */
static void linears_have_owners(void **state)
{
    (void)state;
    struct pith_linear_spec linear[] = {
        {.rows = 2, .cols = 4, .expert = PITH_NO_PART}, {.rows = 3, .cols = 4, .expert = 3},
        {.rows = 9, .cols = 4, .expert = PITH_NO_PART}, {.rows = 5, .cols = 4, .expert = 4},
        {.rows = 4, .cols = 4, .expert = PITH_NO_PART}};
    const struct pith_layer_plan l = {.linear = linear, .linears = 5};
    static const unsigned with[] = {0, 1, 1, 0, 0}, without[] = {0, 1, 0, 0, 1};
    unsigned owner[5];
    uint32_t stays = 5;
    pith_spread_owners(&l, all_but, &stays, 2, owner);
    for (int i = 0; i < 5; i++)
        if (owner[i] != with[i]) fail_msg("linear %d is rank %u's", i, owner[i]);
    stays = 2;
    pith_spread_owners(&l, all_but, &stays, 2, owner);
    for (int i = 0; i < 5; i++)
        if (owner[i] != without[i]) fail_msg("linear %d is rank %u's, some stay", i, owner[i]);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_go_to_all),
        cmocka_unit_test(some_are_whole),
        cmocka_unit_test(linears_have_owners),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
