/* pith verify: is this checkpoint what it claims to be? */
#include "cli/command.h"
#include "cli/tables.h"

#include <pith/quantize.h>

#include <jansson.h>
#include <stdio.h>

struct settings {
    struct common common;
    const char *against, *adapter;
    struct text_list targets;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    OPTION(against_verify, AT(against)),
    OPTION(adapter_verify, AT(adapter)),
    OPTION(for_verify, AT(targets)),
};

static void print_report(const json_t *j)
{
    const json_t *line;
    size_t i;
    json_array_foreach (json_object_get(j, "checks"), i, line) {
        printf("  %-3s ", json_is_true(json_object_get(line, "ok")) ? "ok" : "NO");
        print_line(6, 6, "%s", json_string_value(json_object_get(line, "what")));
    }
    json_array_foreach (json_object_get(j, "notes"), i, line) {
        printf("  note: ");
        print_line(8, 4, "%s", json_string_value(line));
    }
    json_array_foreach (json_object_get(j, "problems"), i, line) {
        if (i == 20) {
            printf("  ... and %zu more (--json lists all)\n",
                   json_array_size(json_object_get(j, "problems")) - i);
            break;
        }
        printf("  problem: ");
        print_line(11, 4, "%s", json_string_value(line));
    }
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_context *context;
    struct pith_error err = {0};
    struct meter meter;
    char *report = NULL;
    struct pith_verify_options o;
    pith_verify_defaults(&o);
    o.model = operands->item[0];
    o.against = s->against;
    o.adapter = s->adapter;
    o.targets = as_list(&s->targets);
    o.progress = meter_progress(&meter);
    int rc = check_given(&s->common);
    if (rc != EXIT_DONE) return rc;
    if (pith_verify_check(&o, &err) != PITH_OK) return report_usage(&s->common, &err);
    rc = make_context(&s->common, &context);
    if (rc != EXIT_DONE) return rc;
    meter_start(&meter, &s->common);
    const enum pith_status status = pith_verify(context, &o, &report, &err);
    meter_end(&meter);
    name_options_of(&s->common, &report);
    if (report && s->common.json) {
        printf("%s\n", report);
    } else if (report && !s->common.quiet) {
        json_t *j = read_report(&s->common, report, &rc);
        const bool accounted = json_is_true(json_object_get(j, "accounted"));
        print_subject(o.model, sizeof ": NOT as it should be");
        printf(": %s\n", status != PITH_OK ? "NOT as it should be"
                         : accounted       ? "verified"
                         : s->against      ? "fits the original"
                                           : "can be loaded");
        if (j) print_report(j);
        json_decref(j);
    }
    if (status != PITH_OK) rc = report ? EXIT_FAILED : report_failure(&s->common, &err);
    pith_text_free(report);
    pith_context_free(&context);
    return rc;
}

const struct command command_verify = {
    .name = "verify",
    .summary = "prove that a quantized checkpoint is what was asked for",
    .operands = "DIR [options]",
    .extra = "--against MODEL",
    .examples = "  pith verify out\n"
                "  pith verify out --against Llama-3.2-1B --for vllm:tp=2 --for transformers\n",
    .details =
        "Checks every tensor and every other byte against pith.json: present, nothing unknown,\n"
        "hashes, no NaN, the dequantized weights as the quantizer meant them. With --against also\n"
        "what the configs and tokenizers mean; with --against or --for a checkpoint of another\n"
        "program, which has no pith.json, is judged too. Exit status 1 if anything is off.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .min_operands = 1,
    .max_operands = 1,
    .takes_models = true,
    .plain = true,
    .spreads = true,
    .run = run,
};
