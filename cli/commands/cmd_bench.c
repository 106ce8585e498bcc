/* pith bench: how fast, and how near the machine's limits; with --serve, of a server. */
#include "cli/command.h"
#include "cli/report.h"
#include "cli/traffic.h"

#include <pith/bench.h>

#include <stdint.h>

struct settings {
    struct common common;
    struct pith_bench_options b;
    struct text_list kv_layers;
    const char *prompt, *gen;
    struct traffic_settings traffic;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    OPTION(prompt_bench, AT(prompt)),
    OPTION(gen_bench, AT(gen)),
    OPTION(depth_bench, AT(b.depth)),
    OPTION(sequences, AT(b.sequences)),
    OPTION(reps, AT(b.reps)),
    OPTION(kv, AT(b.kv)),
    OPTION(kv_layer, AT(kv_layers)),
    OPTION(mode_bench, AT(b.mode)),
    OPTION(weights_bench, AT(b.weights)),
    OPTION(head, AT(b.head)),
    TRAFFIC_OPTIONS,
};

static void defaults(void *settings)
{
    struct settings *s = settings;
    pith_bench_defaults(&s->b);
    traffic_defaults(&s->traffic);
}

/* --- what is measured ------------------------------------------------------------------------- */

/* Options that say nothing of a model, or of a server. */
static int check_options(const struct settings *s)
{
    const bool serve = s->traffic.o.url != NULL;
    for (size_t i = 0; serve && i < sizeof options / sizeof options[0]; i++) {
        const struct option_row *row = options[i].row;
        const bool both = row == &option_rows[ROW_prompt_bench] ||
                          row == &option_rows[ROW_gen_bench];
        if (!both && !row->needs && row != &option_rows[ROW_serve] && given(&s->common, row->name))
            return usage_failure(&s->common, "--%s does nothing with --serve: the server has it",
                                 row->name);
    }
    return check_given(&s->common);
}

/* A number for the model's timing, where the text of a distribution would do for a server. */
static int take_count(const struct settings *s, const char *name, const char *text, size_t *out)
{
    uint64_t n;
    if (!text) return EXIT_DONE;
    if (!pith_number_parse(text, &n) || n > SIZE_MAX)
        return usage_failure(&s->common, "--%s %s: expected a whole number, such as 512 or 128k",
                             name, text);
    *out = (size_t)n;
    return EXIT_DONE;
}

static int bench_model(struct settings *s, const char *model)
{
    struct pith_context *context;
    struct pith_error err = {0};
    struct meter meter;
    struct pith_report *report = NULL;
    pith_return_memory();
    s->b.model = model;
    s->b.seed = s->common.seed;
    s->b.kv_layers = as_list(&s->kv_layers);
    int rc = take_count(s, "prompt", s->prompt, &s->b.prompt);
    if (rc == EXIT_DONE) rc = take_count(s, "gen", s->gen, &s->b.gen);
    if (rc != EXIT_DONE) return rc;
    if (pith_bench_check(&s->b, &err) != PITH_OK) return report_usage(&s->common, &err);
    rc = make_context(&s->common, &context);
    if (rc == EXIT_DONE) rc = choose_mode(&s->common, &context, s->b.mode);
    if (rc != EXIT_DONE) return rc;
    meter_start(&meter, &s->common);
    s->b.progress = meter_progress(&meter);
    const enum pith_status status = pith_bench_report(context, &s->b, &report, &err);
    meter_end(&meter);
    const struct pith_report_form form = report_form(&s->common, false);
    if (status != PITH_OK) rc = report_failure(&s->common, &err);
    else rc = write_report(&s->common, report, &form);
    if (pith_report_remark(report)) say(&s->common, "%s", pith_report_remark(report));
    pith_report_free(&report);
    pith_context_free(&context);
    return rc;
}

/* Of several processes the first: clients are shared, a model's timing is not. */
static int bench_alone(struct settings *s, const char *model)
{
    if (has_others(&s->common)) s->common.ranks = "none";
    return bench_model(s, model);
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    const int rc = check_options(s);
    if (rc != EXIT_DONE) return rc;
    if (!s->traffic.o.url && operands->count == 0)
        return usage_failure(&s->common, "an argument is missing: MODEL, or --serve URL\n"
                                         "usage: pith bench MODEL [options]\n"
                                         "Try 'pith bench --help'.");
    if (!s->traffic.o.url) return is_first() ? bench_alone(s, operands->item[0]) : EXIT_DONE;
    if (operands->count > 0)
        return usage_failure(&s->common, "%s: with --serve no MODEL is named: the server has it",
                             operands->item[0]);
    return traffic_run(&s->common, &s->traffic, s->prompt, s->gen);
}

const struct command command_bench = {
    .name = "bench",
    .summary = "time prompts and generation against what the machine can do",
    .operands = "MODEL | --serve URL [options]",
    .examples = "  pith bench out\n"
                "  pith bench out --depth 4096 --gen 32 --reps 3\n"
                "  pith bench out --prompt 0 --depth 2048 --kv int8:token --sequences 16\n"
                "  pith bench Llama-3.2-1B --weights int4:g128 --prompt 0 --json\n"
                "  pith bench --serve http://127.0.0.1:8080 --clients 1,4,16 --ignore-eos\n"
                "  pith bench --serve http://127.0.0.1:8080 --rate 2 --duration 60 \\\n"
                "      --prompt lognormal:256:0.7,max=2048 -o page.html\n",
    .details =
        "The machine's limits are measured in the same run, before and after each prompt and\n"
        "generation: how fast it reads memory, and how many multiply-adds a second it makes.\n"
        "Decoding is compared with the former, prompts with the latter. docs/performance.md\n"
        "says how to read the result.\n"
        "\n"
        "With --serve no model is loaded: a server of OpenAI's API (pith serve, llama-server, "
        "vLLM)\n"
        "gets requests over HTTP by --clients, --rate or --trace, and its streams are timed: the\n"
        "first token, each further one, the whole. The same seed makes the same requests at\n"
        "the same times. Lengths of --prompt and --gen are a number, or one of these, perhaps\n"
        "with ,min=N,max=N:\n"
        "  uniform:LOW:HIGH       each from LOW to HIGH alike\n"
        "  normal:MEAN:DEVIATION  a bell around MEAN\n"
        "  lognormal:MEDIAN:SIGMA as people write: half below MEDIAN, few far above\n"
        "  exponential:MEAN       many short ones, few long ones\n"
        "  either:N:N...          one of these, each as often\n"
        "Several ranks (mpirun -n 4 pith bench --serve ...) share requests and clients.\n"
        "docs/serving.md says what the numbers mean.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .defaults = defaults,
    .min_operands = 0,
    .max_operands = 1,
    .takes_models = true,
    .spreads = true,
    .run = run,
};
