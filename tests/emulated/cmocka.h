/* tests/emulated/cmocka.h: what the tests of the low layers use of cmocka, under its names, for a
 * CPU that Debian has a compiler but no library for. The output is in cmocka's form. */
#ifndef PITH_TEST_CMOCKA_H
#define PITH_TEST_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test_func)(void **state);
    int (*setup_func)(void **state), (*teardown_func)(void **state);
};

#define cmocka_unit_test_setup_teardown(test, setup, teardown)                                     \
    {                                                                                              \
#test, test, setup, teardown                                                               \
    }
#define cmocka_unit_test(test) cmocka_unit_test_setup_teardown(test, NULL, NULL)
#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    run_tests(tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

static jmp_buf test_failed;

/* Ends the running test. */
__attribute__((noreturn, format(printf, 3, 4))) static inline void
fail_at(const char *file, int line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    longjmp(test_failed, 1);
}

#define fail_msg(...) fail_at(__FILE__, __LINE__, __VA_ARGS__)
#define assert_holds(condition, text)                                                              \
    do {                                                                                           \
        if (!(condition)) fail_msg("%s", text);                                                    \
    } while (0)
#define assert_true(x) assert_holds(x, #x)
#define assert_false(x) assert_holds(!(x), "not " #x)
#define assert_null(p) assert_holds(!(p), #p " is not NULL")
#define assert_non_null(p) assert_holds(p, #p " is NULL")
#define assert_int_equal(a, b) assert_holds((uintmax_t)(a) == (uintmax_t)(b), #a " != " #b)
#define assert_ptr_equal(a, b)                                                                     \
    assert_holds((const void *)(a) == (const void *)(b), #a " != " #b)
#define assert_string_equal(a, b) assert_holds(strcmp(a, b) == 0, #a " != " #b)
#define assert_memory_equal(a, b, n) assert_holds(memcmp(a, b, n) == 0, #a " != " #b)

/* `group` is what the group's setup made. */
static inline bool run_test(const struct CMUnitTest *t, void *group)
{
    void *state = group;
    volatile bool passed = false; /* gcc 12 sets another before the call that does not return */
    if (t->setup_func && t->setup_func(&state) != 0) {
        fprintf(stderr, "setup failed\n");
    } else if (setjmp(test_failed) == 0) {
        t->test_func(&state);
        passed = true;
    }
    if (t->teardown_func) t->teardown_func(&state);
    printf("%s %s\n", passed ? "[       OK ]" : "[  FAILED  ]", t->name);
    return passed;
}

/* Returns how many fail. */
static inline int run_tests(const struct CMUnitTest *tests, size_t count, int (*setup)(void **),
                            int (*teardown)(void **))
{
    int failed = 0;
    void *group = NULL;
    if (setup && setup(&group) != 0) return (int)count;
    for (size_t i = 0; i < count; i++) failed += !run_test(&tests[i], group);
    if (teardown) (void)teardown(&group);
    return failed;
}

#endif
