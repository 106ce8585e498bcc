/* Texts, tasks and prompts side by side, with a verdict each. */
#include "cli/measure.h"
#include "cli/tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void print_prompts(const json_t *p)
{
    const json_t *ci = json_object_get(p, "kld_ci95");
    static const char kind[] = " (the baseline's own continuations)";
    print_subject(json_text(p, "file"), sizeof kind - 1);
    puts(kind);
    printf("  same to the end  %d of %d prompts\n", (int)json_get(p, "same"),
           (int)json_get(p, "n"));
    printf("  same top token   %.2f%% of %d\n", 100 * json_get(p, "top1_agreement"),
           (int)json_get(p, "tokens"));
    printf("  KL divergence    %.6f mean", json_get(p, "kld_mean"));
    if (json_is_real(json_array_get(ci, 0)))
        printf(", 95%% interval %.6f to %.6f", json_number_value(json_array_get(ci, 0)),
               json_number_value(json_array_get(ci, 1)));
    printf(": %s%s%s\n", bold(), json_text(p, "verdict"), plain());
}

static void add_text(json_t *row, const char *text)
{
    json_array_append_new(row, json_string(text));
}

/* A number that rounds to nothing has no sign. */
static void signed_text(char text[32], const char *format, double x)
{
    snprintf(text, 32, format, x);
    if (text[0] == '-' && strspn(text + 1, "0.") == strlen(text + 1)) text[0] = '+';
}

static void add_interval(json_t *row, const json_t *ci, const char *format, double scale)
{
    const json_t *lo = json_array_get(ci, 0), *hi = json_array_get(ci, 1);
    char a[32], b[32], both[80];
    if (!json_is_number(lo) || !json_is_number(hi)) {
        add_text(row, "-");
        return;
    }
    signed_text(a, format, scale * json_number_value(lo));
    signed_text(b, format, scale * json_number_value(hi));
    snprintf(both, sizeof both, "%s to %s", a, b);
    add_text(row, both);
}

static json_t *begin_row(json_t *rows, const char *path)
{
    json_t *row = json_array();
    const char *slash = strrchr(path, '/');
    add_text(row, slash && slash[1] ? slash + 1 : path);
    json_array_append_new(rows, row);
    return row;
}

static void add_text_row(json_t *rows, const json_t *t)
{
    json_t *row = begin_row(rows, json_text(t, "text"));
    add_text(row, "perplexity");
    table_cell(row, "%.3f", exp(json_get(t, "baseline_nll")));
    table_cell(row, "%.3f", json_get(t, "perplexity"));
    add_interval(row, json_object_get(t, "nll_delta_ci95"), "%+.4f", 1);
    add_text(row, json_text(t, json_object_get(t, "harm") ? "harm" : "verdict"));
}

static void add_task_row(json_t *rows, const json_t *t)
{
    json_t *row = begin_row(rows, json_text(t, "name"));
    add_text(row, "right, %");
    table_cell(row, "%.2f", 100 * json_get(t, "baseline_accuracy"));
    table_cell(row, "%.2f", 100 * json_get(t, "accuracy"));
    add_interval(row, json_object_get(t, "delta_ci95"), "%+.2f", 100);
    add_text(row, json_text(t, "verdict"));
}

static void add_prompts_row(json_t *rows, const json_t *p)
{
    json_t *row = begin_row(rows, json_text(p, "file"));
    add_text(row, "same token, %");
    add_text(row, "100");
    table_cell(row, "%.2f", 100 * json_get(p, "top1_agreement"));
    add_interval(row, json_object_get(p, "kld_ci95"), "%.4f", 1);
    add_text(row, json_text(p, "verdict"));
}

void print_signals(const json_t *report)
{
    static const char *const names[] = {"signal", "measure",      "baseline",
                                        "model",  "95% interval", "verdict"};
    const struct common common = {0};
    const json_t *t, *prompts = json_object_get(report, "prompts");
    json_t *columns = json_array(), *rows = json_array();
    size_t i;
    for (i = 0; i < sizeof names / sizeof names[0]; i++)
        table_column(columns, names[i], i == 2 || i == 3 ? "right" : "left");
    json_array_foreach (json_object_get(report, "texts"), i, t) add_text_row(rows, t);
    json_array_foreach (json_object_get(report, "tasks"), i, t) add_task_row(rows, t);
    if (prompts) add_prompts_row(rows, prompts);
    print_table(&common, columns, rows, NULL);
    printf("Intervals: of the loss difference (nats a token) for texts, of the difference in\n"
           "points for tasks, of the KL divergence (nats) for prompts.\n");
    if (!json_array_size(json_object_get(report, "texts"))) puts("No text: give --text FILE.");
    if (!json_array_size(json_object_get(report, "tasks"))) puts("No task: give --tasks FILE.");
    if (!prompts) puts("No prompts of your own: give --prompts FILE.");
}
