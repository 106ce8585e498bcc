/* Fields that messages name: <pith/names.h>. */
#include "base/mem.h"
#include "tests/test.h"

#include <pith/names.h>

/* Knows `memory` and `kv`; ctx counts how often it was called. */
static int show(void *ctx, const char *field, const char *value, char *shown, size_t room)
{
    ++*(int *)ctx;
    if (strcmp(field, "memory") != 0 && strcmp(field, "kv") != 0) return 0;
    snprintf(shown, room, value ? "<%s %s>" : "<%s>", field, value);
    return 1;
}

static void marks_are_shown_and_all_else_stays(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
        int calls;
    } cases[] = {
        {"", "", 0},
        {"raise `memory`", "raise <memory>", 1},
        {"`kv`: use `kv=int8:token`, or `memory`", "<kv>: use <kv int8:token>, or <memory>", 3},
        {"`kv=`", "<kv >", 1},
        {"`memory``kv`", "<memory><kv>", 2},
        {"`other` and `other=1`", "`other` and `other=1`", 2},
        {"`pith serve` and `Memory` and ``", "`pith serve` and `Memory` and ``", 0},
        {"a ` alone, `memory", "a ` alone, `memory", 0},
        {"`kv=open", "`kv=open", 0},
        {"``memory`", "`<memory>", 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int calls = 0;
        char *text = pith_fields_show(cases[i].text, show, &calls);
        assert_non_null(text);
        assert_string_equal(text, cases[i].shown);
        assert_int_equal(calls, cases[i].calls);
        pith_free(text);
    }
}

static void marks_that_are_too_long_stay(void **state)
{
    (void)state;
    char text[600];
    int calls = 0;
    memset(text, 'a', sizeof text - 1);
    text[0] = text[sizeof text - 2] = '`';
    text[sizeof text - 1] = '\0';
    char *same = pith_fields_show(text, show, &calls);
    memcpy(text, "`kv=", 4);
    char *value = pith_fields_show(text, show, &calls);
    assert_non_null(same);
    assert_string_equal(value, text);
    assert_int_equal(strlen(same), sizeof text - 1);
    assert_int_equal(calls, 0);
    pith_free(same);
    pith_free(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_are_shown_and_all_else_stays),
        cmocka_unit_test(marks_that_are_too_long_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
