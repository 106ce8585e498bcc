/* pith recover: what quantization left learns from the original. */
#include "cli/command.h"
#include "cli/measure.h"

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

static double number(const json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

static int print_report(void *settings, const char *report)
{
    const struct settings *s = settings;
    int rc = EXIT_DONE;
    json_t *j = read_report(&s->common, report, &rc);
    if (!j) return rc;
    const double before = number(j, "kl_before"), after = number(j, "kl_after");
    printf("%s: trained, written, read back and compared\n", s->q.out ? s->q.out : s->q.model);
    printf("  trained          %s: %.0f parameters, %.0f steps, best after %.0f\n",
           json_text(j, "train"), number(j, "parameters"), number(j, "steps"),
           number(j, "best_step"));
    printf("  text             %.0f tokens in windows of %.0f, %.0f held out\n",
           number(j, "tokens"), number(j, "seq_len"), number(j, "held_out_tokens"));
    printf("  held-out KL      %.6f -> %.6f (%.0f%%)\n", before, after,
           before > 0 ? 100 * after / before : 100);
    if (strcmp(json_text(j, "train"), "all") == 0)
        printf("  codes changed    %.2f%%\n", 100 * number(j, "changed"));
    json_decref(j);
    return rc;
}

static enum pith_status work(struct pith_context *context, void *settings, char **report,
                             struct pith_error *err)
{
    return pith_recover(context, &((struct settings *)settings)->q, report, err);
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
    return run_reported(&(struct reported){.common = &s->common,
                                           .settings = s,
                                           .progress = &s->q.progress,
                                           .work = work,
                                           .print = print_report});
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
