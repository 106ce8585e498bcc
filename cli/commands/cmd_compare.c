/* pith compare: several models on the same texts and tasks, in one table. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/report.h"

#include <pith/eval.h>
#include <pith/inspect.h>

#include <stddef.h>

struct settings {
    struct common common;
    struct measure_settings measure;
    const char *out, *format;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    OPTION(out_compare, AT(out)),
    OPTION(format_compare, AT(format)),
    MEASURE_OPTIONS,
};

/* Reports each model as it is done. */
struct watcher {
    const struct common *common;
    struct meter *meter;
    size_t done, count;
};

static void on_measured(void *ctx, const char *line)
{
    struct watcher *w = ctx;
    w->done++;
    meter_end(w->meter);
    say(w->common, "%zu of %zu: %s", w->done, w->count, line);
}

/* What was measured, also when not all of it was. */
static int show(const struct settings *s, const struct pith_report *report, bool complete)
{
    struct pith_report_form form = report_form_of_model(&s->common);
    form.table = s->format;
    if (!complete) say(&s->common, "interrupted: what was measured until then");
    const int rc = write_report(&s->common, report, &form);
    return rc == EXIT_DONE && s->out ? write_report_page(&s->common, s->out, "", report) : rc;
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_context *context;
    struct pith_eval_options o;
    struct pith_error err = {0};
    struct meter meter;
    struct pith_report *report = NULL;
    if (s->measure.kvs.count > 1)
        return usage_failure(&s->common, "one --kv for all models; pith eval compares caches");
    if (s->measure.depth && !s->out && !s->common.json)
        return usage_failure(&s->common, "--depth does nothing without -o PAGE.html or --json");
    int rc = measure_check(&s->common, &s->measure);
    if (rc == EXIT_DONE) rc = check_format(&s->common, s->format);
    if (rc == EXIT_DONE) rc = page_check(&s->common, s->out);
    if (rc == EXIT_DONE) rc = look_at_texts(&s->common, &s->measure.texts, s->measure.crlf);
    if (rc == EXIT_DONE) rc = make_context(&s->common, &context);
    if (rc == EXIT_DONE) rc = choose_mode(&s->common, &context, s->measure.mode);
    if (rc != EXIT_DONE) return rc;
    meter_start(&meter, &s->common);
    measure_fill(&s->measure, &o);
    o.details = s->out != NULL;
    o.progress = meter_progress(&meter);
    struct watcher watcher = {&s->common, &meter, 0, operands->count};
    o.summary = on_measured;
    o.summary_ctx = &watcher;
    const struct pith_list models = as_list(operands);
    const enum pith_status status = pith_compare_report(context, &models, &o, &report, &err);
    meter_end(&meter);
    if (status != PITH_OK) rc = report ? EXIT_INTERRUPTED : report_failure(&s->common, &err);
    if (report && !s->common.follows) {
        const int shown = show(s, report, status == PITH_OK);
        if (rc == EXIT_DONE) rc = shown;
    }
    pith_report_free(&report);
    pith_context_free(&context);
    return rc;
}

const struct command command_compare = {
    .name = "compare",
    .summary = "measure several models against the first, in one table",
    .operands = "BASELINE MODEL... --text FILE [options]",
    .examples = "  pith compare Llama-3.2-1B out-awq out-gptq --text wiki.txt\n"
                "  pith compare base a b --text wiki.txt --tasks order.jsonl -o report.html\n",
    .details =
        "The first model is the baseline. A row shows, for each text: perplexity; KL, the mean\n"
        "divergence from the baseline in nats a token; top-1 %, how often both put the same token\n"
        "first; harm, what KL and loss both support (none, slight, clear, severe, unresolved); s,\n"
        "the seconds that it took. For each task: the percentage of right answers; norm, of those\n"
        "picked by log-probability a character. --json has more: intervals, differences,\n"
        "groups.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .min_operands = 2,
    .max_operands = 64,
    .takes_models = true,
    .spreads = true,
    .run = run,
};
