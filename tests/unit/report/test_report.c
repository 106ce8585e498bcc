/* One report, its JSON and its text. */
#include <pith/context.h>

#include "report/report.h"

#include "base/mem.h"
#include "test.h"

#include <math.h>
#include <string.h>

/* One of each kind of item. */
static struct pith_report *make(void)
{
    struct pith_report *r = pith_report_new();
    pith_report_line(
        r, &(struct pith_line){.strong = "a/model/with/a/long/path", .reserve = 12, .fields = true},
        ": `all` it is");
    pith_report_set(r, "active", pith_whole(69503033344));
    pith_report_row(r, &(struct pith_row){"share", "same token", " of all", pith_share(0.875, 2)});
    pith_report_row(r, &(struct pith_row){NULL, "text", NULL, pith_real(1.5, 3)});
    pith_report_set(r, "none", pith_real((double)NAN, 2));
    pith_report_interval(r, "ci95", -1, (double)INFINITY);
    pith_report_list(r, "list");
    pith_report_open(r, "");
    pith_report_set(r, "ok", pith_yes(true));
    pith_report_line(r, &(struct pith_line){.lead = "  ", .wrap = PITH_WRAP_PROSE, .indent = 4},
                     "one two three four five six");
    pith_report_close(r);
    pith_report_set(r, "", pith_words("b\xff"));
    pith_report_close(r);
    pith_report_line(r, &(struct pith_line){.detail = PITH_DETAIL_PART}, "part");
    pith_report_line(r, &(struct pith_line){.detail = PITH_DETAIL_WHOLE}, "whole");
    pith_report_bar(r, 0.5, 8, "bar ");
    struct pith_table *t = pith_report_add_table(r, PITH_DETAIL_ANY);
    pith_table_column(t, "n", "name", PITH_CELL_TEXT);
    pith_table_column(t, "x", "x", PITH_CELL_NUMBER);
    pith_table_column(t, "y", "yyyyyy", PITH_CELL_NUMBER);
    pith_table_row(t);
    pith_table_text(t, "a name that is long");
    pith_table_number(t, 1, 1);
    pith_table_number(t, 2, 1);
    return r;
}

static int show(void *ctx, const char *field, const char *value, char *shown, size_t room)
{
    (void)ctx;
    (void)value;
    snprintf(shown, room, "--%s", field);
    return 1;
}

static void check_text(const struct pith_report_form *form, const char *want)
{
    struct pith_report *r = make();
    struct pith_error err = {0};
    char *text;
    assert_ok(pith_report_write(r, form, &text, &err), err);
    assert_string_equal(text, want);
    pith_text_free(text);
    pith_report_free(&r);
    assert_null(r);
}

static void test_text(void **state)
{
    (void)state;
    check_text(&(struct pith_report_form){.prose = 20}, "a/model/with/a/long/path: `all` it is\n"
                                                        "  same token       87.50% of all\n"
                                                        "  text             1.500\n"
                                                        "  one two three four\n    five six\n"
                                                        "part\n"
                                                        "bar ####################\n"
                                                        "name                   x  yyyyyy\n"
                                                        "-------------------  ---  ------\n"
                                                        "a name that is long  1.0     2.0\n");
}

static void test_terminal(void **state)
{
    (void)state;
    check_text(
        &(struct pith_report_form){.width = 24, .prose = 24, .all = 1, .bold = 1, .field = show},
        "\x1b[1ma/mode...ng/path\x1b[0m: --all it is\n"
        "  same token       87.50% of all\n"
        "  text             1.500\n"
        "  one two three four\n    five six\n"
        "whole\n"
        "bar ########\n"
        "name                x\n"
        "----------------  ---\n"
        "a name...is long  1.0\n"
        "\n"
        "name              yyyyyy\n"
        "----------------  ------\n"
        "a name...is long     2.0\n");
}

static void test_json(void **state)
{
    (void)state;
    check_text(&(struct pith_report_form){.json = 1, .all = 1},
               "{\n"
               "  \"active\": 69503033344,\n"
               "  \"share\": 0.875,\n"
               "  \"none\": null,\n"
               "  \"ci95\": [\n    -1.0,\n    null\n  ],\n"
               "  \"list\": [\n    {\n      \"ok\": true\n    },\n    \"b\\\\xFF\"\n  ]\n"
               "}");
}

/* A list ends lines behind its commas; what does not fit next to a lead stands below it, whole. */
static void test_wraps(void **state)
{
    (void)state;
    struct pith_report *r = pith_report_new();
    struct pith_error err = {0};
    char *text;
    const struct pith_report_form form = {.width = 20, .prose = 20};
    pith_report_line(r,
                     &(struct pith_line){.lead = "of it  ", .wrap = PITH_WRAP_ITEMS, .indent = 7},
                     "read 1.2 s, round 3.4 s");
    const struct pith_line below = {.lead = "loss 1  ", .wrap = PITH_WRAP_BELOW, .indent = 3};
    pith_report_line(r, &below, "a.short.one");
    pith_report_line(r, &below, "a.name.that.is.too.long");
    assert_ok(pith_report_write(r, &form, &text, &err), err);
    assert_string_equal(text, "of it  read 1.2 s,\n       round 3.4 s\n"
                              "loss 1  a.short.one\n"
                              "loss 1  \n   a.name.that.is.too.long\n");
    pith_text_free(text);
    pith_report_free(&r);
}

/* What has no table and no page says so; an unknown form too. */
static void test_refusals(void **state)
{
    (void)state;
    struct pith_report *r = make();
    struct pith_error err = {0};
    char *text;
    const struct pith_report_form csv = {.table = "csv"}, odd = {.table = "odd"};
    assert_int_equal(pith_report_write(r, &csv, &text, &err), PITH_ARG);
    err = (struct pith_error){0};
    assert_int_equal(pith_report_write(r, &odd, &text, &err), PITH_ARG);
    err = (struct pith_error){0};
    assert_int_equal(pith_report_page(r, NULL, &text, &err), PITH_ARG);
    assert_null(text);
    assert_true(pith_report_good(r));
    pith_report_judge(r, false);
    assert_false(pith_report_good(r));
    pith_report_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),  cmocka_unit_test(test_terminal), cmocka_unit_test(test_json),
        cmocka_unit_test(test_wraps), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
