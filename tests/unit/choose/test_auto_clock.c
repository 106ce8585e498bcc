/* choose/auto_clock.h: one progress for several stages. */
#include "choose/auto_clock.h"

#include "test.h"

static double shown, total_shown;
static int calls;

static int listen(void *ctx, const char *what, double done, double total)
{
    (void)ctx, (void)what;
    assert_true(done >= shown);
    shown = done;
    total_shown = total;
    calls++;
    return 0;
}

static void step(const struct pith_progress *p, double done, double total)
{
    assert_int_equal(p->fn(p->ctx, "", done, total), 0);
}

static void near(double a, double b)
{
    assert_true(a - b < 1e-9 && b - a < 1e-9);
}

/* Shares are those of what is expected; a stage that begins anew, or says nothing, takes none
 * back. */
static void test_stages(void **state)
{
    (void)state;
    struct pith_progress out;
    struct pith_auto_clock c = {.stages = 0};
    const struct pith_quantize_options o = {.progress = {.fn = listen}};
    pith_auto_clock_start(&c, &o, &out);
    shown = total_shown = calls = 0;
    step(&out, 3, 4); /* nothing is expected yet */
    near(shown, 0);
    c.expected[0] = 30, c.expected[1] = 50, c.expected[2] = 20;
    c.stages = 3;
    step(&out, 1, 2);
    near(shown, 0.15);
    near(total_shown, 1);
    step(&out, 0, 1); /* a note */
    near(shown, 0.15);
    pith_auto_clock_next(&c);
    step(&out, 0, 7);
    near(shown, 0.3);
    step(&out, 7, 7);
    near(shown, 0.8);
    pith_auto_clock_next(&c);
    step(&out, 500, 1000);
    near(shown, 0.9);
    step(&out, 3, 182); /* another phase of the same stage */
    near(shown, 0.9);
    step(&out, 5, 4); /* more than all */
    near(shown, 1);
    pith_auto_clock_next(&c); /* there is no further one */
    step(&out, 0, 1);
    near(shown, 1);
    assert_int_equal(calls, 9);
}

/* Who is not listened to is not called. */
static void test_nobody(void **state)
{
    (void)state;
    struct pith_progress out;
    struct pith_auto_clock c = {.stages = 0};
    const struct pith_quantize_options o = {.size = sizeof o};
    pith_auto_clock_start(&c, &o, &out);
    step(&out, 1, 2);
}

static void test_text(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0.2, "about 1 s"},
                 {42.4, "about 42 s"},
                 {59.6, "about 1 min 00 s"},
                 {250, "about 4 min 10 s"},
                 {7384, "about 2 h 03 min"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[PITH_EXPECT_TEXT];
        assert_string_equal(pith_expect_text(cases[i].seconds, text), cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_nobody),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
