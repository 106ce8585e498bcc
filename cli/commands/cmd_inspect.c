/* pith inspect: what is in a checkpoint. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/report.h"

#include <pith/inspect.h>

#include <stddef.h>

struct settings {
    struct common common;
    bool statistics;
    const char *out;
};

static const struct option options[] = {
    OPTION(out_inspect, offsetof(struct settings, out)),
    OPTION(stats, offsetof(struct settings, statistics)),
};

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_context *context;
    struct pith_error err = {0};
    struct pith_report *report;
    int rc = page_check(&s->common, s->out);
    if (rc == EXIT_DONE) rc = make_context(&s->common, &context);
    if (rc != EXIT_DONE) return rc;
    const struct pith_report_form form = report_form(&s->common, s->statistics);
    if (pith_inspect_report(context, operands->item[0], s->statistics || s->out, &report, &err) !=
        PITH_OK)
        rc = report_failure(&s->common, &err);
    else rc = write_report(&s->common, report, &form);
    if (rc == EXIT_DONE && s->out)
        rc = write_report_page(&s->common, s->out, operands->item[0], report);
    pith_report_free(&report);
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
