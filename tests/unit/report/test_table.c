/* report/: the same table in every form, to the byte; hostile cells; running out of room. */
#include "base/json.h"
#include "report/html.h"
#include "report/table.h"
#include "requests.h"
#include "test.h"

#include <math.h>

static struct pith_table example(void)
{
    struct pith_table t = {0};
    pith_table_column(&t, "method", "method", PITH_CELL_TEXT);
    pith_table_column(&t, "bits", "bits/weight", PITH_CELL_NUMBER);
    pith_table_column(&t, "note", "note", PITH_CELL_TEXT);
    pith_table_row(&t);
    pith_table_text(&t, "nearest");
    pith_table_number(&t, 4.25, 3);
    pith_table_text(&t, "a|b, \"c\" <d>");
    pith_table_row(&t);
    pith_table_text(&t, "h\xc3\xa9llo \xe4\xb8\xad");
    pith_table_printf(&t, "%d", 16);
    pith_table_row(&t);
    pith_table_text(&t, NULL);
    pith_table_number(&t, NAN, 2);
    return t;
}

static void assert_form(const char *form, const char *want)
{
    struct pith_table t = example();
    struct pith_str out = {0};
    const struct pith_writer *w = pith_writer_find(form);
    assert_non_null(w);
    w->write(&t, &out);
    assert_false(out.failed);
    assert_string_equal(pith_str_text(&out), want);
    pith_str_free(&out);
    pith_table_free(&t);
}

static void text_is_aligned_by_display_width(void **state)
{
    (void)state;
    assert_form("text", "method    bits/weight  note\n"
                        "--------  -----------  ------------\n"
                        "nearest         4.250  a|b, \"c\" <d>\n"
                        "h\xc3\xa9llo \xe4\xb8\xad           16\n"
                        "\n");
}

static void markdown_escapes(void **state)
{
    (void)state;
    assert_form("markdown", "| method | bits/weight | note |\n"
                            "| --- | ---: | --- |\n"
                            "| nearest | 4.250 | a\\|b, \"c\" &lt;d> |\n"
                            "| h\xc3\xa9llo \xe4\xb8\xad | 16 |  |\n"
                            "|  |  |  |\n");
}

static void csv_quotes(void **state)
{
    (void)state;
    assert_form("csv", "method,bits,note\n"
                       "nearest,4.250,\"a|b, \"\"c\"\" <d>\"\n"
                       "h\xc3\xa9llo \xe4\xb8\xad,16,\n"
                       ",,\n");
}

static void json_has_numbers_and_nulls(void **state)
{
    (void)state;
    assert_form("json", "[\n"
                        "  {\n"
                        "    \"method\": \"nearest\",\n"
                        "    \"bits\": 4.25,\n"
                        "    \"note\": \"a|b, \\\"c\\\" <d>\"\n"
                        "  },\n"
                        "  {\n"
                        "    \"method\": \"h\xc3\xa9llo \xe4\xb8\xad\",\n"
                        "    \"bits\": 16,\n"
                        "    \"note\": null\n"
                        "  },\n"
                        "  {\n"
                        "    \"method\": null,\n"
                        "    \"bits\": null,\n"
                        "    \"note\": null\n"
                        "  }\n"
                        "]\n");
}

static void numbers_keep_their_digits_in_json(void **state)
{
    (void)state;
    static const double values[] = {88.344, 4.4812, 1e-6, 0.1, 123456789.0, INFINITY, -2.5};
    struct pith_table t = {0};
    pith_table_column(&t, "x", "x", PITH_CELL_NUMBER);
    for (size_t i = 0; i < 7; i++) {
        pith_table_row(&t);
        pith_table_significant(&t, values[i], 10);
    }
    struct pith_str out = {0};
    pith_table_write_json(&t, &out);
    assert_non_null(strstr(out.data, ": 88.344\n"));
    json_t *j = NULL;
    struct pith_error err = {0};
    assert_ok(pith_json_parse(out.data, out.len, "t", &j, &err), err);
    for (size_t i = 0; i < 7; i++) {
        const json_t *x = json_object_get(json_array_get(j, i), "x");
        if (isinf(values[i])) assert_true(json_is_null(x));
        else assert_true(json_number_value(x) == values[i]);
    }
    json_decref(j);
    pith_str_free(&out);
    pith_table_free(&t);
}

/* A checkpoint may name a tensor anything: no form passes on escapes, line breaks or broken
 * UTF-8. */
static void hostile_cells_are_cleaned(void **state)
{
    (void)state;
    struct pith_table t = {0};
    pith_table_column(&t, "a\nb", "t\033[31m", PITH_CELL_TEXT);
    pith_table_row(&t);
    pith_table_text(&t, "x\r\n\xff\xfe\xc2\x9b\xe2\x80\xae</td><script>&'\t");
    for (size_t i = 0; i < pith_writer_count; i++) {
        struct pith_str out = {0};
        pith_writers[i].write(&t, &out);
        assert_false(out.failed);
        for (size_t k = 0; k < out.len; k++)
            assert_true((unsigned char)out.data[k] >= 0x20 || out.data[k] == '\n');
        assert_null(strstr(out.data, "\xc2\x9b"));
        assert_null(strstr(out.data, "\xe2\x80\xae"));
        assert_null(strchr(out.data, '\xff'));
        if (strcmp(pith_writers[i].name, "html") == 0) {
            const char *own = strstr(out.data, "<script>"); /* the one that sorts */
            assert_non_null(own);
            assert_null(strstr(own + 1, "<script"));
            assert_null(strstr(out.data, "</td><script"));
        }
        pith_str_free(&out);
    }
    pith_table_free(&t);
}

static void misuse_is_remembered(void **state)
{
    (void)state;
    for (size_t i = 0; i < pith_writer_count; i++) {
        struct pith_table t = example();
        pith_table_row(&t);
        for (int k = 0; k < 4; k++) pith_table_text(&t, "one cell too many");
        struct pith_str out = {0};
        pith_writers[i].write(&t, &out);
        assert_true(out.failed);
        pith_str_free(&out);
        pith_table_free(&t);
    }
}

static void empty_tables_are_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < pith_writer_count; i++) {
        struct pith_table t = {0};
        pith_table_column(&t, "a", "A", PITH_CELL_TEXT);
        struct pith_str out = {0};
        pith_writers[i].write(&t, &out);
        assert_false(out.failed);
        assert_true(out.len > 0);
        pith_str_free(&out);
        pith_table_free(&t);
    }
}

/* Many rows, so that lists grow after a text has failed. */
static enum pith_status fill(void *ctx, struct pith_error *err)
{
    (void)ctx;
    struct pith_table t = {0};
    for (int i = 0; i < 20; i++) pith_table_column(&t, "key", "a title", PITH_CELL_TEXT);
    for (int i = 0; i < 40; i++) {
        pith_table_row(&t);
        for (int k = 0; k < 20; k++) pith_table_text(&t, "a text of some length");
    }
    const bool failed = t.failed;
    pith_table_free(&t);
    return failed ? pith_fail_nomem(err, "a table") : PITH_OK;
}

static void memory_that_ends_is_remembered(void **state)
{
    (void)state;
    assert_true(fail_each_request(fill, NULL, false) > 10 || !PITH_REQUESTS);
}

static void writers_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < pith_writer_count; i++) {
        assert_ptr_equal(pith_writer_find(pith_writers[i].name), &pith_writers[i]);
        assert_true(strlen(pith_writers[i].summary) > 0);
    }
    assert_null(pith_writer_find("pdf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_aligned_by_display_width),
        cmocka_unit_test(markdown_escapes),
        cmocka_unit_test(csv_quotes),
        cmocka_unit_test(json_has_numbers_and_nulls),
        cmocka_unit_test(numbers_keep_their_digits_in_json),
        cmocka_unit_test(hostile_cells_are_cleaned),
        cmocka_unit_test(misuse_is_remembered),
        cmocka_unit_test(empty_tables_are_written),
        cmocka_unit_test(memory_that_ends_is_remembered),
        cmocka_unit_test(writers_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
