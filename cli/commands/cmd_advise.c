/* pith advise: which recipe to take, tried and measured. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/report.h"

#include <pith/advise.h>

#include <stddef.h>

struct settings {
    struct common common;
    struct pith_advise_options o; /* but for its lists, which are these */
    struct text_list targets, texts, calib;
    bool all;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    OPTION(for_advise, AT(targets)),   OPTION(context_advise, AT(o.context)),
    OPTION(users_advise, AT(o.users)), OPTION(candidates, AT(o.candidates)),
    OPTION(text_advise, AT(texts)),    OPTION(max_tokens_advise, AT(o.max_tokens)),
    OPTION(calib_advise, AT(calib)),   OPTION(calib_tokens_advise, AT(o.calib_tokens)),
    OPTION(round_advise, AT(o.round)), OPTION(crlf_advise, AT(o.crlf)),
    OPTION(all_advise, AT(all)),       OPTION(resume, AT(o.resume)),
    OPTION(work_advise, AT(o.work)),
};

static void defaults(void *settings)
{
    pith_advise_defaults(&((struct settings *)settings)->o);
    ((struct settings *)settings)->o.work = "pith.advise";
}

/* --- the run ---------------------------------------------------------------------------------- */

static int check(const struct settings *s)
{
    if (s->targets.count != 1)
        return usage_failure(&s->common, "--for ENGINE:gpu=NAME, once: what it shall run on");
    const int rc = check_given(&s->common);
    if (rc != EXIT_DONE) return rc;
    return look_at_texts(&s->common, &s->texts, s->o.crlf);
}

static enum pith_status work(struct pith_context *context, void *settings,
                             struct pith_report **report, struct pith_error *err)
{
    return pith_advise_report(context, &((struct settings *)settings)->o, report, err);
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    const int rc = check(s);
    if (rc != EXIT_DONE) return rc;
    s->o.model = operands->item[0];
    s->o.target = s->targets.item[0];
    s->o.texts = as_list(&s->texts);
    s->o.calib = as_list(&s->calib);
    s->o.seed = s->common.seed;
    return run_report(&(struct reporting){.common = &s->common,
                                          .settings = s,
                                          .progress = &s->o.progress,
                                          .work = work,
                                          .all = s->all});
}

const struct command command_advise = {
    .name = "advise",
    .summary = "which recipe to take for an engine on a GPU, tried and measured",
    .operands = "MODEL --for ENGINE:gpu=NAME [options]",
    .examples = "  pith advise Llama-3.2-1B --for vllm:gpu=l4 --context 8k --users 16\n"
                "  pith advise models/probe --for pith --candidates 0\n"
                "  pith advise models/probe --for llama.cpp:gpu=rtx4090 --text eval.txt\n",
    .details =
        "Makes the plan of 'pith plan', makes the first few recipes of it that the engine loads\n"
        "and the GPU computes, measures each against the model as it is, and ranks them by speed\n"
        "(or tokens for money) and measured divergence: a KL of 0.02 nats halves a recipe's\n"
        "worth. Leaving the model as it is takes part.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .min_operands = 1,
    .max_operands = 1,
    .takes_models = true,
    .defaults = defaults,
    .run = run,
};
