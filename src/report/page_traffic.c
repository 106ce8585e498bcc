/* The page of pith bench --serve: how a server answered under load. */
#include "report/page.h"

#include "base/mem.h"

#include <stdio.h>

/* Levels that are drawn, and columns of a histogram. */
enum { LEVELS_MOST = 64, COLUMNS_MOST = 64, NAME_ROOM = 48 };

/* "4 clients", "2 requests/s", "trace". */
static const char *level_name(const json_t *l, char name[NAME_ROOM])
{
    if (json_object_get(l, "clients"))
        (void)snprintf(name, NAME_ROOM, "%.0f clients", page_number(l, "clients"));
    else if (json_object_get(l, "rate"))
        (void)snprintf(name, NAME_ROOM, "%g requests/s", page_number(l, "rate"));
    else (void)snprintf(name, NAME_ROOM, "trace");
    return name;
}

static double quantile(const json_t *level, const char *key, const char *of)
{
    return page_number(json_object_get(level, key), of);
}

/* --- tables ----------------------------------------------------------------------------------- */

/* What stands in the table of a measure, in milliseconds. */
static const struct measure {
    const char *key, *title, *about;
} measures[] = {
    {"first_token_seconds", "Time to the first token",
     "From the moment a request is sent to its first token's arrival."},
    {"token_seconds", "Time of a token",
     "Of each answer: the time from its first token to its last, by the tokens between."},
    {"between_seconds", "Between chunks",
     "Each gap between two chunks of an answer, all answers together."},
    {"pause_seconds", "Longest pause", "Of each answer: the longest gap between two chunks."},
    {"total_seconds", "Whole answers", "From the moment a request is sent to its end."},
};

static void summary_table(struct pith_str *out, const json_t *levels, bool goals)
{
    struct pith_table t = {0};
    const json_t *l;
    size_t i;
    char name[NAME_ROOM];
    pith_table_column(&t, "level", "load", PITH_CELL_TEXT);
    static const char *const titles[] = {"answered",        "failed",       "seconds",
                                         "output tokens/s", "requests/s",   "prompt tokens/s",
                                         "tokens a chunk",  "at once, mean"};
    for (i = 0; i < PITH_COUNT(titles); i++)
        pith_table_column(&t, titles[i], NULL, PITH_CELL_NUMBER);
    if (goals) pith_table_column(&t, "good", "good %", PITH_CELL_NUMBER);
    json_array_foreach (levels, i, l) {
        pith_table_row(&t);
        pith_table_text(&t, level_name(l, name));
        pith_table_number(&t, page_number(l, "answered"), 0);
        pith_table_number(&t, page_number(l, "failed"), 0);
        pith_table_number(&t, page_number(l, "seconds"), 1);
        pith_table_number(&t, page_number(l, "output_tokens_per_second"), 1);
        pith_table_number(&t, page_number(l, "requests_per_second"), 2);
        pith_table_number(&t, page_number(l, "prompt_tokens_per_second"), 1);
        pith_table_number(&t, page_number(l, "tokens_per_chunk"), 2);
        pith_table_number(&t, page_number(l, "at_once_mean"), 1);
        if (goals)
            pith_table_number(&t, 100 * page_number(json_object_get(l, "goodput"), "share"), 1);
    }
    pith_html_table(out, &t);
    pith_table_free(&t);
}

static void measure_table(struct pith_str *out, const json_t *levels, const struct measure *m)
{
    static const char *const keys[] = {"mean", "p50", "p90", "p99", "most"};
    struct pith_table t = {0};
    const json_t *l;
    size_t i;
    char name[NAME_ROOM];
    pith_table_column(&t, "level", "load", PITH_CELL_TEXT);
    for (size_t k = 0; k < PITH_COUNT(keys); k++)
        pith_table_column(&t, keys[k], NULL, PITH_CELL_NUMBER);
    json_array_foreach (levels, i, l) {
        pith_table_row(&t);
        pith_table_text(&t, level_name(l, name));
        for (size_t k = 0; k < PITH_COUNT(keys); k++)
            pith_table_number(&t, 1e3 * quantile(l, m->key, keys[k]), 1);
    }
    pith_html_table(out, &t);
    pith_table_free(&t);
}

static void failure_table(struct pith_str *out, const json_t *levels)
{
    struct pith_table t = {0};
    const json_t *l, *f;
    size_t i, k;
    char name[NAME_ROOM];
    pith_table_column(&t, "level", "load", PITH_CELL_TEXT);
    pith_table_column(&t, "kind", NULL, PITH_CELL_TEXT);
    pith_table_column(&t, "count", NULL, PITH_CELL_NUMBER);
    pith_table_column(&t, "example", "message of the first", PITH_CELL_TEXT);
    json_array_foreach (levels, i, l)
        json_array_foreach (json_object_get(l, "failures"), k, f) {
            pith_table_row(&t);
            pith_table_text(&t, level_name(l, name));
            pith_table_text(&t, page_text(f, "kind"));
            pith_table_number(&t, page_number(f, "count"), 0);
            pith_table_text(&t, page_text(f, "example"));
        }
    if (t.rows > 0) {
        pith_html_heading(out, "Requests that failed");
        pith_html_table(out, &t);
    }
    pith_table_free(&t);
}

/* --- charts ----------------------------------------------------------------------------------- */

/* Points of all levels. */
struct points {
    struct pith_chart_point point[LEVELS_MOST];
    char name[LEVELS_MOST][NAME_ROOM];
    size_t count;
};

/* A bar each; x is used by a scatter. */
static void gather(struct points *p, const json_t *levels)
{
    const json_t *l;
    size_t i;
    json_array_foreach (levels, i, l) {
        if (i == LEVELS_MOST) break;
        p->point[i] = (struct pith_chart_point){.label = level_name(l, p->name[i]),
                                                .x = page_number(l, "output_tokens_per_second"),
                                                .y = page_number(l, "output_tokens_per_second")};
        p->count = i + 1;
    }
}

static void level_charts(struct pith_str *out, const json_t *levels)
{
    static const struct {
        const char *key, *title, *y;
    } against[] = {
        {"first_token_seconds", "First token against throughput: the median, up to the 99th of 100",
         "ms to the first token"},
        {"token_seconds", "Time of a token against throughput: the median, up to the 99th of 100",
         "ms a token"},
    };
    struct points p = {.count = 0};
    gather(&p, levels);
    pith_html_figures(out, true, false);
    pith_html_chart(out, &(struct pith_chart){.kind = PITH_CHART_BARS,
                                              .title = "Output tokens a second",
                                              .y_title = "tokens/s",
                                              .points = p.point,
                                              .count = p.count});
    for (size_t k = 0; k < PITH_COUNT(against); k++) {
        for (size_t i = 0; i < p.count; i++) {
            const json_t *l = json_array_get(levels, i);
            p.point[i].y = p.point[i].lo = 1e3 * quantile(l, against[k].key, "p50");
            p.point[i].hi = 1e3 * quantile(l, against[k].key, "p99");
        }
        pith_html_chart(out, &(struct pith_chart){.kind = PITH_CHART_SCATTER,
                                                  .title = against[k].title,
                                                  .x_title = "output tokens/s",
                                                  .y_title = against[k].y,
                                                  .y_log = true,
                                                  .points = p.point,
                                                  .count = p.count});
    }
    pith_html_figures(out, false, false);
}

static void histogram(struct pith_str *out, const json_t *l, const char *key)
{
    struct pith_chart_point point[COLUMNS_MOST] = {{0}};
    char name[NAME_ROOM];
    const json_t *h = json_object_get(json_object_get(l, "histograms"), key);
    const json_t *from = json_object_get(h, "from"), *counts = json_object_get(h, "counts");
    size_t n = json_array_size(counts);
    if (n > COLUMNS_MOST) n = COLUMNS_MOST;
    for (size_t i = 0; i < n; i++)
        point[i] =
            (struct pith_chart_point){.label = "",
                                      .x = 1e3 * json_number_value(json_array_get(from, i)),
                                      .hi = 1e3 * json_number_value(json_array_get(from, i + 1)),
                                      .y = (double)json_integer_value(json_array_get(counts, i))};
    if (n == 0) return;
    pith_html_chart(out, &(struct pith_chart){.kind = PITH_CHART_HISTOGRAM,
                                              .title = level_name(l, name),
                                              .x_title = "ms",
                                              .x_log = json_is_true(json_object_get(h, "log")),
                                              .points = point,
                                              .count = n});
}

static void course(struct pith_str *out, const json_t *l)
{
    struct pith_chart_point point[COLUMNS_MOST] = {{0}};
    char name[NAME_ROOM];
    const json_t *c = json_object_get(l, "course");
    const json_t *rates = json_object_get(c, "chunks_per_second");
    const double width = page_number(c, "width_seconds");
    size_t n = json_array_size(rates);
    if (n > COLUMNS_MOST) n = COLUMNS_MOST;
    for (size_t i = 0; i < n; i++)
        point[i] = (struct pith_chart_point){.label = "",
                                             .x = width * (double)i,
                                             .hi = width * (double)(i + 1),
                                             .y = json_number_value(json_array_get(rates, i))};
    if (n == 0) return;
    pith_html_chart(out, &(struct pith_chart){.kind = PITH_CHART_HISTOGRAM,
                                              .title = level_name(l, name),
                                              .x_title = "seconds since the start",
                                              .points = point,
                                              .count = n});
}

static void measure_section(struct pith_str *out, const json_t *levels, const struct measure *m)
{
    const json_t *l;
    size_t i;
    pith_html_heading(out, m->title);
    pith_html_paragraph(out, m->about);
    measure_table(out, levels, m);
    pith_html_figures(out, true, true);
    json_array_foreach (levels, i, l) histogram(out, l, m->key);
    pith_html_figures(out, false, true);
}

/* --- the page --------------------------------------------------------------------------------- */

static void facts(struct pith_str *out, const json_t *j)
{
    const json_t *p = json_object_get(j, "provenance");
    struct pith_str limits = {0}, prompt = {0};
    const char *key;
    json_t *value;
    json_object_foreach (json_object_get(j, "limits"), key, value)
        pith_str_printf(&limits, "%s%s %g s", limits.len ? ", " : "", key,
                        json_number_value(value));
    pith_str_printf(&prompt, "%s tokens as %s, behind a prefix of %.0f", page_text(j, "prompt"),
                    page_text(j, "form"), page_number(j, "prefix"));
    const struct pith_html_fact list[] = {
        {"server", page_text(j, "url"), true},
        {"model", page_text(j, "model"), false},
        {"endpoint", page_text(j, "endpoint"), false},
        {"prompts", pith_str_text(&prompt), false},
        {"answers, at most", page_text(j, "gen"), false},
        {"arrivals", page_text(j, "arrivals"), false},
        {"limits of a good answer", pith_str_text(&limits), false},
        {"measured by", page_text(p, "version"), false},
        {"on", page_text(p, "date"), false},
        {"command", page_text(p, "command"), true},
    };
    pith_html_facts(out, list, PITH_COUNT(list));
    if (limits.failed || prompt.failed) out->failed = true;
    pith_str_free(&limits);
    pith_str_free(&prompt);
}

enum pith_status pith_page_traffic(const json_t *report, struct pith_str *out,
                                   struct pith_error *err)
{
    const json_t *levels = json_object_get(report, "levels"), *l;
    size_t i;
    pith_html_begin(out, "pith: a server under load");
    facts(out, report);
    summary_table(out, levels, json_object_get(report, "limits") != NULL);
    pith_html_paragraph(out, "A click on a column's name sorts by it.");
    level_charts(out, levels);
    failure_table(out, levels);
    for (i = 0; i < PITH_COUNT(measures); i++) measure_section(out, levels, &measures[i]);
    pith_html_heading(out, "Chunks a second over time");
    pith_html_figures(out, true, true);
    json_array_foreach (levels, i, l) course(out, l);
    pith_html_figures(out, false, true);
    pith_html_end(out);
    (void)err; /* any tree makes a page */
    return PITH_OK;
}
