/* pith diff: where two checkpoints of a model differ. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/tables.h"

#include <pith/inspect.h>

#include <stdio.h>
#include <stdlib.h>

struct settings {
    struct common common;
    bool all;
};

static const struct option options[] = {
    {"all", 0, OPTION_FLAG, offsetof(struct settings, all), NULL,
     "also list the parts that are equal"},
};

static void cell(json_t *row, const char *format, const json_t *value)
{
    char text[48] = "";
    if (json_is_number(value)) snprintf(text, sizeof text, format, json_number_value(value));
    json_array_append_new(row, json_string(text));
}

static json_t *make_row(const json_t *part)
{
    const bool equal = json_is_true(json_object_get(part, "equal"));
    json_t *row = json_array();
    json_array_append_new(row, json_string(json_text(part, "name")));
    json_array_append_new(row, json_string(json_text(part, "a")));
    json_array_append_new(row, json_string(json_text(part, "b")));
    json_array_append_new(row, json_string(equal ? "equal" : ""));
    cell(row, "%.6f", equal ? NULL : json_object_get(part, "relative_difference"));
    cell(row, "%.4g", equal ? NULL : json_object_get(part, "largest_difference"));
    return row;
}

static int print_parts(const struct settings *s, const json_t *j)
{
    static const char *const names[] = {"part", "a", "b", "", "relative", "largest"};
    json_t *columns = json_array(), *rows = json_array();
    const json_t *part;
    size_t i;
    for (i = 0; i < 6; i++) table_column(columns, names[i], i < 4 ? "left" : "right");
    json_array_foreach (json_object_get(j, "parts"), i, part)
        if (s->all || !json_is_true(json_object_get(part, "equal")))
            json_array_append_new(rows, make_row(part));
    if (json_array_size(rows) > 0) return print_table(&s->common, columns, rows, NULL);
    json_decref(columns);
    json_decref(rows);
    return EXIT_DONE;
}

static int print_report(const struct settings *s, const json_t *j)
{
    const json_t *key;
    size_t i;
    printf("%s%s%s (%s) and %s%s%s (%s): %d parts equal to the bit, %d different\n", bold(),
           json_text(j, "a"), plain(), json_text(j, "container_a"), bold(), json_text(j, "b"),
           plain(), json_text(j, "container_b"), (int)json_get(j, "parts_equal"),
           (int)json_get(j, "parts_different"));
    json_array_foreach (json_object_get(j, "config_differs"), i, key)
        printf("%s%s", i ? ", " : "config.json differs in ", json_string_value(key));
    if (i) printf("\n");
    return print_parts(s, j);
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_context *context;
    struct pith_error err = {0};
    char *report = NULL;
    int rc = make_context(&s->common, &context);
    if (rc != EXIT_DONE) return rc;
    if (pith_diff(context, operands->item[0], operands->item[1], &report, &err) != PITH_OK) {
        rc = report_failure(&s->common, &err);
    } else {
        json_t *j = json_loads(report, 0, NULL);
        if (s->common.json) printf("%s\n", report);
        else if (j && !s->common.quiet) rc = print_report(s, j);
        if (rc == EXIT_DONE && !json_is_true(json_object_get(j, "equal"))) rc = EXIT_FAILED;
        json_decref(j);
    }
    pith_text_free(report);
    pith_context_free(&context);
    return rc;
}

const struct command command_diff = {
    .name = "diff",
    .summary = "compare two checkpoints part by part, across containers",
    .operands = "A B [options]",
    .examples = "  pith diff Llama-3.2-1B out\n"
                "  pith diff out-gptq out-awq --all\n",
    .details = "What is compared are the weights that each part stands for, not how they are\n"
               "packed. relative: ||B - A|| / ||A||; largest: the largest difference of a value.\n"
               "Exit status 1 when anything differs.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .min_operands = 2,
    .max_operands = 2,
    .run = run,
};
