/* A test that fails: it must be seen where tests/emulated/cmocka.h stands in for cmocka. */
#include "test.h"

static void fails(void **state)
{
    (void)state;
    fail_msg("two is not one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
