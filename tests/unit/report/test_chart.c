/* report/: axes and the page with figures. With PITH_KEEP_HTML=PATH the page is written there
 * to be looked at. */
#include "report/axis.h"
#include "report/heat.h"
#include "report/html.h"
#include "test.h"

#include <math.h>

static void axes_cover_their_range(void **state)
{
    (void)state;
    static const double ranges[][2] = {{0, 1},    {0, 0},       {-3, 5},       {1e-6, 3e-6},
                                       {4.2, 16}, {1e9, 1.1e9}, {0.001, 1000}, {88, 88.4},
                                       {-7, -7},  {1e-9, 1e12}, {0, 1e-300},   {-1e300, 1e300}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        for (int log = 0; log < 2; log++)
            for (size_t wanted = 2; wanted < 12; wanted++) {
                const double lo = ranges[i][0], hi = ranges[i][1];
                if (log && lo <= 0) continue;
                struct pith_axis a;
                pith_axis_choose(&a, lo, hi, log, wanted);
                assert_true(a.lo <= lo && a.hi >= hi && a.lo < a.hi);
                assert_true(a.ticks >= 2);
                for (size_t k = 0; k < a.ticks; k++) {
                    const double at = pith_axis_place(&a, a.tick[k]);
                    assert_true(at > -1e-6 && at < 1 + 1e-6);
                    assert_true(k == 0 || a.tick[k] > a.tick[k - 1]);
                }
            }
}

static void ticks_are_round(void **state)
{
    (void)state;
    struct pith_axis a;
    char text[32];
    pith_axis_choose(&a, 0.3, 9.2, false, 5);
    assert_true(a.lo == 0 && a.hi == 10 && a.ticks == 6);
    pith_axis_label(&a, a.tick[3], text, sizeof text);
    assert_string_equal(text, "6");
    pith_axis_choose(&a, 0.001, 1, true, 6);
    assert_int_equal(a.ticks, 4);
    pith_axis_label(&a, a.tick[0], text, sizeof text);
    assert_string_equal(text, "0.001");
    pith_axis_label(&a, 20000, text, sizeof text);
    assert_string_equal(text, "20k");
    pith_axis_label(&a, -1.5e6, text, sizeof text);
    assert_string_equal(text, "-1.5M");
    /* Less than a decade on a log axis: even steps. */
    pith_axis_choose(&a, 12.4, 22.7, true, 7);
    assert_true(a.ticks >= 4);
    assert_true(a.tick[0] == 14 && a.tick[1] == 16);
}

static const struct pith_chart_point points[] = {
    {"bf16", 11.5, 0, 0, 0, true},
    {"int8:channel nearest", 6.1, 0.00012, 0.0001, 0.00015, false},
    {"int4:g128 nearest", 3.4, 0.041, 0.036, 0.046, false},
    {"int4:g128 gptq", 3.4, 0.022, 0.019, 0.025, false},
    {"int4:g128 awq", 3.45, 0.0331, 0.03, 0.036, false},
    {"int3:g128 nearest", 2.7, 0.28, 0.25, 0.31, false},
    {"int3:g128 gptq <best>", 2.71, 0.14, 0.12, 0.16, false},
    {"a very long recipe name that would never fit beside any figure", 2.2, 0.9, NAN, NAN, false},
    {"broken", NAN, INFINITY, 0, 0, false},
};

static size_t count_of(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)) != NULL; p++) n++;
    return n;
}

static void figures_show_what_can_be_drawn(void **state)
{
    (void)state;
    struct pith_chart c = {.kind = PITH_CHART_SCATTER,
                           .title = "Size against divergence",
                           .x_title = "size, MB",
                           .y_title = "KL to the baseline, nats",
                           .y_log = true,
                           .points = points,
                           .count = sizeof points / sizeof points[0]};
    assert_int_equal(pith_chart_drawable(&c), 7); /* bf16 has no place on a log axis */
    struct pith_str out = {0};
    pith_chart_svg(&c, &out);
    assert_int_equal(count_of(out.data, "<circle"), 7);
    assert_int_equal(count_of(out.data, "\"whisker\""), 6 * 3);
    assert_null(strstr(out.data, "nan"));
    assert_null(strstr(out.data, "inf"));
    assert_non_null(strstr(out.data, "&lt;best&gt;"));
    pith_str_clear(&out);
    c.kind = PITH_CHART_BARS;
    assert_int_equal(pith_chart_drawable(&c), 8);
    pith_chart_svg(&c, &out);
    assert_int_equal(count_of(out.data, "<rect"), 8);
    pith_str_clear(&out);
    c.points = points + 8;
    c.count = 1;
    pith_chart_svg(&c, &out);
    assert_int_equal(out.len, 0);
    pith_html_chart(&out, &c);
    assert_non_null(strstr(out.data, "No value"));
    pith_str_free(&out);
}

static void put_table(struct pith_str *out)
{
    struct pith_table t = {0};
    pith_table_column(&t, "recipe", "recipe", PITH_CELL_TEXT);
    pith_table_column(&t, "mb", "MB", PITH_CELL_NUMBER);
    pith_table_column(&t, "kld", "KL", PITH_CELL_NUMBER);
    pith_table_column(&t, "verdict", "verdict", PITH_CELL_TEXT);
    for (size_t i = 0; i < 7; i++) {
        pith_table_row(&t);
        pith_table_text(&t, points[i].label);
        pith_table_number(&t, points[i].x, 1);
        pith_table_number(&t, points[i].y, 5);
        pith_table_text(&t, i < 2 ? "indistinguishable" : "worse");
    }
    pith_html_table(out, &t);
    pith_table_free(&t);
}

static void histograms_and_fronts(void **state)
{
    (void)state;
    static const struct pith_chart_point bins[] = {{"", 1e-4, 3, 0, 1e-3, false},
                                                   {"", 1e-3, 0, 0, 1e-2, false},
                                                   {"", 1e-2, 9, 0, 1e-1, false}};
    struct pith_chart c = {.kind = PITH_CHART_HISTOGRAM,
                           .title = "Tokens",
                           .x_title = "KL",
                           .x_log = true,
                           .points = bins,
                           .count = 3};
    struct pith_str out = {0};
    pith_chart_svg(&c, &out);
    assert_int_equal(count_of(out.data, "<rect"), 2); /* an empty one is not drawn */
    assert_null(strstr(out.data, "nan"));
    pith_str_clear(&out);
    c = (struct pith_chart){.kind = PITH_CHART_SCATTER,
                            .title = "Size",
                            .x_title = "MB",
                            .y_title = "KL",
                            .y_log = true,
                            .front = true,
                            .points = points,
                            .count = sizeof points / sizeof points[0]};
    pith_chart_svg(&c, &out);
    /* 2.2 MB, 2.71, 3.4 (gptq) and 6.1; 2.7 is beaten by neither: 0.28 at 2.7, 0.14 at 2.71. */
    assert_int_equal(count_of(out.data, "class=\"front\""), 4);
    pith_str_free(&out);
}

/* Names and text of models are hostile. */
static void nothing_escapes(void **state)
{
    (void)state;
    static const char evil[] = "</td><script>alert(1)</script>\"'\n\x1b[2J\xe2\x80\xae";
    const char *names[] = {evil, "b"};
    const double values[] = {1, NAN, 0, 2};
    struct pith_str out = {0};
    pith_html_heat(&out, &(struct pith_heat){.title = evil,
                                             .names = names,
                                             .values = values,
                                             .rows = 2,
                                             .columns = 2});
    pith_html_facts(&out, &(struct pith_html_fact){evil, evil, true}, 1);
    pith_html_passages(&out, true);
    pith_html_passage(&out, &(struct pith_html_passage){1, 1, evil, evil, evil, evil, evil});
    pith_html_passages(&out, false);
    struct pith_table t = {0};
    pith_table_column(&t, evil, evil, PITH_CELL_NUMBER);
    pith_table_row(&t);
    pith_table_text(&t, "5 (</small><script>x)");
    pith_html_table(&out, &t);
    pith_table_free(&t);
    assert_null(strstr(out.data, "<script"));
    assert_null(strstr(out.data, "\x1b"));
    assert_null(strstr(out.data, "\xe2\x80\xae"));
    assert_int_equal(count_of(out.data, "<td"), 4 + 5 + 1);
    assert_non_null(strstr(out.data, "&lt;/small&gt;"));
    assert_int_equal(count_of(out.data, "<small>"), count_of(out.data, "</small>"));
    pith_str_free(&out);
}

static void page_is_whole(void **state)
{
    (void)state;
    struct pith_str out = {0};
    struct pith_chart c = {.kind = PITH_CHART_SCATTER,
                           .title = "Size against divergence",
                           .x_title = "size, MB",
                           .y_title = "KL to the baseline, nats",
                           .y_log = true,
                           .points = points,
                           .count = sizeof points / sizeof points[0]};
    pith_html_begin(&out, "probe: 7 models compared & measured");
    pith_html_paragraph(&out,
                        "Every model read the same text, window by window, beside its baseline.");
    pith_html_heading(&out, "Results");
    put_table(&out);
    pith_html_heading(&out, "Figures");
    pith_html_chart(&out, &c);
    c.kind = PITH_CHART_BARS;
    c.title = "Divergence, with 95% intervals";
    pith_html_chart(&out, &c);
    pith_html_end(&out);
    assert_false(out.failed);
    static const char *const pairs[] = {"html",   "head",       "body", "table", "tr",  "td",
                                        "th",     "svg",        "g",    "h1",    "h2",  "p",
                                        "figure", "figcaption", "text", "style", "div", "title"};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        char open[24], open_with[24], closing[24];
        snprintf(open, sizeof open, "<%s>", pairs[i]);
        snprintf(open_with, sizeof open_with, "<%s ", pairs[i]);
        snprintf(closing, sizeof closing, "</%s>", pairs[i]);
        assert_int_equal(count_of(out.data, open) + count_of(out.data, open_with),
                         count_of(out.data, closing));
        assert_true(count_of(out.data, closing) > 0);
    }
    assert_null(strstr(out.data, "http"));
    const char *keep = getenv("PITH_KEEP_HTML");
    FILE *f = keep ? fopen(keep, "w") : NULL;
    if (f) {
        fputs(out.data, f);
        fclose(f);
    }
    pith_str_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(axes_cover_their_range),
        cmocka_unit_test(ticks_are_round),
        cmocka_unit_test(figures_show_what_can_be_drawn),
        cmocka_unit_test(histograms_and_fronts),
        cmocka_unit_test(nothing_escapes),
        cmocka_unit_test(page_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
