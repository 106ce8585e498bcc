/* pith inspect: what is in a checkpoint. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/tables.h"

#include <pith/inspect.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct settings {
    struct common common;
    bool statistics;
    const char *out;
};

static const struct option options[] = {
    OPTION(out_inspect, offsetof(struct settings, out)),
    OPTION(stats, offsetof(struct settings, statistics)),
};

static void shape_text(const json_t *t, char text[64])
{
    const json_t *n;
    size_t i;
    text[0] = '\0';
    json_array_foreach (json_object_get(t, "shape"), i, n) {
        const size_t used = strlen(text);
        snprintf(text + used, 64 - used, "%s%lld", i ? " x " : "",
                 (long long)json_integer_value(n));
    }
}

static void add_statistics(json_t *row, const json_t *t)
{
    if (!json_object_get(t, "std")) {
        for (int i = 0; i < 5; i++) json_array_append_new(row, json_string(""));
        return;
    }
    table_cell(row, "%.4g", json_get(t, "min"));
    table_cell(row, "%.4g", json_get(t, "max"));
    table_cell(row, "%.4g", json_get(t, "std"));
    table_cell(row, "%.1f", json_get(t, "kurtosis"));
    table_cell(row, "%.1e", json_get(t, "outliers"));
}

/* "int4:g128:asym act-order". */
static void grid_text(const json_t *t, char text[80])
{
    snprintf(text, 80, "%s%s", json_text(t, "grid"),
             json_is_true(json_object_get(t, "act_order")) ? " act-order" : "");
}

/* A linear of a quantized checkpoint, or a tensor. */
static json_t *make_row(const json_t *t, bool statistics)
{
    char shape[64], kind[80];
    json_t *row = json_array();
    shape_text(t, shape);
    if (json_object_get(t, "grid")) grid_text(t, kind);
    else snprintf(kind, sizeof kind, "%s", json_text(t, "dtype"));
    json_array_append_new(row, json_string(json_text(t, "name")));
    json_array_append_new(row, json_string(kind));
    json_array_append_new(row, json_string(shape));
    if (statistics) add_statistics(row, t);
    return row;
}

static int print_tensors(const struct settings *s, const json_t *j)
{
    static const char *const names[] = {"tensor", "format", "shape",    "min",
                                        "max",    "std",    "kurtosis", "outliers"};
    json_t *columns = json_array(), *rows = json_array();
    const json_t *t;
    size_t i;
    for (i = 0; i < (s->statistics ? 8u : 3u); i++)
        table_column(columns, names[i], i < 2 ? "left" : "right");
    json_array_foreach (json_object_get(j, "linears"), i, t)
        json_array_append_new(rows, make_row(t, s->statistics));
    json_array_foreach (json_object_get(j, "tensors"), i, t)
        json_array_append_new(rows, make_row(t, s->statistics));
    return print_table(&s->common, columns, rows, NULL);
}

static int print_report(const struct settings *settings, const char *report)
{
    char size[32], text[256];
    int rc = EXIT_DONE;
    json_t *j = read_report(&settings->common, report, &rc);
    if (!j) return rc;
    const json_t *s = json_object_get(j, "shape");
    const char *container = json_text(j, "container");
    const bool full = strcmp(container, "none") == 0;
    format_bytes(json_get(j, "bytes"), size);
    printf("%s%s%s, %s%s\n", bold(), json_text(j, "architecture"), plain(),
           full ? "" : "container ", full ? "not quantized" : container);
    snprintf(text, sizeof text,
             "%.2f million parameters, %s, %.3f bits per weight in the blocks' linears",
             json_get(j, "parameters") / 1e6, size, json_get(j, "bits_per_weight"));
    printf("  ");
    print_wrapped(text, 2, 2, prose_width());
    snprintf(text, sizeof text,
             "%d layers, hidden %d, feed-forward %d, %d heads (%d for keys) of %d, vocabulary %d, "
             "context %d",
             (int)json_get(s, "layers"), (int)json_get(s, "hidden"), (int)json_get(s, "ffn"),
             (int)json_get(s, "heads"), (int)json_get(s, "kv_heads"), (int)json_get(s, "head_dim"),
             (int)json_get(s, "vocab"), (int)json_get(s, "context"));
    printf("  ");
    print_wrapped(text, 2, 2, prose_width());
    const json_t *line;
    size_t i;
    json_array_foreach (json_object_get(j, "remarks"), i, line) {
        printf("  ");
        print_wrapped(json_string_value(line), 2, 2, prose_width());
    }
    putchar('\n');
    rc = print_tensors(settings, j);
    json_decref(j);
    return rc;
}

static int write_page(const struct settings *s, const char *model, const char *report)
{
    struct pith_error err = {0};
    char *html = NULL, *text = NULL;
    json_t *j = json_loads(report, 0, NULL);
    if (j) json_object_set_new(j, "provenance", page_provenance(model));
    if (j) text = json_dumps(j, 0);
    json_decref(j);
    const enum pith_status made = text ? pith_inspect_html(text, &html, &err) : PITH_NOMEM;
    free(text);
    if (made != PITH_OK) return report_failure(&s->common, &err);
    return page_write(&s->common, s->out, html);
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_context *context;
    struct pith_error err = {0};
    char *report = NULL;
    int rc = page_check(&s->common, s->out);
    if (rc == EXIT_DONE) rc = make_context(&s->common, &context);
    if (rc != EXIT_DONE) return rc;
    if (pith_inspect(context, operands->item[0], s->statistics || s->out, &report, &err) != PITH_OK)
        rc = report_failure(&s->common, &err);
    else if (s->common.json) printf("%s\n", report);
    else rc = print_report(s, report);
    if (rc == EXIT_DONE && s->out) rc = write_page(s, operands->item[0], report);
    pith_text_free(report);
    pith_context_free(&context);
    return rc;
}

const struct command command_inspect = {
    .name = "inspect",
    .summary = "show what is in a checkpoint: tensors, formats, bits, outliers",
    .operands = "MODEL [options]",
    .examples = "  pith inspect Llama-3.2-1B --stats\n"
                "  pith inspect out --json\n"
                "  pith inspect Llama-3.2-1B -o report.html\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .min_operands = 1,
    .max_operands = 1,
    .takes_models = true,
    .plain = true,
    .run = run,
};
