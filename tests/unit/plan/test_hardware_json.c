/* plan/hardware/hardware_json.h: a row that is written as JSON is read as what it was, and what is
 * no row is refused with the key that is wrong. */
#include "plan/hardware/hardware_json.h"

#include "test.h"

static void assert_same(const struct pith_hardware *a, const struct pith_hardware *b)
{
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->vendor, b->vendor);
    assert_string_equal(a->title, b->title);
    assert_string_equal(a->price_source, b->price_source);
    assert_string_equal(a->source, b->source);
    const double x[] = {a->memory_bytes,  a->bandwidth,      a->link,
                        a->host,          a->watts,          a->price,
                        a->layer_seconds, a->reached_memory, a->reached_arithmetic};
    const double y[] = {b->memory_bytes,  b->bandwidth,      b->link,
                        b->host,          b->watts,          b->price,
                        b->layer_seconds, b->reached_memory, b->reached_arithmetic};
    assert_memory_equal(x, y, sizeof x);
    assert_memory_equal(a->ops, b->ops, sizeof a->ops);
    assert_int_equal(a->most, b->most);
    assert_int_equal(a->fnuz, b->fnuz);
    assert_int_equal(a->cpu, b->cpu);
    assert_int_equal(a->capability, b->capability);
    assert_int_equal(a->threads, b->threads);
}

static void rows_come_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < pith_hardware_count(); i++) {
        struct pith_hardware back;
        struct pith_hardware row = *pith_hardware_at(i);
        if (i % 2) { /* what no row of the table has */
            row.threads = 7;
            row.layer_seconds = 1e-5;
            row.reached_memory = 0.5;
            row.reached_arithmetic = 1;
        }
        struct pith_report *r = pith_report_new();
        pith_hardware_rows(r, &row);
        json_t *j = pith_report_tree(r);
        assert_non_null(j);
        assert_int_equal(pith_hardware_read(j, "a file", &back, NULL), PITH_OK);
        assert_same(&row, &back);
        json_decref(j);
        pith_report_free(&r);
    }
}

static void what_is_no_row_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *named; /* in the message */
    } cases[] = {
        {"[]", "no object"},
        {"null", "no object"},
        {"{}", "\"hardware\", \"bandwidth\""},
        {"{\"hardware\": \"a\", \"bandwidth\": 1}", "operations"},
        {"{\"hardware\": \"a\", \"bandwidth\": 1, \"int8\": 5}", "operations"},
        {"{\"hardware\": 5, \"bandwidth\": 1, \"f32\": 1}", "hardware"},
        {"{\"hardware\": \"a\", \"bandwidth\": -1, \"f32\": 1}", "bandwidth"},
        {"{\"hardware\": \"a\", \"bandwidth\": 1e31, \"f32\": 1}", "bandwidth"},
        {"{\"hardware\": \"a\", \"bandwidth\": 1, \"f32\": \"x\"}", "f32"},
        {"{\"hardware\": \"a\", \"bandwidth\": 1, \"f32\": 1, \"most\": 0}", "most"},
        {"{\"hardware\": \"a\", \"bandwidth\": 1, \"f32\": 1, \"cpu\": 1}", "cpu"},
        {"{\"hardware\": \"a\", \"bandwidth\": 1, \"f32\": 1, \"threads\": -1}", "threads"},
        {"{\"hardware\": \"a\", \"bandwidth\": 1, \"f32\": 1, \"memory_reached\": 1.5}", "peak"},
        {"{\"hardware\": \"a\", \"bandwidth\": 1, \"f32\": 1, \"kernels\": 3}", "kernels"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pith_hardware h;
        struct pith_error err = {0};
        json_t *j = json_loads(cases[i].text, JSON_DECODE_ANY, NULL);
        if (pith_hardware_read(j, "a file", &h, &err) != PITH_FORMAT)
            fail_msg("%s: status %d", cases[i].text, (int)err.status);
        if (strncmp(err.text, "a file", 6) != 0 || !strstr(err.text, cases[i].named))
            fail_msg("%s: %s", cases[i].text, err.text);
        json_decref(j);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_back),
        cmocka_unit_test(what_is_no_row_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
