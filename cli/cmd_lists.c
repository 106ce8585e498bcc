/* pith recipes, pith formats, pith features: the tables that the program works from. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/tables.h"

#include <pith/inspect.h>
#include <pith/plan.h>

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct settings {
    struct common common;
    const char *format;
    bool keys;
    struct text_list weights, caches;
};

static const struct option options[] = {
    OPTION(format_lists, offsetof(struct settings, format)),
    /* The rest is for recipes. */
    OPTION(keys, offsetof(struct settings, keys)),
};
enum { OPTIONS = 1, RECIPE_OPTIONS = sizeof options / sizeof options[0] };

static const struct option hardware_options[] = {
    OPTION(format_lists, offsetof(struct settings, format)),
    OPTION(weights_lists, offsetof(struct settings, weights)),
    OPTION(kv_lists, offsetof(struct settings, caches)),
};

/* A value of a flat object as the text of a cell. */
static json_t *cell_of(const json_t *v)
{
    char text[32];
    if (json_is_string(v)) return json_string(json_string_value(v));
    if (json_is_boolean(v)) return json_string(json_is_true(v) ? "yes" : "no");
    if (json_is_integer(v)) snprintf(text, sizeof text, "%lld", (long long)json_integer_value(v));
    else snprintf(text, sizeof text, "%.6g", json_number_value(v));
    return json_string(json_is_number(v) ? text : "");
}

/* An array of flat objects as a table: the first object's keys are the columns. */
static int print_rows(const struct settings *s, const json_t *list)
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

/* An array of objects as their names and what they are: the narrow view. */
static void print_names(const json_t *list, const char *name)
{
    json_t *pairs = json_object();
    const json_t *entry;
    size_t i;
    json_array_foreach (list, i, entry)
        json_object_set(pairs, json_text(entry, name), json_object_get(entry, "what"));
    print_pairs(pairs, 2, terminal_width(STDOUT_FILENO));
    json_decref(pairs);
}

/* One flat object: a line a key, without empty ones. */
static void print_entry(const json_t *entry, const char *title)
{
    json_t *pairs = json_object();
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)entry, key, value)
        if (strcmp(key, title) != 0 && strcmp(json_text(entry, key), "-") != 0 &&
            (!json_is_string(value) || json_string_length(value) > 0))
            json_object_set_new(pairs, key, cell_of(value));
    print_pairs(pairs, 2, terminal_width(STDOUT_FILENO));
    json_decref(pairs);
}

/* The key of an object that a word names in any case; NULL with an error, and what was perhaps
 * meant. */
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

/* EXIT_USAGE, with the name that was perhaps meant. */
static int unknown_entry(const struct settings *s, const char *name, const char *word,
                         const json_t *list)
{
    json_t *names = json_object();
    const json_t *entry;
    size_t i;
    json_array_foreach (list, i, entry)
        json_object_set_new(names, json_text(entry, name), json_null());
    (void)find_key(s, name, word, names);
    json_decref(names);
    return EXIT_USAGE;
}

/* The entry of a list whose `name` is that word in any case, or NULL. */
static json_t *find_entry(const json_t *list, const char *name, const char *word)
{
    json_t *entry;
    size_t i;
    json_array_foreach (list, i, entry)
        if (pith_name_equal(json_text(entry, name), word)) return entry;
    return NULL;
}

static int print_json(const json_t *j)
{
    json_dumpf(j, stdout, JSON_INDENT(2));
    putchar('\n');
    return EXIT_DONE;
}

/* What -r takes besides the rows of the table: no composition of stages, but one that is found. */
static json_t *auto_entry(void)
{
    return json_pack(
        "{s:s, s:s, s:s, s:s, s:s}", "recipe", "auto", "weights",
        "of each linear what the whole loses least by, within --budget, --fit or --max-kl",
        "transform", "none or awq, whichever loses less", "container",
        "compressed-tensors, or gguf for a file", "what",
        "found for the model: each linear's grid, by --budget, --fit or --max-kl");
}

/* A list of which one entry can be requested by name. */
static int print_list(const struct settings *s, const char *word, const char *name,
                      enum pith_status (*get)(char **, struct pith_error *))
{
    struct pith_error err = {0};
    char *report = NULL;
    int rc = check_format(&s->common, s->format);
    if (rc != EXIT_DONE) return rc;
    if (get(&report, &err) != PITH_OK) return report_failure(&s->common, &err);
    json_t *list = read_report(&s->common, report, &rc);
    if (!list) {
        pith_text_free(report);
        return rc;
    }
    const bool recipes = !s->keys && strcmp(name, "recipe") == 0;
    /* Rows for programs are those of the table. */
    if (recipes && (word || !(s->common.json || s->format)))
        json_array_append_new(list, auto_entry());
    json_t *one = word ? find_entry(list, name, word) : NULL;
    if (word && !one) {
        rc = unknown_entry(s, name, word, list);
    } else if (s->common.json) {
        if (one) print_json(one);
        else printf("%s\n", report);
    } else if (one && !s->format) {
        printf("%s%s%s\n", bold(), json_text(one, name), plain());
        print_entry(one, name);
    } else if (s->format) {
        json_t *only = one ? json_pack("[O]", one) : json_incref(list);
        rc = print_rows(s, only);
        json_decref(only);
    } else {
        print_names(list, name);
        char hint[128];
        snprintf(hint, sizeof hint,
                 "'pith %ss%s NAME' shows more of one, --format text shows all that there is.",
                 s->keys ? "recipe" : name, s->keys ? " --keys" : "");
        putchar('\n');
        print_wrapped(hint, 0, 0, terminal_width(STDOUT_FILENO));
    }
    json_decref(list);
    pith_text_free(report);
    return rc;
}

/* --- features -------------------------------------------------------------------------------- */

/* What one engine loads, or who loads one container: the rows of "loads" of that `key`. */
static int print_loads(const struct settings *s, const json_t *all, const char *key,
                       const json_t *entry)
{
    const json_t *row;
    const char *name = json_text(entry, "name");
    const char *other = strcmp(key, "engine") == 0 ? "container" : "engine";
    json_t *some = json_array();
    size_t i;
    json_array_foreach (json_object_get(all, "loads"), i, row)
        if (strcmp(json_text(row, key), name) == 0)
            json_array_append(some, (json_t *)(uintptr_t)row);
    int rc = EXIT_DONE;
    if (s->common.json) {
        rc = print_json(some);
    } else if (s->format) {
        rc = print_rows(s, some);
    } else {
        printf("%s%s%s: ", bold(), name, plain());
        print_wrapped(json_text(entry, "what"), strlen(name) + 2, 2, terminal_width(STDOUT_FILENO));
        json_array_foreach (some, i, row) {
            json_t *rest = json_copy((json_t *)(uintptr_t)row);
            printf("\n%s\n", json_text(row, other));
            json_object_del(rest, key);
            print_entry(rest, other);
            json_decref(rest);
        }
    }
    json_decref(some);
    return rc;
}

/* A list of names and what they are; the others are wide tables. */
static bool is_narrow(const json_t *list)
{
    return json_object_get(json_array_get(list, 0), "what") != NULL;
}

/* A table by name. NULL with an error, and the table, engine or container that was perhaps meant.
 */
static const char *find_table(const struct settings *s, const char *word, json_t *all)
{
    static const char *const lists[] = {"engines", "containers"};
    const char *key;
    const json_t *row;
    json_t *value;
    size_t k;
    json_object_foreach (all, key, value)
        if (pith_name_equal(word, key)) return key;
    json_t *names = json_copy(all);
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        json_array_foreach (json_object_get(all, lists[i]), k, row)
            json_object_set_new(names, json_text(row, "name"), json_null());
    (void)find_key(s, "table, engine or container", word, names);
    json_decref(names);
    return NULL;
}

/* One table in full. */
static int print_one(const struct settings *s, const char *word, json_t *all)
{
    const json_t *engine = find_entry(json_object_get(all, "engines"), "name", word);
    const json_t *container = find_entry(json_object_get(all, "containers"), "name", word);
    if (engine) return print_loads(s, all, "engine", engine);
    if (container) return print_loads(s, all, "container", container);
    const char *key = find_table(s, word, all);
    if (!key) return EXIT_USAGE;
    const json_t *list = json_object_get(all, key);
    if (s->common.json) return print_json(list);
    if (s->format || !is_narrow(list)) return print_rows(s, list);
    print_names(list, "name");
    return EXIT_DONE;
}

/* All tables under their names; for people without the widest. */
static int print_all(const struct settings *s, json_t *all)
{
    const char *key;
    json_t *list;
    int rc = EXIT_DONE;
    json_object_foreach (all, key, list) {
        if (!s->format && !is_narrow(list)) continue;
        const bool markdown = s->format && pith_name_equal(s->format, "markdown");
        printf("%s%s%s%s\n\n", bold(), markdown ? "## " : "", key, plain());
        if (s->format) rc = print_rows(s, list);
        else print_names(list, "name");
        putchar('\n');
        if (rc != EXIT_DONE) return rc;
    }
    if (!s->format)
        print_wrapped("'pith features ENGINE' shows what an engine loads, 'pith features "
                      "CONTAINER' who loads it.",
                      0, 0, terminal_width(STDOUT_FILENO));
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
    json_t *all = read_report(&s->common, report, &rc);
    if (!all) rc = EXIT_FAILED;
    else if (s->common.json && operands->count == 0) printf("%s\n", report);
    else if (operands->count) rc = print_one(s, operands->item[0], all);
    else rc = print_all(s, all);
    json_decref(all);
    pith_text_free(report);
    return rc;
}

static int run_recipes(void *settings, const struct text_list *operands)
{
    const struct settings *s = settings;
    if (s->keys)
        return print_list(s, operands->count ? operands->item[0] : NULL, "key",
                          pith_recipe_keys_json);
    return print_list(settings, operands->count ? operands->item[0] : NULL, "recipe",
                      pith_recipes_json);
}

/* With kernels on request. */
static enum pith_status measure_hardware(const struct settings *s, struct pith_context *context,
                                         char **report, struct pith_error *err)
{
    const struct pith_list weights = as_list(&s->weights), caches = as_list(&s->caches);
    if (weights.count + caches.count == 0) return pith_hardware_measure(context, report, err);
    return pith_hardware_measure_kernels(context, &weights, &caches, report, err);
}

static int run_hardware(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    const char *name = operands->count ? operands->item[0] : NULL;
    struct pith_context *context;
    struct pith_error err = {0};
    char *report = NULL;
    const bool here = name && pith_name_equal(name, "this");
    if (!here && s->weights.count + s->caches.count)
        return usage_failure(&s->common,
                             "--%s does nothing here: kernels are measured of the machine at hand,"
                             " pith hardware this",
                             s->weights.count ? "weights" : "kv");
    if (!here) return print_list(s, name, "hardware", pith_hardware_json);
    int rc = check_format(&s->common, s->format);
    if (rc == EXIT_DONE) rc = make_context(&s->common, &context);
    if (rc != EXIT_DONE) return rc;
    if (measure_hardware(s, context, &report, &err) != PITH_OK)
        rc = report_failure(&s->common, &err);
    else if (s->common.json) printf("%s", report);
    else {
        json_t *j = read_report(&s->common, report, &rc), *list = json_pack("[O]", j);
        if (j && s->format) rc = print_rows(s, list);
        else if (j) print_entry(j, "hardware");
        json_decref(list);
        json_decref(j);
    }
    pith_text_free(report);
    pith_context_free(&context);
    return rc;
}

static int run_formats(void *settings, const struct text_list *operands)
{
    return print_list(settings, operands->count ? operands->item[0] : NULL, "format",
                      pith_formats_json);
}

const struct command command_recipes = {
    .name = "recipes",
    .summary = "list the named recipes and what they choose in each stage",
    .operands = "[NAME] [options]",
    .max_operands = 1,
    .examples = "  pith recipes\n"
                "  pith recipes awq\n"
                "  pith recipes --keys\n"
                "  pith recipes --format markdown\n",
    .options = options,
    .option_count = RECIPE_OPTIONS,
    .settings_size = sizeof(struct settings),
    .plain = true,
    .run = run_recipes,
};

const struct command command_formats = {
    .name = "formats",
    .summary = "list the number formats of the grid vocabulary",
    .operands = "[NAME] [options]",
    .max_operands = 1,
    .examples = "  pith formats\n"
                "  pith formats nvfp4\n"
                "  pith formats --format markdown\n",
    .options = options,
    .option_count = OPTIONS,
    .settings_size = sizeof(struct settings),
    .plain = true,
    .run = run_formats,
};

const struct command command_hardware = {
    .name = "hardware",
    .summary = "list the hardware that pith plan knows: memory, units, prices",
    .operands = "[NAME] [options]",
    .max_operands = 1,
    .examples = "  pith hardware\n"
                "  pith hardware h100-sxm\n"
                "  pith hardware this --json > this.json\n"
                "  pith hardware this --weights int4:g128 --kv int8:token --json > this.json\n",
    .details =
        "'this' is the machine at hand, measured. A row as --json prints it, changed as wanted,\n"
        "is what pith plan --hardware FILE.json reads.\n",
    .options = hardware_options,
    .option_count = sizeof hardware_options / sizeof hardware_options[0],
    .settings_size = sizeof(struct settings),
    .plain = true,
    .run = run_hardware,
};

const struct command command_features = {
    .name = "features",
    .summary = "list containers, engines and what they load, architectures, stages",
    .operands = "[NAME] [options]",
    .examples = "  pith features\n"
                "  pith features vllm\n"
                "  pith features loads --format markdown\n",
    .details =
        "NAME: an engine or a container, for what is loaded from where (what --for checks), or a\n"
        "table: containers, engines, loads, caches, conversions, architectures,\n"
        "transforms, splits, rounders. 'conversions' shows on what grid each container holds\n"
        "another's codes, 'caches' with what engines are started.\n",
    .options = options,
    .option_count = OPTIONS,
    .settings_size = sizeof(struct settings),
    .plain = true,
    .max_operands = 1,
    .run = run_features,
};
