/* pith sensitivity: what each part would cost on each of several grids. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/report.h"

#include <pith/sensitivity.h>

#include <stddef.h>

struct settings {
    struct common common;
    struct pith_sensitivity_options q; /* but for its lists, which are these */
    const char *page;
    struct text_list tries, acts, caches, calib, targets;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    OPTION(try_sensitivity, AT(tries)),
    OPTION(acts_sensitivity, AT(acts)),
    OPTION(kv_sensitivity, AT(caches)),
    OPTION(recipe_sensitivity, AT(q.recipe)),
    OPTION(round_sensitivity, AT(q.round)),
    OPTION(container_sensitivity, AT(q.container)),
    OPTION(for_sensitivity, AT(targets)),
    OPTION(calib_sensitivity, AT(calib)),
    OPTION(crlf, AT(q.crlf)),
    OPTION(calib_tokens_sensitivity, AT(q.calib_tokens)),
    OPTION(seq_len, AT(q.seq_len)),
    OPTION(experts_sensitivity, AT(q.experts)),
    OPTION(out_sensitivity, AT(page)),
    OPTION(resume, AT(q.resume)),
    OPTION(work_sensitivity, AT(q.work)),
};

static void defaults(void *settings)
{
    pith_sensitivity_defaults(&((struct settings *)settings)->q);
    ((struct settings *)settings)->q.work = "pith.sensitivity";
}

static enum pith_status work(struct pith_context *context, void *settings,
                             struct pith_report **report, struct pith_error *err)
{
    return pith_sensitivity_report(context, &((struct settings *)settings)->q, report, err);
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    const int rc = page_check(&s->common, s->page);
    if (rc != EXIT_DONE) return rc;
    s->q.model = operands->item[0];
    s->q.tries = as_list(&s->tries);
    s->q.acts = as_list(&s->acts);
    s->q.caches = as_list(&s->caches);
    s->q.calib = as_list(&s->calib);
    s->q.targets = as_list(&s->targets);
    s->q.seed = s->common.seed;
    return run_report(&(struct reporting){.common = &s->common,
                                          .settings = s,
                                          .progress = &s->q.progress,
                                          .work = work,
                                          .page = s->page});
}

const struct command command_sensitivity = {
    .name = "sensitivity",
    .summary = "what each part would cost on each of several grids",
    .operands = "MODEL [options]",
    .examples = "  pith sensitivity models/probe\n"
                "  pith sensitivity models/probe --try int3:g128,int4:g128,int8:g128 --json\n"
                "  pith sensitivity models/probe --container gguf -o sensitivity.html\n",
    .details = "One pass through the model and one back show how much its answers would diverge\n"
               "(KL, nats a token) if this one linear, its input, or the keys or values of this\n"
               "one layer were rounded so; what several parts cost adds up. -r auto of\n"
               "'pith quantize' chooses grids of linears by it.\n",
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
