/* choose/advice: how many tokens recipes are tried on, by the size of a model. */
#include "choose/advice.h"
#include "test.h"

static void assert_sample(double active, size_t calibrated, size_t measured)
{
    size_t c = 0, m = 0;
    pith_advice_sample(active, &c, &m);
    assert_int_equal(c, calibrated);
    assert_int_equal(m, measured);
}

static void by_size(void **state)
{
    (void)state;
    assert_sample(0, 32768, 8192);
    assert_sample(5.8e6, 32768, 8192);
    assert_sample(67e6, 32768, 8192);
    assert_sample(135e6, 15872, 7680);
    assert_sample(494e6, 4096, 2048);
    assert_sample(70e9, 2048, 1024);
}

static void as_named(void **state)
{
    (void)state;
    size_t c = 100, m = 0;
    pith_advice_sample(494e6, &c, &m);
    assert_int_equal(c, 100);
    assert_int_equal(m, 2048);
    c = 0, m = 7;
    pith_advice_sample(494e6, &c, &m);
    assert_int_equal(c, 4096);
    assert_int_equal(m, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_size),
        cmocka_unit_test(as_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
