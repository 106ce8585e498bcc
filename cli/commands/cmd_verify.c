/* pith verify: is this checkpoint what it claims to be? */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/report.h"

#include <pith/quantize.h>

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

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_context *context;
    struct pith_error err = {0};
    struct meter meter;
    struct pith_report *report = NULL;
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
    const enum pith_status status = pith_verify_report(context, &o, &report, &err);
    meter_end(&meter);
    const struct pith_report_form form = report_form_named(&s->common, false);
    if (s->common.json || !s->common.quiet) rc = write_report(&s->common, report, &form);
    if (status != PITH_OK) rc = report ? EXIT_FAILED : report_failure(&s->common, &err);
    pith_report_free(&report);
    pith_context_free(&context);
    return rc;
}

const struct command command_verify = {
    .name = "verify",
    .summary = "prove that a quantized checkpoint is complete and correct",
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
