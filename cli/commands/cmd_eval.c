/* pith eval: perplexity, divergence from a baseline, tasks. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/report.h"

#include <pith/eval.h>

#include <stdlib.h>

struct settings {
    struct common common;
    struct measure_settings measure;
    const char *baseline;
    bool signals;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    OPTION(baseline, AT(baseline)),
    OPTION(prompts, AT(measure.prompts)),
    OPTION(signals, AT(signals)),
    MEASURE_OPTIONS,
};

/* Every cache against one pass of the baseline, which is the model itself where none is named. */
static enum pith_status compare_caches(const struct settings *s, struct pith_context *context,
                                       const char *model, const struct pith_eval_options *o,
                                       struct pith_report **report, struct pith_error *err)
{
    const struct text_list *kvs = &s->measure.kvs;
    const char **list = malloc((kvs->count + 1) * sizeof *list);
    if (!list) return PITH_NOMEM;
    list[0] = s->baseline ? s->baseline : model;
    for (size_t i = 0; i < kvs->count; i++) list[i + 1] = model;
    const struct pith_list models = {.item = list, .count = kvs->count + 1};
    const enum pith_status status = pith_compare_report(context, &models, o, report, err);
    free(list);
    return status;
}

static int check_caches(const struct settings *s)
{
    if (s->measure.kvs.count < 2) return EXIT_DONE;
    if (s->signals || s->measure.prompts)
        return usage_failure(&s->common, "several --kv are compared on texts and tasks: no "
                                         "--signals, no --prompts with them");
    return EXIT_DONE;
}

static int check_signals(const struct settings *s)
{
    if (s->measure.prompts && !s->baseline)
        return usage_failure(&s->common, "--prompts needs --baseline MODEL");
    if (s->signals && !s->baseline)
        return usage_failure(&s->common, "--signals needs --baseline MODEL");
    return EXIT_DONE;
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_context *context;
    struct pith_eval_options o;
    struct pith_error err = {0};
    struct meter meter;
    struct pith_report *report = NULL;
    pith_return_memory();
    int rc = measure_check(&s->common, &s->measure);
    if (rc == EXIT_DONE) rc = check_signals(s);
    if (rc == EXIT_DONE) rc = check_caches(s);
    if (rc == EXIT_DONE) rc = look_at_texts(&s->common, &s->measure.texts, s->measure.crlf);
    if (rc == EXIT_DONE) rc = make_context(&s->common, &context);
    if (rc == EXIT_DONE) rc = choose_mode(&s->common, &context, s->measure.mode);
    if (rc != EXIT_DONE) return rc;
    meter_start(&meter, &s->common);
    measure_fill(&s->measure, &o);
    o.model = operands->item[0];
    o.baseline = s->baseline;
    o.progress = meter_progress(&meter);
    const bool several = s->measure.kvs.count > 1;
    const enum pith_status status =
        several ? compare_caches(s, context, operands->item[0], &o, &report, &err)
                : pith_eval_report(context, &o, &report, &err);
    meter_end(&meter);
    if (status != PITH_OK) {
        rc = report_failure(&s->common, &err);
    } else if (!s->common.follows) {
        struct pith_report_form form = report_form_of_model(&s->common);
        form.brief = s->signals;
        rc = write_report(&s->common, report, &form);
    }
    pith_report_free(&report);
    pith_context_free(&context);
    return rc;
}

const struct command command_eval = {
    .name = "eval",
    .summary = "measure perplexity, tasks, and the distance from a baseline",
    .operands = "MODEL --text FILE [options]",
    .examples = "  pith eval out --text wiki.test.raw --convention llama.cpp\n"
                "  pith eval out --baseline Llama-3.2-1B --text wiki.txt --context 2048\n"
                "  pith eval out --tasks models/probe/tasks/order.jsonl --json\n"
                "  pith eval out --text wiki.txt --kv fp8_e4m3 --kv int8:token --kv k=q8_0,v=q4_0\n"
                "  pith eval out --baseline base --tasks mmlu --shots 5 --tasks arc_easy.jsonl\n"
                "  pith eval out --baseline base --signals --text wiki.txt --tasks mmlu \\\n"
                "      --prompts mine.txt\n",
    .details =
        "Published perplexities differ by convention:\n"
        "  gptq       disjoint windows of --context tokens, all but the first of each scored\n"
        "  hf         a window moved by --stride, the new tokens scored\n"
        "  llama.cpp  disjoint windows, first token replaced by BOS, second half scored\n"
        "  bos        as gptq, first token replaced by BOS where the tokenizer adds one\n"
        "Harm is what KL and loss both support: none, slight, clear, severe; or unresolved, with\n"
        "the number of tokens that would do. docs/measuring.md has the limits.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .min_operands = 1,
    .max_operands = 1,
    .takes_models = true,
    .spreads = true,
    .run = run,
};
