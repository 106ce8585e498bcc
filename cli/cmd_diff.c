/* pith diff: where two checkpoints of a model differ. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/rank.h"
#include "cli/tables.h"

#include <pith/inspect.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct settings {
    struct common common;
    bool all;
};

static const struct option options[] = {
    OPTION(all_diff, offsetof(struct settings, all)),
};

static void cell(json_t *row, const char *format, const json_t *value)
{
    char text[48] = "";
    if (json_is_number(value)) snprintf(text, sizeof text, format, json_number_value(value));
    json_array_append_new(row, json_string(text));
}

static json_t *make_row(const json_t *part, bool losses)
{
    json_t *row = json_array();
    json_array_append_new(row, json_string(json_text(part, "name")));
    json_array_append_new(row, json_string(json_text(part, "a")));
    json_array_append_new(row, json_string(json_text(part, "b")));
    if (losses) cell(row, "%.4g", json_object_get(part, "loss"));
    cell(row, "%.6f", json_object_get(part, "relative_difference"));
    if (json_object_get(part, "rescaled")) json_array_append_new(row, json_string("rescaled"));
    else if (json_object_get(part, "rotated")) json_array_append_new(row, json_string("rotated"));
    else cell(row, "%.4g", json_object_get(part, "largest_difference"));
    return row;
}

static int print_differences(const struct settings *s, const json_t *parts, bool losses)
{
    json_t *columns = json_array(), *rows = json_array();
    const json_t *part;
    size_t i;
    table_column(columns, "part", "left");
    table_column(columns, "a", "left");
    table_column(columns, "b", "left");
    if (losses) table_column(columns, "loss", "right");
    table_column(columns, "relative", "right");
    table_column(columns, "largest", "right");
    json_array_foreach (parts, i, part) json_array_append_new(rows, make_row(part, losses));
    return print_table(&s->common, columns, rows, NULL);
}

static bool is_moved(const json_t *part)
{
    return (json_object_get(part, "rescaled") || json_object_get(part, "rotated")) &&
           !json_object_get(part, "relative_difference");
}

/* The parts that differ, most harm first; those without a loss behind those that have one. */
static int print_parts(const struct settings *s, const json_t *j)
{
    json_t *with = json_array(), *without = json_array(), *equal = json_array();
    json_t *moved = json_array(); /* by a transform: there is no distance to tell */
    json_t *part;
    size_t i, left, more;
    const size_t most = s->all ? SIZE_MAX : RANK_MOST;
    json_array_foreach (json_object_get(j, "parts"), i, part)
        json_array_append(json_is_true(json_object_get(part, "equal")) ? equal
                          : json_object_get(part, "loss")              ? with
                          : is_moved(part)                             ? moved
                                                                       : without,
                          part);
    const bool losses = json_array_size(with) > 0;
    json_t *shown = rank(with, "loss", most, &left);
    json_t *rest = rank(without, "relative_difference", most - json_array_size(shown), &more);
    json_array_extend(shown, rest);
    if (s->all) json_array_extend(shown, moved);
    if (s->all) json_array_extend(shown, equal);
    else more += json_array_size(moved);
    if (json_array_size(shown))
        printf("most harm first, by %s\n",
               losses ? "the loss at the output that pith.json tells" : "relative difference");
    const int rc = json_array_size(shown) ? print_differences(s, shown, losses) : EXIT_DONE;
    if (left + more) printf("... and %zu more: --all lists them\n", left + more);
    if (json_object_get(json_array_get(moved, 0), "rotated"))
        printf(
            "one of the two is in another basis, as its pith.json says: no part has a distance\n");
    json_decref(with);
    json_decref(without);
    json_decref(equal);
    json_decref(moved);
    json_decref(shown);
    json_decref(rest);
    return rc;
}

static const char *container_name(const json_t *j, const char *key)
{
    const char *name = json_text(j, key);
    return strcmp(name, "none") == 0 ? "not quantized" : name;
}

static int print_report(const struct settings *s, const json_t *j)
{
    const json_t *key;
    size_t i;
    char text[1024];
    snprintf(text, sizeof text,
             "%.400s (%s) and %.400s (%s): %d parts equal to the bit, %d different",
             json_text(j, "a"), container_name(j, "container_a"), json_text(j, "b"),
             container_name(j, "container_b"), (int)json_get(j, "parts_equal"),
             (int)json_get(j, "parts_different"));
    print_wrapped(text, 0, 2, terminal_width(STDOUT_FILENO));
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
    int rc = check_given(&s->common);
    if (rc == EXIT_DONE) rc = make_context(&s->common, &context);
    if (rc != EXIT_DONE) return rc;
    if (pith_diff(context, operands->item[0], operands->item[1], &report, &err) != PITH_OK) {
        rc = report_failure(&s->common, &err);
    } else {
        json_t *j = read_report(&s->common, report, &rc);
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
    .details =
        "What is compared are the weights that each part stands for, not how they are\n"
        "packed. loss: what B's pith.json measured at the linear's output, if it was made\n"
        "with calibration; relative: ||B - A|| / ||A||; largest: of a value.\n"
        "rescaled: AWQ or SmoothQuant multiplied it; what multiplying rows and columns does\n"
        "not explain is the difference. rotated: one of the two is in another basis.\n"
        "Exit status 1 when anything differs.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .min_operands = 2,
    .max_operands = 2,
    .takes_models = true,
    .plain = true,
    .run = run,
};
