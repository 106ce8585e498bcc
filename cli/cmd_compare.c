/* pith compare: several models on the same texts and tasks, in one table. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/tables.h"

#include <pith/eval.h>
#include <pith/inspect.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    struct common common;
    struct measure_settings measure;
    const char *out, *format;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    OPTION(out_compare, AT(out)),
    OPTION(format_compare, AT(format)),
    MEASURE_OPTIONS,
};

/* A title of a text's column; `prefix` names the text where several stand in one table. */
static void text_column(json_t *columns, const char *prefix, const char *name, const char *align)
{
    char title[160];
    snprintf(title, sizeof title, "%s%s%s", prefix, prefix[0] ? ": " : "", name);
    table_column(columns, title, align);
}

static void text_columns_of(json_t *columns, const char *prefix)
{
    text_column(columns, prefix, "perplexity", "right");
    text_column(columns, prefix, "KL", "right");
    text_column(columns, prefix, "top-1 %", "right");
    text_column(columns, prefix, "harm", "left");
    text_column(columns, prefix, "s", "right");
}

static void text_cells_of(json_t *row, const json_t *t)
{
    const bool compared = json_object_get(t, "kld_mean") != NULL;
    table_cell(row, "%.3f", json_get(t, "perplexity"));
    if (compared) table_cell(row, "%.5f", json_get(t, "kld_mean"));
    else json_array_append_new(row, json_string("-"));
    if (compared) table_cell(row, "%.2f", 100 * json_get(t, "top1_agreement"));
    else json_array_append_new(row, json_string("-"));
    json_array_append_new(row, json_string(compared ? json_text(t, "harm") : "baseline"));
    table_cell(row, "%.1f", json_get(t, "seconds"));
}

/* What a table has: of all texts (`which` < 0), of one, or of none. */
enum { ALL_TEXTS = -1, NO_TEXT = -2 };

static json_t *make_columns(const json_t *first, int which, bool tasks)
{
    const json_t *texts = json_object_get(first, "texts"), *t;
    json_t *columns = json_array();
    size_t i;
    table_column(columns, "model", "left");
    table_column(columns, "bits/weight", "right");
    table_column(columns, "MiB", "right");
    json_array_foreach (texts, i, t)
        if (which == ALL_TEXTS)
            text_columns_of(columns, json_array_size(texts) > 1 ? json_text(t, "text_name") : "");
        else if (which == (int)i) text_columns_of(columns, "");
    json_array_foreach (json_object_get(first, "tasks"), i, t) {
        if (tasks) table_column(columns, json_text(t, "name"), "right");
        if (tasks && json_object_get(t, "accuracy_norm")) table_column(columns, "norm", "right");
    }
    return columns;
}

static json_t *make_row(const json_t *m, int which, bool tasks)
{
    json_t *row = json_array();
    const json_t *t;
    size_t i;
    json_array_append_new(row, json_string(json_text(m, "name")));
    table_cell(row, "%.3f", json_get(m, "bits_per_weight"));
    table_cell(row, "%.2f", json_get(m, "bytes") / 1048576);
    json_array_foreach (json_object_get(m, "texts"), i, t)
        if (which == ALL_TEXTS || which == (int)i) text_cells_of(row, t);
    json_array_foreach (json_object_get(m, "tasks"), i, t) {
        if (tasks) table_cell(row, "%.1f", 100 * json_get(t, "accuracy"));
        if (tasks && json_object_get(t, "accuracy_norm"))
            table_cell(row, "%.1f", 100 * json_get(t, "accuracy_norm"));
    }
    return row;
}

static int print_models(const struct settings *s, const json_t *models, int which, bool tasks)
{
    const json_t *m;
    size_t i;
    json_t *rows = json_array();
    json_array_foreach (models, i, m) json_array_append_new(rows, make_row(m, which, tasks));
    return print_table(&s->common, make_columns(json_array_get(models, 0), which, tasks), rows,
                       s->format);
}

/* For people a table a text under its name, and one of the tasks; one table in other forms. */
static int print_report(const struct settings *s, const json_t *report)
{
    const json_t *models = json_object_get(report, "models"), *t;
    const json_t *first = json_array_get(models, 0);
    size_t i, printed = 0;
    int rc = EXIT_DONE;
    if (s->format) return print_models(s, models, ALL_TEXTS, true);
    json_array_foreach (json_object_get(first, "texts"), i, t) {
        char how[128];
        snprintf(how, sizeof how, " (%s convention, context %d, %d tokens)",
                 json_text(t, "convention"), (int)json_get(t, "context"),
                 (int)json_get(t, "tokens"));
        fputs(printed++ ? "\n" : "", stdout);
        print_subject(json_text(t, "text_name"), strlen(how));
        printf("%s\n\n", how);
        if (rc == EXIT_DONE) rc = print_models(s, models, (int)i, false);
    }
    if (json_array_size(json_object_get(first, "tasks")) == 0 || rc != EXIT_DONE) return rc;
    printf("%s%stasks%s (right answers, %%)\n\n", printed ? "\n" : "", bold(), plain());
    return print_models(s, models, NO_TEXT, true);
}

static int write_page(const struct settings *s, json_t *report)
{
    struct pith_error err = {0};
    char *html = NULL;
    json_object_set_new(report, "provenance", page_provenance(""));
    char *text = json_dumps(report, 0);
    const enum pith_status made = text ? pith_compare_html(text, &html, &err) : PITH_NOMEM;
    free(text);
    if (made != PITH_OK) return report_failure(&s->common, &err);
    return page_write(&s->common, s->out, html);
}

/* Tells of each model as it is done. */
struct watcher {
    const struct common *common;
    struct meter *meter;
    size_t done, count;
};

static void on_measured(void *ctx, const char *report)
{
    struct watcher *w = ctx;
    json_t *m = json_loads(report, 0, NULL);
    const json_t *t;
    char text[512];
    size_t i;
    w->done++;
    snprintf(text, sizeof text, "%zu of %zu: %s", w->done, w->count, json_text(m, "name"));
    json_array_foreach (json_object_get(m, "texts"), i, t) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, ", %s: perplexity %.3f",
                 json_text(t, "text_name"), json_get(t, "perplexity"));
        if (json_object_get(t, "kld_mean"))
            snprintf(text + strlen(text), sizeof text - strlen(text), ", KL %.5f",
                     json_get(t, "kld_mean"));
    }
    json_array_foreach (json_object_get(m, "tasks"), i, t)
        snprintf(text + strlen(text), sizeof text - strlen(text), ", %s: %.1f%%",
                 json_text(t, "name"), 100 * json_get(t, "accuracy"));
    meter_end(w->meter);
    say(w->common, "%s", text);
    json_decref(m);
}

/* What was measured, also when not all of it was. */
static int show(const struct settings *s, const char *report)
{
    json_t *j = json_loads(report, 0, NULL);
    int rc = EXIT_DONE;
    if (!json_is_true(json_object_get(j, "complete")))
        say(&s->common, "interrupted: what was measured until then");
    if (s->common.json) printf("%s\n", report);
    else if (j) rc = print_report(s, j);
    if (j && rc == EXIT_DONE && s->out) rc = write_page(s, j);
    json_decref(j);
    return rc;
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_context *context;
    struct pith_eval_options o;
    struct pith_error err = {0};
    struct meter meter;
    char *report = NULL;
    if (s->measure.kvs.count > 1)
        return usage_failure(&s->common, "one --kv for all models; pith eval compares caches");
    if (s->measure.depth && !s->out && !s->common.json)
        return usage_failure(&s->common, "--depth does nothing without -o PAGE.html or --json");
    int rc = measure_check(&s->common, &s->measure);
    if (rc == EXIT_DONE) rc = check_format(&s->common, s->format);
    if (rc == EXIT_DONE) rc = page_check(&s->common, s->out);
    if (rc == EXIT_DONE) rc = look_at_texts(&s->common, &s->measure.texts, s->measure.crlf);
    if (rc == EXIT_DONE) rc = make_context(&s->common, &context);
    if (rc == EXIT_DONE) rc = choose_mode(&s->common, &context, s->measure.mode);
    if (rc != EXIT_DONE) return rc;
    meter_start(&meter, &s->common);
    measure_fill(&s->measure, &o);
    o.details = s->out != NULL;
    o.progress = meter_progress(&meter);
    struct watcher watcher = {&s->common, &meter, 0, operands->count};
    o.measured = on_measured;
    o.measured_ctx = &watcher;
    const struct pith_list models = as_list(operands);
    const enum pith_status status = pith_compare(context, &models, &o, &report, &err);
    meter_end(&meter);
    if (status != PITH_OK) rc = report ? EXIT_INTERRUPTED : report_failure(&s->common, &err);
    if (report && !s->common.follows) {
        const int shown = show(s, report);
        if (rc == EXIT_DONE) rc = shown;
    }
    pith_text_free(report);
    pith_context_free(&context);
    return rc;
}

const struct command command_compare = {
    .name = "compare",
    .summary = "measure several models against the first, in one table",
    .operands = "BASELINE MODEL... --text FILE [options]",
    .examples = "  pith compare Llama-3.2-1B out-awq out-gptq --text wiki.txt\n"
                "  pith compare base a b --text wiki.txt --tasks order.jsonl -o report.html\n",
    .details =
        "The first model is the baseline. A row shows, for each text: perplexity; KL, the mean\n"
        "divergence from the baseline in nats a token; top-1 %, how often both put the same token\n"
        "first; harm, what KL and loss both support (none, slight, clear, severe, unresolved); s,\n"
        "the seconds that it took. For each task: the percentage of right answers; norm, of those\n"
        "picked by log-probability a character. --json has more: intervals, differences,\n"
        "groups.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .min_operands = 2,
    .max_operands = 64,
    .takes_models = true,
    .spreads = true,
    .run = run,
};
