/* pith eval: perplexity, divergence from a baseline, tasks. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/tables.h"

#include <pith/eval.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Where values stand. */
enum { INDENT = 19 };

/* What the interval of the loss difference says, when the harm does not say it already.
 * "Indistinguishable" is left to texts that show it: the harm may be plain though a few windows
 * make no interval. */
static const char *loss_word(const json_t *t)
{
    const char *verdict = json_text(t, "verdict"), *harm = json_text(t, "harm");
    if (strcmp(verdict, "indistinguishable") != 0 || strcmp(harm, "none") == 0) return verdict;
    return strcmp(harm, "unresolved") == 0 ? "" : "not resolved by so few windows";
}

/* ", 95% interval A to B" at the end of text, or nothing. */
static void add_interval(char text[128], const json_t *ci, int digits, bool sign)
{
    if (!json_is_real(json_array_get(ci, 0))) return;
    for (size_t i = 0; i < 2; i++) {
        const double x = json_number_value(json_array_get(ci, i));
        const size_t used = strlen(text);
        snprintf(text + used, 128 - used, sign ? "%s%+.*f" : "%s%.*f",
                 i ? " to " : ", 95% interval ", digits, x);
    }
}

static void print_baseline(const json_t *t)
{
    const json_t *ci = json_object_get(t, "nll_delta_ci95");
    if (!json_object_get(t, "kld_mean")) return;
    const char *harm = json_text(t, "harm");
    /* "unresolved by this text: ...", not "unresolved: not resolved by ...". */
    static const char again[] = "not resolved";
    const char *reason = json_text(t, "harm_reason");
    const bool says = strncmp(reason, again, strlen(again)) == 0;
    printf("  harm             %s%s%s%s", bold(), harm, plain(), says ? "" : ": ");
    if (says) reason += strlen(again);
    print_wrapped(reason, INDENT + strlen(harm) + (says ? 0 : 2), INDENT, prose_width());
    char text[128];
    snprintf(text, sizeof text, "%.6f mean", json_get(t, "kld_mean"));
    add_interval(text, json_object_get(t, "kld_ci95"), 6, false);
    printf("  KL divergence    ");
    print_line(INDENT, INDENT, "%s", text);
    snprintf(text, sizeof text, "%.6f median, %.5f at 99%%", json_get(t, "kld_median"),
             json_get(t, "kld_p99"));
    add_interval(text, json_object_get(t, "kld_p99_ci95"), 5, false);
    printf("%*s", INDENT, "");
    print_line(INDENT, INDENT, "%s", text);
    printf("  same top token   %.2f%%\n", 100 * json_get(t, "top1_agreement"));
    snprintf(text, sizeof text, "%+.5f nats a token", json_get(t, "nll_delta"));
    add_interval(text, ci, 5, true);
    const char *word = loss_word(t);
    printf("  loss difference  ");
    print_line(INDENT, INDENT, "%s%s%s%s", text,
               json_is_real(json_array_get(ci, 0)) ? "" : ", no interval from a single window",
               *word ? ": " : "", word);
}

/* A line for each part of the window, with a bar as long as its KL (or loss) beside the most. */
static void print_depth(const json_t *t, const char *key, const char *title)
{
    static const char bar[] = "########################################";
    const json_t *depth = json_object_get(t, "depth"), *d;
    const size_t beside = 42, width = terminal_width(STDOUT_FILENO);
    size_t longest = sizeof bar - 1, i;
    double most = 0;
    if (width > beside && width - beside < longest) longest = width - beside;
    json_array_foreach (depth, i, d)
        if (json_get(d, key) > most) most = json_get(d, key);
    if (json_array_size(depth)) printf("  %-13s  %10s  %s\n", "positions", "loss", title);
    json_array_foreach (depth, i, d) {
        char range[48];
        const double part = most > 0 ? json_get(d, key) / most : 0;
        snprintf(range, sizeof range, "%d-%d", (int)json_get(d, "from"),
                 (int)json_get(d, "to") - 1);
        printf("  %-13s  %10.4f  %-10.6f  %.*s\n", range, json_get(d, "nll"), json_get(d, key),
               (int)(part * (double)longest + 0.5), bar);
    }
}

static void print_depth_of(const json_t *t)
{
    const bool paired = json_object_get(t, "kld_mean");
    print_depth(t, paired ? "kld" : "nll", paired ? "KL" : "");
}

/* A line of a name and what is said of it. */
static void print_about(const char *name, const char *what)
{
    print_subject(name, text_columns(what));
    puts(what);
}

static void print_report(const json_t *j)
{
    char size[32], time[32], how[128];
    const char *engine;
    const json_t *t;
    json_t *flags;
    size_t i;
    format_bytes(json_get(j, "bytes"), size);
    snprintf(how, sizeof how, ": %s, %.3f bits per weight%s%s", size,
             json_get(j, "bits_per_weight"), *json_text(j, "attn") ? ", attention in " : "",
             json_text(j, "attn"));
    print_about(json_text(j, "model"), how);
    json_object_foreach (json_object_get(j, "engines"), engine, flags)
        printf("  in %-13s %s\n", engine, json_string_value(flags));
    json_array_foreach (json_object_get(j, "texts"), i, t) {
        format_seconds(json_get(t, "seconds"), time);
        snprintf(how, sizeof how, " (%s convention, context %d)", json_text(t, "convention"),
                 (int)json_get(t, "context"));
        print_about(json_text(t, "text"), how);
        printf("  perplexity       %.4f", json_get(t, "perplexity"));
        if (json_is_real(json_object_get(t, "perplexity_se")))
            printf(" +/- %.4f", json_get(t, "perplexity_se"));
        printf(" (loss %.5f nats a token)\n", json_get(t, "nll"));
        print_baseline(t);
        printf("  scored           %d tokens in %d windows, %s\n", (int)json_get(t, "tokens"),
               (int)json_get(t, "windows"), time);
        print_depth_of(t);
    }
    json_array_foreach (json_object_get(j, "tasks"), i, t) print_task(t);
    if (json_object_get(j, "prompts")) print_prompts(json_object_get(j, "prompts"));
}

/* One text's rows, a cache each. */
static json_t *cache_rows(const json_t *report, size_t text)
{
    json_t *rows = json_array();
    const json_t *m;
    size_t i;
    json_array_foreach (json_object_get(report, "models"), i, m) {
        const json_t *t = json_array_get(json_object_get(m, "texts"), text);
        if (i == 0 || !t) continue;
        json_t *row = json_array(), *ci = json_object_get(t, "kld_ci95");
        char interval[64] = "";
        if (json_is_real(json_array_get(ci, 0)))
            snprintf(interval, sizeof interval, "%.6f to %.6f",
                     json_number_value(json_array_get(ci, 0)),
                     json_number_value(json_array_get(ci, 1)));
        json_array_append_new(row, json_string(json_text(m, "kv")));
        table_cell(row, "%.2f", json_get(m, "kv_bits"));
        table_cell(row, "%.4f", json_get(t, "perplexity"));
        table_cell(row, "%.6f", json_get(t, "kld_mean"));
        json_array_append_new(row, json_string(interval));
        table_cell(row, "%+.5f", json_get(t, "nll_delta"));
        table_cell(row, "%.2f%%", 100 * json_get(t, "top1_agreement"));
        json_array_append_new(row, json_string(json_text(t, "harm")));
        json_array_append_new(rows, row);
    }
    return rows;
}

static void print_cache_tasks(const json_t *report)
{
    const json_t *m, *t;
    size_t i, k;
    json_array_foreach (json_object_get(report, "models"), i, m) {
        if (i > 0 && json_array_size(json_object_get(m, "tasks")))
            printf("%s%s%s\n", bold(), json_text(m, "kv"), plain());
        json_array_foreach (json_object_get(m, "tasks"), k, t)
            if (i > 0) print_task(t);
    }
}

static void print_cache_depths(const json_t *report, size_t text)
{
    const json_t *m;
    size_t i;
    json_array_foreach (json_object_get(report, "models"), i, m) {
        const json_t *t = json_array_get(json_object_get(m, "texts"), text);
        if (i > 0 && json_object_get(t, "depth")) {
            printf("%s%s%s\n", bold(), json_text(m, "kv"), plain());
            print_depth_of(t);
        }
    }
}

/* Several caches: a table for each text. */
static int print_caches(const struct common *common, const char *text)
{
    static const char *const names[] = {"KV cache",     "bits", "perplexity", "KL",
                                        "95% interval", "loss", "top 1",      "harm"};
    json_t *report = json_loads(text, 0, NULL);
    const json_t *first = json_array_get(json_object_get(report, "models"), 0), *t;
    int rc = EXIT_DONE;
    size_t i;
    json_array_foreach (json_object_get(first, "texts"), i, t) {
        json_t *columns = json_array();
        for (size_t c = 0; c < sizeof names / sizeof names[0]; c++)
            table_column(columns, names[c], c == 0 || c == 4 || c == 7 ? "left" : "right");
        char how[96];
        snprintf(how, sizeof how, " (context %d, cache f32: perplexity %.4f)",
                 (int)json_get(t, "context"), json_get(t, "perplexity"));
        print_about(json_text(t, "text"), how);
        rc = print_table(common, columns, cache_rows(report, i), NULL);
        print_cache_depths(report, i);
    }
    print_cache_tasks(report);
    json_decref(report);
    return rc;
}

/* Every cache against one pass of the baseline, which is the model itself where none is named. */
static enum pith_status compare_caches(const struct settings *s, struct pith_context *context,
                                       const char *model, const struct pith_eval_options *o,
                                       char **report, struct pith_error *err)
{
    const struct text_list *kvs = &s->measure.kvs;
    const char **list = malloc((kvs->count + 1) * sizeof *list);
    if (!list) return PITH_NOMEM;
    list[0] = s->baseline ? s->baseline : model;
    for (size_t i = 0; i < kvs->count; i++) list[i + 1] = model;
    const struct pith_list models = {.item = list, .count = kvs->count + 1};
    const enum pith_status status = pith_compare(context, &models, o, report, err);
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
    char *report = NULL;
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
                : pith_eval(context, &o, &report, &err);
    meter_end(&meter);
    if (status != PITH_OK) rc = report_failure(&s->common, &err);
    else if (s->common.follows) rc = EXIT_DONE;
    else if (several && !s->common.json) rc = print_caches(&s->common, report);
    else rc = give_report(&s->common, report, s->signals ? print_signals : print_report);
    pith_text_free(report);
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
