/* pith bench --serve: a server under load. */
#include "cli/input.h"
#include "cli/traffic.h"

#include "cli/measure.h"
#include "cli/tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

void traffic_defaults(struct traffic_settings *s)
{
    pith_traffic_defaults(&s->o);
}

/* --- the key ---------------------------------------------------------------------------------- */

/* EXIT_DONE, or the failure is told. */
static int read_key(const struct common *common, const char *path, char key[4096])
{
    struct pith_error err;
    return read_first_line(path, "key", key, 4096, &err) ? EXIT_DONE : report_failure(common, &err);
}

/* --- the table -------------------------------------------------------------------------------- */

static void add_title(json_t *columns, const char *title)
{
    table_column(columns, title, "right");
}

static json_t *make_columns(const json_t *first, bool goals)
{
    static const char *const titles[] = {"answered", "failed",  "tokens/s", "requests/s",
                                         "first ms", "p90",     "p99",      "token ms",
                                         "p99",      "gap p99", "total s",  "p99"};
    json_t *columns = json_array();
    table_column(columns,
                 json_object_get(first, "clients") ? "clients"
                 : json_object_get(first, "rate")  ? "rate"
                                                   : "trace",
                 "left");
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) add_title(columns, titles[i]);
    if (goals) add_title(columns, "good %");
    return columns;
}

/* One quantile of a measure; "-" where nothing was seen. */
static void add_quantile(json_t *row, const json_t *level, const char *key, const char *of,
                         double unit)
{
    const json_t *q = json_object_get(json_object_get(level, key), of);
    if (!json_is_number(q)) json_array_append_new(row, json_string("-"));
    else table_cell(row, unit > 1 ? "%.1f" : "%.2f", json_number_value(q) * unit);
}

static json_t *make_row(const json_t *l, bool goals)
{
    json_t *row = json_array();
    if (json_object_get(l, "clients")) table_cell(row, "%.0f", json_get(l, "clients"));
    else if (json_object_get(l, "rate")) table_cell(row, "%g", json_get(l, "rate"));
    else json_array_append_new(row, json_string(json_text(l, "trace")));
    table_cell(row, "%.0f", json_get(l, "answered"));
    table_cell(row, "%.0f", json_get(l, "failed"));
    table_cell(row, "%.1f", json_get(l, "output_tokens_per_second"));
    table_cell(row, "%.2f", json_get(l, "requests_per_second"));
    add_quantile(row, l, "first_token_seconds", "p50", 1e3);
    add_quantile(row, l, "first_token_seconds", "p90", 1e3);
    add_quantile(row, l, "first_token_seconds", "p99", 1e3);
    add_quantile(row, l, "token_seconds", "p50", 1e3);
    add_quantile(row, l, "token_seconds", "p99", 1e3);
    add_quantile(row, l, "between_seconds", "p99", 1e3);
    add_quantile(row, l, "total_seconds", "p50", 1);
    add_quantile(row, l, "total_seconds", "p99", 1);
    if (goals) table_cell(row, "%.1f", 100 * json_get(json_object_get(l, "goodput"), "share"));
    return row;
}

/* --- what else is to be known ----------------------------------------------------------------- */

/* "4 clients: " before a line about one level. */
static void print_level_name(const json_t *l)
{
    if (json_object_get(l, "clients")) printf("  clients %.0f: ", json_get(l, "clients"));
    else if (json_object_get(l, "rate")) printf("  rate %g: ", json_get(l, "rate"));
    else printf("  ");
}

static void print_failures(const json_t *l)
{
    const json_t *f;
    size_t i;
    json_array_foreach (json_object_get(l, "failures"), i, f) {
        print_level_name(l);
        print_line(2, 4, "%.0f failed: %s%s%s", json_get(f, "count"), json_text(f, "kind"),
                   *json_text(f, "example") ? ": " : "", json_text(f, "example"));
    }
}

/* What makes numbers mean something else than they seem to. */
static void print_notes(const json_t *l)
{
    const double answered = json_get(l, "answered"), cached = json_get(l, "cached_tokens"),
                 prompt = json_get(l, "prompt_tokens"), chunk = json_get(l, "tokens_per_chunk"),
                 late = json_get(json_object_get(l, "late_seconds"), "p99");
    if (answered <= 0) return;
    if (cached > 0.01 * prompt) {
        print_level_name(l);
        print_line(2, 4, "%.1f%% of the prompts' tokens came from the server's cache",
                   100 * cached / prompt);
    }
    if (fabs(chunk - 1) > 0.02) {
        print_level_name(l);
        print_line(2, 4,
                   "a chunk is %.2f tokens: gaps are between chunks, the mean time of a token is "
                   "by the server's count",
                   chunk);
    }
    if (strcmp(json_text(l, "tokens_counted_by"), "usage") != 0) {
        print_level_name(l);
        print_line(2, 4, "the server does not count tokens: chunks are counted");
    }
    if (late > 0.01) {
        print_level_name(l);
        print_line(2, 4,
                   "one request in a hundred was sent %.0f ms after its time or later: this "
                   "program did not keep up",
                   late * 1e3);
    }
}

static void print_lengths(const json_t *j, const json_t *l)
{
    const double answered = json_get(l, "answered");
    printf("  ");
    print_line(2, 4,
               "prompts: %s (%.0f tokens on average requested, %.1f sent), answers: %s (were %.1f)",
               json_text(j, "prompt"), json_get(l, "prompt_tokens_wanted") / answered,
               json_get(l, "prompt_tokens") / answered, json_text(j, "gen"),
               json_get(l, "output_tokens") / answered);
}

static void print_report(const json_t *j)
{
    const json_t *levels = json_object_get(j, "levels"), *l, *first = json_array_get(levels, 0);
    const bool goals = json_object_get(j, "limits") != NULL;
    const struct common common = {0};
    json_t *rows = json_array();
    size_t i;
    printf("%s%s%s: model %s, %s, seed %.0f\n", bold(), json_text(j, "url"), plain(),
           json_text(j, "model"), json_text(j, "endpoint"), json_get(j, "seed"));
    if (json_get(first, "answered") > 0) print_lengths(j, first);
    printf("\n");
    json_array_foreach (levels, i, l) json_array_append_new(rows, make_row(l, goals));
    (void)print_table(&common, make_columns(first, goals), rows, NULL);
    json_array_foreach (levels, i, l) {
        print_failures(l);
        print_notes(l);
    }
}

/* --- the run ---------------------------------------------------------------------------------- */

static int write_page(const struct common *common, const char *path, const char *report)
{
    struct pith_error err = {0};
    char *html = NULL;
    int rc = EXIT_DONE;
    json_t *j = read_report(common, report, &rc);
    if (!j) return rc;
    json_object_set_new(j, "provenance", page_provenance(json_text(j, "model")));
    char *text = json_dumps(j, 0);
    json_decref(j);
    const enum pith_status made = text ? pith_traffic_html(text, &html, &err) : PITH_NOMEM;
    free(text);
    if (made != PITH_OK) return report_failure(common, &err);
    return page_write(common, path, html);
}

/* Whether any request was answered, of any level. */
static int judge(const struct common *common, const char *report)
{
    const json_t *l;
    size_t i;
    double answered = 0;
    int rc = EXIT_DONE;
    json_t *j = read_report(common, report, &rc);
    if (!j) return rc;
    json_array_foreach (json_object_get(j, "levels"), i, l) answered += json_get(l, "answered");
    json_decref(j);
    if (answered > 0) return EXIT_DONE;
    say(common, "pith: no request was answered");
    return EXIT_FAILED;
}

/* As many connections as the system allows: the soft limit on files is often 1024. */
static void allow_connections(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* or what there is must do */
}

/* With the other ranks, where there are some; then *report is rank 0's. */
static int ask(const struct common *common, struct traffic_settings *s, char **report)
{
    struct pith_context *context = NULL;
    struct pith_error err = {0};
    struct meter meter;
    int rc = has_others(common) ? make_context(common, &context) : EXIT_DONE;
    if (rc != EXIT_DONE) return rc;
    meter_start(&meter, common);
    s->o.progress = meter_progress(&meter);
    const enum pith_status status = context ? pith_traffic_shared(context, &s->o, report, &err)
                                            : pith_traffic(&s->o, report, &err);
    meter_end(&meter);
    if (status != PITH_OK) rc = report_failure(common, &err);
    pith_context_free(&context);
    return rc;
}

int traffic_run(const struct common *common, struct traffic_settings *s, const char *prompt,
                const char *gen)
{
    struct pith_error err = {0};
    char *report = NULL;
    if (prompt) s->o.prompt = prompt;
    if (gen) s->o.answer = gen;
    s->o.seed = common->seed;
    s->o.ignore_end = s->ignore_end;
    s->o.key = getenv("PITH_API_KEY");
    if (pith_traffic_check(&s->o, &err) != PITH_OK) return report_usage(common, &err);
    int rc = page_check(common, s->page);
    if (rc == EXIT_DONE && s->key_file) {
        rc = read_key(common, s->key_file, s->key);
        s->o.key = s->key;
    }
    if (rc != EXIT_DONE) return rc;
    allow_connections();
    rc = ask(common, s, &report);
    if (common->follows) return rc;
    if (rc == EXIT_DONE) rc = give_report(common, report, print_report);
    if (rc == EXIT_DONE && s->page) rc = write_page(common, s->page, report);
    if (rc == EXIT_DONE) rc = judge(common, report);
    pith_text_free(report);
    return rc;
}
