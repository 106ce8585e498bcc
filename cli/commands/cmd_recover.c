/* pith recover: trains a quantized model towards its original. */
#include "cli/command.h"
#include "cli/report.h"

#include <pith/recover.h>

#include <stdio.h>
#include <string.h>

struct settings {
    struct common common;
    struct pith_recover_options q; /* but for its list, which is `text` */
    struct text_list text;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    OPTION(against_recover, AT(q.original)),
    OPTION(out_recover, AT(q.out)),
    OPTION(train, AT(q.train)),
    OPTION(steps, AT(q.steps)),
    OPTION(text_recover, AT(text)),
    OPTION(crlf, AT(q.crlf)),
    OPTION(tokens_recover, AT(q.tokens)),
    OPTION(seq_len, AT(q.seq_len)),
    OPTION(batch, AT(q.batch)),
    OPTION(rate_recover, AT(q.rate)),
    OPTION(memory_recover, AT(q.memory)),
    OPTION(resume, AT(q.resume)),
};

static void defaults(void *settings)
{
    pith_recover_defaults(&((struct settings *)settings)->q);
}

static enum pith_status work(struct pith_context *context, void *settings,
                             struct pith_report **report, struct pith_error *err)
{
    return pith_recover_report(context, &((struct settings *)settings)->q, report, err);
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_error err = {0};
    if (!s->q.original) {
        err = (struct pith_error){PITH_ARG, "--against MODEL is needed: the original"};
        return report_usage(&s->common, &err);
    }
    if (s->q.crlf && s->text.count == 1 && strcmp(s->text.item[0], "self") == 0) {
        err = (struct pith_error){PITH_ARG, "--crlf does nothing: the original writes the text"};
        return report_usage(&s->common, &err);
    }
    s->q.model = operands->item[0];
    s->q.text = as_list(&s->text);
    s->q.seed = s->common.seed;
    return run_report(&(struct reporting){
        .common = &s->common, .settings = s, .progress = &s->q.progress, .work = work});
}

const struct command command_recover = {
    .name = "recover",
    .summary = "train a quantized model to answer as the original does",
    .operands = "OUT --against MODEL [options]",
    .examples = "  pith recover out --against models/probe -o better\n"
                "  pith recover out --against models/probe --train all --steps 400\n"
                "  pith recover out --against models/probe --train all --text self --memory 6G\n",
    .details = "Distillation: the divergence of each token's answer from the original's is made\n"
               "small by AdamW, through the whole model. Grids, container and size stay; what is\n"
               "written is what was best on a part of the text that is never trained on.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .min_operands = 1,
    .max_operands = 1,
    .takes_models = true,
    .spreads = true,
    .defaults = defaults,
    .run = run,
};
