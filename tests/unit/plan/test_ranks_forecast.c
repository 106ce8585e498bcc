/* plan/time/ranks_forecast: seconds and bytes worked out by hand. */
#include "plan/time/ranks_report.h"

#include <pith/context.h>

#include "test.h"

#include <string.h>

static void is_near(double got, double want)
{
    if (!(got > want - 1e-9 && got < want + 1e-9)) fail_msg("%.12f, not %.12f", got, want);
}

/* A cost that occurs twice. A link carries 1,000 bytes a second, and delays messages by 10 ms. */
static struct pith_ranks_forecast twice(unsigned ranks, const struct pith_ranks_cost *c)
{
    struct pith_ranks_forecast f = {.ranks = ranks, .cable = {8000, 0.01}};
    pith_ranks_forecast_add(&f, c, 2);
    return f;
}

static void links_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double bits, delay;
    } good[] = {{"10G", 10e9, 50e-6},     {"10G,50", 10e9, 50e-6}, {"2.5g,0", 2.5e9, 0},
                {"100M,1000", 1e8, 1e-3}, {"8000", 8000, 50e-6},   {"1T,0.5", 1e12, 5e-7}};
    static const char *const bad[] = {"",       "G",     "0",   "-1G",   "10G,", "10G,-1", "10GB",
                                      "10G,5u", "0x1p4", "nan", "1e999", "10 G", ",50",    "inf"};
    struct pith_cable c;
    struct pith_error err = {0};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_ok(pith_cable_parse(good[i].text, &c, &err), err);
        is_near(c.bits / good[i].bits, 1);
        is_near(c.delay * 1e6, good[i].delay * 1e6);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (pith_cable_parse(bad[i], &c, &err) != PITH_ARG) fail_msg("'%s' is taken", bad[i]);
}

static void windows_are_whole(void **state)
{
    (void)state;
    struct pith_ranks_cost c = {.windows = 10, .batch = 3};
    c.seconds[PITH_WORK_WINDOWS] = 10;
    const struct pith_ranks_forecast f = twice(4, &c); /* 3, 3, 2, 2 of them */
    is_near(f.divided, 2 * 2.5);
    is_near(f.repeated, 2 * 0.5);
    c.seconds[PITH_WORK_BATCH] = 3; /* one rank has none */
    is_near(pith_ranks_forecast_seconds(&(struct pith_ranks_forecast){0}), 0);
    const struct pith_ranks_forecast more = twice(4, &c);
    is_near(pith_ranks_forecast_seconds(&more), 2 * (3 + 1));
    c.windows = 0; /* nothing to divide */
    const struct pith_ranks_forecast none = twice(4, &c);
    is_near(pith_ranks_forecast_seconds(&none), 2 * (10 + 1));
}

static void rows_are_even_but_for_the_largest(void **state)
{
    (void)state;
    struct pith_ranks_cost c = {0};
    c.seconds[PITH_WORK_ROWS] = 8;
    c.seconds[PITH_WORK_REPEATED] = 1;
    const struct pith_ranks_forecast even = twice(4, &c);
    is_near(even.divided, 2 * 2.25);
    is_near(even.repeated, 2 * 0.75);
    c.largest = 0.5;
    const struct pith_ranks_forecast largest = twice(4, &c);
    is_near(pith_ranks_forecast_seconds(&largest), 2 * (4 + 1));
    is_near(pith_ranks_cost_seconds(&c), 9);
}

/* A thousand bytes in one message, by kind of traffic and ranks: what a rank receives, the seconds
 * of the link. */
static void bytes_pass_the_link(void **state)
{
    (void)state;
    static const struct {
        enum pith_traffic_kind kind;
        unsigned ranks;
        double received, link;
    } of[] = {{PITH_TRAFFIC_GATHER, 1, 0, 0},
              {PITH_TRAFFIC_GATHER, 2, 500, 0.51},
              {PITH_TRAFFIC_GATHER, 4, 750, 0.77},
              {PITH_TRAFFIC_SHARE, 2, 500, 1.02},
              {PITH_TRAFFIC_SHARE, 4, 750, 1.54},
              {PITH_TRAFFIC_SUM, 1, 0, 0},
              {PITH_TRAFFIC_SUM, 2, 1000, 2.02},
              {PITH_TRAFFIC_SUM, 4, 2000, 3.79},
              {PITH_TRAFFIC_DEAL, 2, 250, 0.26},
              {PITH_TRAFFIC_DEAL, 4, 187.5, 0.2175},
              {PITH_TRAFFIC_SHARE, 64, 984.375, 1.96875 + 0.12}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct pith_ranks_cost c = {0};
        pith_ranks_traffic(&c, of[i].kind, 1000, 1);
        pith_ranks_traffic(&c, of[i].kind, 0, 1); /* no message */
        const struct pith_ranks_forecast f = twice(of[i].ranks, &c);
        is_near(f.received, 2 * of[i].received);
        is_near(f.link, 2 * of[i].link);
    }
}

static void the_limit_is_named(void **state)
{
    (void)state;
    static const struct {
        double divided, repeated, link;
        const char *limit;
    } of[] = {{4, 1, 1, ""}, {2, 3, 1, "repeated"}, {2, 1, 3, "link"}, {2, 2, 2, "link"}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        const struct pith_ranks_forecast f = {
            .ranks = 8, .divided = of[i].divided, .repeated = of[i].repeated, .link = of[i].link};
        assert_string_equal(pith_ranks_limit(&f), of[i].limit);
    }
    assert_string_equal(pith_ranks_limit(&(struct pith_ranks_forecast){.ranks = 1, .link = 1}), "");
}

/* Two blocks of 6 s and 2 s outside them; by two ranks 3 s, 1 s, and 1 s of the link. */
static void a_report_has_whole_and_block(void **state)
{
    (void)state;
    struct pith_ranks_report r = {.blocks = 2, .cable = {8000, 0.01}};
    struct pith_ranks_cost block = {.seconds = {[PITH_WORK_ROWS] = 6}}, outside = {0};
    outside.seconds[PITH_WORK_REPEATED] = 2;
    for (unsigned n = 1; n <= 2; n++) {
        struct pith_ranks_row *row = pith_ranks_report_row(&r, n);
        assert_non_null(row);
        pith_ranks_forecast_add(&row->blocks, &block, 2);
        pith_ranks_forecast_add(&row->other, &outside, 1);
    }
    r.row[1].blocks.link = 2;
    r.row[1].blocks.received = 100;
    r.row[1].other.received = 7;
    struct pith_report *report = pith_report_new();
    pith_ranks_report_set(report, &r);
    pith_ranks_report_text(report, &r);
    json_t *j = pith_report_tree(report);
    const json_t *ranks = json_object_get(j, "ranks");
    const json_t *row = json_array_get(json_object_get(ranks, "rows"), 1);
    assert_true(json_is_null(json_object_get(ranks, "why")));
    is_near(json_number_value(json_object_get(row, "seconds_expected")), 10);
    is_near(json_number_value(json_object_get(row, "speedup")), 1.4);
    is_near(json_number_value(json_object_get(row, "seconds_per_block")), 4);
    is_near(json_number_value(json_object_get(row, "divided")), 3);
    is_near(json_number_value(json_object_get(row, "link")), 1);
    assert_int_equal(json_integer_value(json_object_get(row, "bytes_received")), 107);
    assert_int_equal(json_integer_value(json_object_get(row, "bytes_received_per_block")), 50);
    json_decref(j);
    pith_report_free(&report);
    while (pith_ranks_report_row(&r, 64)) {
    }
    assert_int_equal(r.rows, PITH_RANKS_ROWS);
}

static void text_is(const struct pith_ranks_report *r, const char *want)
{
    struct pith_error err = {0};
    struct pith_report *report = pith_report_new();
    char *text;
    pith_ranks_report_text(report, r);
    assert_ok(pith_report_write(report, &(struct pith_report_form){0}, &text, &err), err);
    assert_string_equal(text, want);
    pith_text_free(text);
    pith_report_free(&report);
}

static void a_report_has_a_table_or_a_reason(void **state)
{
    (void)state;
    struct pith_ranks_report r = {.cable = {10e9, 50e-6}, .blocks = 1};
    pith_ranks_report_row(&r, 1)->blocks.divided = 135;
    struct pith_ranks_row *row = pith_ranks_report_row(&r, 2);
    row->blocks.link = 90;
    row->blocks.received = 2048;
    text_is(&(struct pith_ranks_report){.why = "there is no estimate"},
            "  ranks            there is no estimate\n");
    text_is(&r, "  ranks            over links of 10 Gb/s with a delay of 50 us:\n"
                "ranks        time  speed-up  received a block  limit\n"
                "-----  ----------  --------  ----------------  -----\n"
                "    1  2 min 15 s      1.00           0 bytes\n"
                "    2  1 min 30 s      1.50          2.00 KiB  link\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_are_read),
        cmocka_unit_test(windows_are_whole),
        cmocka_unit_test(rows_are_even_but_for_the_largest),
        cmocka_unit_test(bytes_pass_the_link),
        cmocka_unit_test(the_limit_is_named),
        cmocka_unit_test(a_report_has_whole_and_block),
        cmocka_unit_test(a_report_has_a_table_or_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
