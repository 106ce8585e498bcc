/* pith recipes, pith formats, pith features: the tables that the program works from. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/tables.h"

#include <pith/inspect.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    struct common common;
    const char *format;
};

static const struct option options[] = {
    {"format", 0, OPTION_TEXT, offsetof(struct settings, format), "NAME",
     "table as text, markdown, csv or json (default text)"},
};

/* A value of a flat object as the text of a cell. */
static json_t *cell_of(const json_t *v)
{
    char text[32];
    if (json_is_string(v)) return json_string(json_string_value(v));
    if (json_is_integer(v)) snprintf(text, sizeof text, "%lld", (long long)json_integer_value(v));
    else snprintf(text, sizeof text, "%.6g", json_number_value(v));
    return json_string(json_is_number(v) ? text : "");
}

/* An array of flat objects as a table: the first object's keys are the columns. */
static int render(const struct settings *s, const json_t *list)
{
    json_t *columns = json_array(), *rows = json_array(), *first = json_array_get(list, 0);
    const json_t *entry;
    json_t *value;
    const char *key;
    size_t i;
    json_object_foreach (first, key, value)
        table_column(columns, key, json_is_number(value) ? "right" : "left");
    json_array_foreach (list, i, entry) {
        json_t *row = json_array();
        json_object_foreach (first, key, value)
            json_array_append_new(row, cell_of(json_object_get(entry, key)));
        json_array_append_new(rows, row);
    }
    return print_table(&s->common, columns, rows, s->format);
}

static int print_list(const struct settings *s,
                      enum pith_status (*get)(char **, struct pith_error *))
{
    struct pith_error err = {0};
    char *report = NULL;
    int rc = check_format(&s->common, s->format);
    if (rc != EXIT_DONE) return rc;
    if (get(&report, &err) != PITH_OK) return report_failure(&s->common, &err);
    if (s->common.json) {
        printf("%s\n", report);
    } else {
        json_t *list = json_loads(report, 0, NULL);
        rc = render(s, list);
        json_decref(list);
    }
    pith_text_free(report);
    return rc;
}

/* The key of an object that a word names in any case; NULL is told, with what was perhaps meant. */
static const char *find_key(const struct settings *s, const char *what, const char *word,
                            json_t *all)
{
    enum { MOST = 64 };
    const char *names[MOST], *key;
    char list[512] = "";
    json_t *value;
    size_t count = 0;
    json_object_foreach (all, key, value) {
        const size_t used = strlen(list);
        if (pith_name_equal(word, key)) return key;
        if (count < MOST) names[count++] = key;
        snprintf(list + used, sizeof list - used, " %s", key);
    }
    const char *near = pith_name_nearest(word, names, count);
    if (near) usage_failure(&s->common, "no %s '%s'; did you mean '%s'?", what, word, near);
    else usage_failure(&s->common, "no %s '%s'; there are%s", what, word, list);
    return NULL;
}

/* One table of the report, or all of them under their names. */
static int print_features(const struct settings *s, const char *only, json_t *all)
{
    const char *key;
    json_t *list;
    int rc = EXIT_DONE;
    if (only) {
        key = find_key(s, "table", only, all);
        if (!key) return EXIT_USAGE;
        list = json_object_get(all, key);
        if (!s->common.json) return render(s, list);
        json_dumpf(list, stdout, 0);
        putchar('\n');
        return rc;
    }
    json_object_foreach (all, key, list) {
        printf("%s%s%s%s\n\n", bold(), s->format && *s->format == 'm' ? "## " : "", key, plain());
        if (rc == EXIT_DONE) rc = render(s, list);
        putchar('\n');
    }
    return rc;
}

static int run_features(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_error err = {0};
    char *report = NULL;
    int rc = check_format(&s->common, s->format);
    if (rc != EXIT_DONE) return rc;
    if (pith_features_json(&report, &err) != PITH_OK) return report_failure(&s->common, &err);
    if (s->common.json && operands->count == 0) {
        printf("%s\n", report);
    } else {
        json_t *all = json_loads(report, 0, NULL);
        rc = all ? print_features(s, operands->count ? operands->item[0] : NULL, all) : EXIT_FAILED;
        json_decref(all);
    }
    pith_text_free(report);
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

const struct command command_features = {
    .name = "features",
    .summary = "list containers, engines and what they load, architectures, stages",
    .operands = "[TABLE] [options]",
    .examples = "  pith features\n"
                "  pith features loads --format markdown\n",
    .details = "TABLE: containers, engines, loads, conversions, architectures, transforms,\n"
               "splits, rounders. Without it all are shown. 'loads' is what --for checks;\n"
               "'conversions' on what grid each container holds the codes of another's.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .max_operands = 1,
    .run = run_features,
};
