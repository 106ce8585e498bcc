/* The text of what several ranks would take. */
#include "plan/say_ranks.h"

#include <pith/context.h>

#include "test.h"

#include <string.h>

static void says(const char *ranks, const char *want)
{
    struct pith_error err = {0};
    struct pith_report *r = pith_report_new();
    json_t *j = NULL;
    char *text;
    if (ranks) assert_ok(pith_json_parse(ranks, strlen(ranks), "ranks", &j, &err), err);
    pith_ranks_say(r, j);
    assert_ok(pith_report_write(r, &(struct pith_report_form){0}, &text, &err), err);
    assert_string_equal(text, want);
    pith_text_free(text);
    json_decref(j);
    pith_report_free(&r);
}

static void test_texts(void **state)
{
    (void)state;
    says(NULL, "");
    says("{\"why\": \"`recipe` guided has no times\", \"rows\": []}",
         "  ranks            `recipe` guided has no times\n");
    says("{\"link\": {\"bits_per_second\": 1e10, \"delay_seconds\": 5e-5}, \"why\": null, \"rows\":"
         " [{\"ranks\": 2, \"seconds_expected\": 90, \"speedup\": 1.5,"
         " \"bytes_received_per_block\": 2048, \"limit\": \"link\"}]}",
         "  ranks            over links of 10 Gb/s with a delay of 50 us:\n"
         "ranks        time  speed-up  received a block  limit\n"
         "-----  ----------  --------  ----------------  -----\n"
         "    2  1 min 30 s      1.50          2.00 KiB  link\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
