/* pith diff: where two checkpoints of a model differ. */
#include "cli/command.h"
#include "cli/report.h"

#include <pith/inspect.h>

#include <stddef.h>

struct settings {
    struct common common;
    bool all;
};

static const struct option options[] = {
    OPTION(all_diff, offsetof(struct settings, all)),
};

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_context *context;
    struct pith_error err = {0};
    struct pith_report *report;
    int rc = check_given(&s->common);
    if (rc == EXIT_DONE) rc = make_context(&s->common, &context);
    if (rc != EXIT_DONE) return rc;
    if (pith_diff_report(context, operands->item[0], operands->item[1], &report, &err) != PITH_OK) {
        rc = report_failure(&s->common, &err);
    } else {
        struct pith_report_form form = report_form_of_model(&s->common);
        form.all = s->all;
        if (s->common.json || !s->common.quiet) rc = write_report(&s->common, report, &form);
        if (rc == EXIT_DONE && !pith_report_good(report)) rc = EXIT_FAILED;
    }
    pith_report_free(&report);
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
