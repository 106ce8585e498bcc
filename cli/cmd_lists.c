/* pith recipes, pith formats: the tables that the program works from. */
#include "cli/command.h"

#include <pith/inspect.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

struct settings {
    struct common common;
    const char *format;
};

static const struct option options[] = {
    {"format", 0, OPTION_TEXT, offsetof(struct settings, format), "NAME",
     "table as text, markdown or csv (default text)"},
};

/* An array of flat objects as a table: the first object's keys are the columns. */
static json_t *make_table(const json_t *list)
{
    json_t *columns = json_array(), *rows = json_array(), *first = json_array_get(list, 0);
    const json_t *entry;
    json_t *value;
    const char *key;
    size_t i;
    json_object_foreach (first, key, value)
        json_array_append_new(columns, json_pack("{s:s, s:s}", "name", key, "align",
                                                 json_is_number(value) ? "right" : "left"));
    json_array_foreach (list, i, entry) {
        json_t *row = json_array();
        json_object_foreach (first, key, value) {
            const json_t *v = json_object_get(entry, key);
            char text[32];
            if (json_is_integer(v))
                snprintf(text, sizeof text, "%lld", (long long)json_integer_value(v));
            else snprintf(text, sizeof text, "%.6g", json_number_value(v));
            json_array_append_new(row, json_string(json_is_string(v)   ? json_string_value(v)
                                                   : json_is_number(v) ? text
                                                                       : ""));
        }
        json_array_append_new(rows, row);
    }
    return json_pack("{s:o, s:o}", "columns", columns, "rows", rows);
}

static int print_list(const struct settings *s,
                      enum pith_status (*get)(char **, struct pith_error *))
{
    struct pith_error err = {0};
    char *report = NULL, *rendered = NULL, *text = NULL;
    int rc = EXIT_DONE;
    if (get(&report, &err) != PITH_OK) return report_failure(&err);
    if (s->common.json) {
        printf("%s\n", report);
        pith_text_free(report);
        return rc;
    }
    json_t *list = json_loads(report, 0, NULL), *table = make_table(list);
    if (table) text = json_dumps(table, 0);
    if (text && pith_table_render(text, s->format ? s->format : "text", &rendered, &err) == PITH_OK)
        fputs(rendered, stdout);
    else rc = report_failure(&err);
    free(text);
    pith_text_free(rendered);
    pith_text_free(report);
    json_decref(table);
    json_decref(list);
    return rc;
}

static int run_recipes(void *settings, const struct text_list *operands)
{
    (void)operands;
    return print_list(settings, pith_recipes_json);
}

static int run_formats(void *settings, const struct text_list *operands)
{
    (void)operands;
    return print_list(settings, pith_formats_json);
}

const struct command command_recipes = {
    .name = "recipes",
    .summary = "list the named recipes and what they choose in each stage",
    .operands = "[options]",
    .examples = "  pith recipes\n  pith recipes --json\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .run = run_recipes,
};

const struct command command_formats = {
    .name = "formats",
    .summary = "list the number formats of the grid vocabulary",
    .operands = "[options]",
    .examples = "  pith formats\n  pith formats --format markdown\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .run = run_formats,
};
