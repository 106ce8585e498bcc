/* pith recipes, pith formats, pith features: the tables that the program works from. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/report.h"

#include <pith/inspect.h>
#include <pith/plan.h>

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

/* Writes a list or one of its entries; takes the report. */
static int write_list(const struct settings *s, struct pith_report *report)
{
    struct pith_report_form form = report_form_named(&s->common, false);
    form.table = s->format;
    const int rc = write_report(&s->common, report, &form);
    pith_report_free(&report);
    return rc;
}

/* A list of the library, whole or the entry that the command names. */
static int run_list(const struct settings *s, const char *list, const struct text_list *operands)
{
    struct pith_error err = {0};
    struct pith_report *report;
    const int rc = check_format(&s->common, s->format);
    if (rc != EXIT_DONE) return rc;
    if (pith_list_report(list, operands->count ? operands->item[0] : NULL, &report, &err) !=
        PITH_OK)
        return report_usage(&s->common, &err);
    return write_list(s, report);
}

static int run_recipes(void *settings, const struct text_list *operands)
{
    const struct settings *s = settings;
    return run_list(s, s->keys ? "keys" : "recipes", operands);
}

static int run_formats(void *settings, const struct text_list *operands)
{
    return run_list(settings, "formats", operands);
}

static int run_features(void *settings, const struct text_list *operands)
{
    return run_list(settings, "features", operands);
}

/* The machine at hand, with kernels where some are wanted. */
static int measure_hardware(const struct settings *s)
{
    const struct pith_list weights = as_list(&s->weights), caches = as_list(&s->caches);
    struct pith_context *context;
    struct pith_error err = {0};
    struct pith_report *report = NULL;
    int rc = check_format(&s->common, s->format);
    if (rc == EXIT_DONE) rc = make_context(&s->common, &context);
    if (rc != EXIT_DONE) return rc;
    if (pith_hardware_report(context, &weights, &caches, &report, &err) == PITH_OK)
        rc = write_list(s, report);
    else rc = report_failure(&s->common, &err);
    pith_context_free(&context);
    return rc;
}

static int run_hardware(void *settings, const struct text_list *operands)
{
    const struct settings *s = settings;
    if (operands->count && pith_name_equal(operands->item[0], "this")) return measure_hardware(s);
    if (s->weights.count + s->caches.count)
        return usage_failure(&s->common,
                             "--%s does nothing here: kernels are measured of the machine at hand,"
                             " pith hardware this",
                             s->weights.count ? "weights" : "kv");
    return run_list(s, "hardware", operands);
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
