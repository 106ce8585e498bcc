/* Lists of records: their names, one in full, a table, their JSON. */
#include "report/records.h"

#include <pith/context.h>

#include "test.h"

#include <string.h>

static void add(struct pith_report *r, const char *name, int64_t bits, const char *what)
{
    pith_report_open(r, "");
    pith_report_set(r, "name", pith_words(name));
    pith_report_set(r, "bits", pith_whole(bits));
    pith_report_set(r, "max", pith_real(0.125, 1));
    pith_report_set(r, "mixed", pith_yes(bits > 4));
    pith_report_set(r, "none", pith_words("-"));
    pith_report_set(r, "what", pith_words(what));
    pith_report_close(r);
}

static struct pith_report *make(void)
{
    struct pith_report *r = pith_report_new();
    pith_report_listed(r);
    add(r, "int4", 4, "four bits");
    add(r, "a.longer.name", 8, "eight bits");
    return r;
}

static void writes(const struct pith_report *r, const struct pith_report_form *form,
                   const char *want)
{
    struct pith_error err = {0};
    char *text;
    assert_ok(pith_report_write(r, form, &text, &err), err);
    assert_string_equal(text, want);
    pith_text_free(text);
}

static void test_names(void **state)
{
    (void)state;
    struct pith_report *r = make();
    pith_records_names(r, r, 0, "name");
    writes(r, &(struct pith_report_form){0},
           "  int4           four bits\n"
           "  a.longer.name  eight bits\n");
    writes(r, &(struct pith_report_form){.width = 20},
           "  int4\n    four bits\n"
           "  a.longer.name\n    eight bits\n");
    json_t *j = pith_report_tree(r);
    assert_int_equal(json_array_size(j), 2);
    assert_int_equal(json_object_size(json_array_get(j, 1)), 6);
    json_decref(j);
    pith_report_free(&r);
}

static void test_entry(void **state)
{
    (void)state;
    struct pith_report *all = make(), *r = pith_report_new();
    const size_t at = pith_record_find(all, 0, "name", "A.Longer.Name");
    assert_int_not_equal(at, PITH_NO_RECORD);
    assert_int_equal(pith_record_next(all, at), PITH_NO_RECORD);
    assert_int_equal(pith_record_find(all, 0, "name", "int5"), PITH_NO_RECORD);
    pith_record_entry(r, all, at, "name", "what");
    pith_record_copy(r, all, at);
    writes(r, &(struct pith_report_form){0}, "  bits   8\n  max    0.125\n  mixed  yes\n");
    json_t *j = pith_report_tree(r);
    assert_string_equal(json_string_value(json_object_get(j, "name")), "a.longer.name");
    assert_true(json_is_true(json_object_get(j, "mixed")));
    json_decref(j);
    pith_report_free(&r);
    pith_report_free(&all);
}

static void test_tables(void **state)
{
    (void)state;
    struct pith_report *r = make();
    pith_records_table(r, 0, pith_report_alone(r));
    writes(r, &(struct pith_report_form){.table = "csv"},
           "name,bits,max,mixed,none,what\n"
           "int4,4,0.125,no,-,four bits\n"
           "a.longer.name,8,0.125,yes,-,eight bits\n");
    pith_report_line(r, &(struct pith_line){.detail = PITH_DETAIL_TABLES}, "title");
    struct pith_table *t = pith_report_add_table(r, PITH_DETAIL_TABLES);
    pith_table_column(t, "x", "x", PITH_CELL_TEXT);
    writes(r, &(struct pith_report_form){.table = "markdown"}, "## title\n\n| x |\n| --- |\n\n");
    writes(r, &(struct pith_report_form){0}, "");
    pith_report_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_entry),
        cmocka_unit_test(test_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
