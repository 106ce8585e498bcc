/* pith bench: how fast, and how near the machine's limits; with --serve, of a server. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/tables.h"
#include "cli/traffic.h"

#include <pith/bench.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* ", f32 489 GFLOP/s", ", int8 1.95 TOP/s" at the end of text. */
static void add_peak(char text[256], const json_t *roof, const char *key, const char *unit)
{
    const double x = json_get(roof, key);
    const size_t used = strlen(text);
    if (x <= 0) return;
    if (x >= 1e12) snprintf(text + used, 256 - used, ", %s %.2f T%s/s", key, x * 1e-12, unit);
    else snprintf(text + used, 256 - used, ", %s %.0f G%s/s", key, x * 1e-9, unit);
}

static void print_head(const json_t *j)
{
    const json_t *roof = json_object_get(j, "roof");
    const char *model = json_text(j, "model");
    char peak[32], own[32] = "", time[32], text[256];
    const size_t column = print_subject(model, sizeof ": 16.000 bits");
    printf(": ");
    print_line(column + 2, 2,
               "%.3f bits per weight, %s mode, KV cache %s%s, kernels %s, threads %d",
               json_get(j, "bits_per_weight"), json_text(j, "mode"), json_text(j, "kv"),
               json_object_get(j, "kv_layers") ? " (not all layers)" : "", json_text(j, "cpu"),
               (int)json_get(j, "threads"));
    format_bytes(json_get(j, "memory_peak"), peak);
    format_seconds(json_get(j, "load_seconds"), time);
    if (json_get(j, "memory_own_expected") > 0)
        format_bytes(json_get(j, "memory_own_expected"), own);
    printf("  loaded in %s, peak memory %s%s%s%s\n  ", time, peak,
           *own ? " (allocated, as estimated: " : "", own, *own ? ")" : "");
    snprintf(text, sizeof text, "machine: reads %.1f GB/s (one thread %.1f)",
             json_get(roof, "read") * 1e-9, json_get(roof, "read_one_thread") * 1e-9);
    add_peak(text, roof, "f32", "FLOP");
    add_peak(text, roof, "int8", "OP");
    add_peak(text, roof, "bf16", "FLOP");
    print_line(2, 11, "%s", text);
    printf("\n");
}

struct shown {
    double unit;
    int digits;
    char note[96];
};

/* The three columns of a spread, and what is to be said of it; below where the terminal is too
 * narrow. */
static void print_spread(const char *what, const json_t *s, const struct shown *how)
{
    const size_t width = terminal_width(STDOUT_FILENO);
    const size_t column = (size_t)printf("%-28s %10.*f %10.*f %10.*f", what, how->digits,
                                         json_get(s, "median") * how->unit, how->digits,
                                         json_get(s, "least") * how->unit, how->digits,
                                         json_get(s, "most") * how->unit);
    const bool fits = !width || column + 3 + text_columns(how->note) <= width;
    printf("%s%s\n", fits ? "   " : "\n  ", how->note);
}

/* "a token reads 12.0 MB: weights 10.0, KV cache 2.0 (at depth 5)" */
static void print_bytes(const json_t *j, const json_t *of, const char *key, const char *more)
{
    printf("  ");
    print_line(2, 4, "a %s reads %.1f MB: weights %.1f, KV cache %.1f (at depth %d)%s",
               strcmp(key, "bytes_per_step") == 0 ? "step" : "token", json_get(of, key) * 1e-6,
               json_get(of, "weight_bytes") * 1e-6, json_get(of, "kv_bytes") * 1e-6,
               (int)json_get(j, "depth"), more);
}

static void print_decode(const json_t *j, const json_t *decode)
{
    struct shown how = {1, 2, ""};
    char what[64];
    snprintf(what, sizeof what, "decode %d, tokens/s", (int)json_get(decode, "tokens"));
    snprintf(how.note, sizeof how.note, "%.1f%% of the bandwidth",
             100 * json_get(json_object_get(decode, "fraction_of_bandwidth"), "median"));
    print_spread(what, json_object_get(decode, "tokens_per_second"), &how);
    print_bytes(j, decode, "bytes_per_token", "");
}

static void print_many(const json_t *j, const json_t *many)
{
    struct shown how = {1, 2, ""};
    char what[64], room[32], more[64];
    snprintf(what, sizeof what, "%d sequences, tokens/s", (int)json_get(many, "sequences"));
    snprintf(how.note, sizeof how.note, "%.2f times one, %.1f%% of the bandwidth",
             json_get(json_object_get(many, "times_one"), "median"),
             100 * json_get(json_object_get(many, "fraction_of_bandwidth"), "median"));
    print_spread(what, json_object_get(many, "tokens_per_second"), &how);
    format_bytes(json_get(many, "cache_bytes"), room);
    snprintf(more, sizeof more, "; the cache takes %s", room);
    print_bytes(j, many, "bytes_per_step", more);
}

static void print_report(const json_t *j)
{
    const json_t *prefill = json_object_get(j, "prefill"), *decode = json_object_get(j, "decode"),
                 *many = json_object_get(j, "decode_many");
    char what[64];
    print_head(j);
    printf("%-28s %10s %10s %10s\n", "", "median", "least", "most");
    if (prefill) {
        struct shown first = {1e3, 1, ""}, rate = {1, 2, ""};
        snprintf(first.note, sizeof first.note, "%.1f the first time",
                 json_get(prefill, "cold_first_token_seconds") * 1e3);
        print_spread("first token, ms", json_object_get(prefill, "first_token_seconds"), &first);
        snprintf(what, sizeof what, "prefill %d, tokens/s", (int)json_get(prefill, "tokens"));
        snprintf(rate.note, sizeof rate.note, "%.1f%% of the %s peak%s",
                 100 * json_get(json_object_get(prefill, "fraction_of_peak"), "median"),
                 json_text(prefill, "peak"),
                 json_get(prefill, "byte_products") > 1 ? ", three products each" : "");
        print_spread(what, json_object_get(prefill, "tokens_per_second"), &rate);
    }
    if (decode) print_decode(j, decode);
    if (many) print_many(j, many);
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
    char *report = NULL;
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
    const enum pith_status status = pith_bench(context, &s->b, &report, &err);
    meter_end(&meter);
    if (status != PITH_OK) rc = report_failure(&s->common, &err);
    else rc = give_report(&s->common, report, print_report);
    if (report && strstr(report, "\"head_kept\": true"))
        say(&s->common, "--head does nothing: the head of this model is its embedding");
    pith_text_free(report);
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
        "is asked over HTTP as --clients, --rate or --trace say, and its streams are timed: the\n"
        "first token, each further one, the whole. The same seed asks the same at the same times.\n"
        "Lengths of --prompt and --gen are a number, or one of these, perhaps with ,min=N,max=N:\n"
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
