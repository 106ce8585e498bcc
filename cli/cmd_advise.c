/* pith advise: which recipe to take, tried and measured. */
#include "cli/command.h"
#include "cli/measure.h"
#include "cli/tables.h"

#include <pith/advise.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* --- what is shown ---------------------------------------------------------------------------- */

enum { OUT_SHOWN = 8 };

static const struct {
    const char *name, *align;
} column[] = {{"", "right"},         {"recipe", "left"},       {"weights", "left"},
              {"cache", "left"},     {"KL", "right"},          {"95% interval", "right"},
              {"foreseen", "right"}, {"in all", "right"},      {"first, s", "right"},
              {"tokens/s", "right"}, {"USD/million", "right"}, {"", "left"}};

static void text_cell(json_t *row, const char *text)
{
    json_array_append_new(row, json_string(text));
}

static void maybe(json_t *row, const json_t *from, const char *key, const char *format)
{
    if (json_is_number(json_object_get(from, key))) table_cell(row, format, json_get(from, key));
    else text_cell(row, "-");
}

static json_t *line_of(const json_t *r, size_t number)
{
    const json_t *quality = json_object_get(r, "quality"),
                 *ci = json_object_get(quality, "kld_ci95");
    json_t *row = json_array();
    char text[64];
    table_cell(row, "%.0f", (double)number);
    text_cell(row, json_text(r, "recipe"));
    text_cell(row, json_text(r, "weights"));
    text_cell(row, json_text(r, "kv"));
    table_cell(row, "%.4f", json_get(quality, "kld"));
    snprintf(text, sizeof text, "%.4f to %.4f", json_number_value(json_array_get(ci, 0)),
             json_number_value(json_array_get(ci, 1)));
    text_cell(row, text);
    maybe(row, quality, "expected", "%.4f");
    snprintf(text, sizeof text, "%.2f GB", json_get(r, "total_bytes") * 1e-9);
    text_cell(row, text);
    maybe(row, r, "first_token_seconds", "%.3g");
    maybe(row, r, "tokens_per_second", "%.4g");
    maybe(row, r, "cost_per_million_tokens", "%.3g");
    text_cell(row, number > 1 && json_is_true(json_object_get(r, "near")) ? "as good" : "");
    return row;
}

static int print_rows(const struct settings *s, const json_t *list)
{
    json_t *names = json_array(), *rows = json_array();
    const json_t *r;
    size_t i;
    for (size_t c = 0; c < sizeof column / sizeof column[0]; c++)
        table_column(names, column[c].name, column[c].align);
    json_array_foreach (list, i, r) json_array_append_new(rows, line_of(r, i + 1));
    return print_table(&s->common, names, rows, NULL);
}

static void print_out(const json_t *out, size_t most)
{
    const json_t *r;
    size_t i;
    if (json_array_size(out)) printf("\nruled out:\n");
    json_array_foreach (out, i, r) {
        const char *kv = json_text(r, "kv");
        if (i == most) {
            printf("  ... and %zu more: --all lists them\n", json_array_size(out) - i);
            break;
        }
        printf("  ");
        print_line(2, 4, "%s%s%s: %s", json_text(r, "recipe"), *kv ? ", " : "", kv,
                   json_text(r, "reason"));
    }
}

/* Names, with commas between them. */
static void join_names(const json_t *names, char *text, size_t size)
{
    const json_t *name;
    size_t i;
    text[0] = '\0';
    json_array_foreach (names, i, name) {
        const size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s", used ? ", " : "", json_string_value(name));
    }
}

/* Which texts recipes were calibrated on, and on which they were measured. */
static void print_texts(const json_t *j)
{
    const json_t *remark;
    char fitted[512], judged[512];
    size_t i;
    join_names(json_object_get(json_object_get(j, "calibration"), "sources"), fitted,
               sizeof fitted);
    join_names(json_object_get(j, "texts"), judged, sizeof judged);
    printf("\n");
    print_line(0, 2, "calibrated on %s; measured on %s", fitted, judged);
    json_array_foreach (json_object_get(j, "remarks"), i, remark)
        print_line(0, 2, "note: %s", json_string_value(remark));
}

static int print_report(void *settings, const char *report)
{
    const struct settings *s = settings;
    int rc = EXIT_DONE;
    json_t *j = read_report(&s->common, report, &rc);
    if (!j) return rc;
    const json_t *rows = json_object_get(j, "rows"), *first = json_array_get(rows, 0),
                 *commands = json_object_get(first, "commands");
    const char *kv = json_text(first, "kv");
    printf("%s%s%s%s%s on %s: ", bold(), json_text(first, "recipe"), plain(),
           strcmp(kv, "bf16") == 0 ? "" : " with a cache of ", strcmp(kv, "bf16") == 0 ? "" : kv,
           json_text(j, "hardware"));
    print_line(2, 2, "%s", json_text(j, "why"));
    if (*json_text(commands, "quantize")) printf("  %s\n", json_text(commands, "quantize"));
    printf("  %s\n\n", json_text(commands, "serve"));
    rc = print_rows(s, rows);
    print_texts(j);
    print_out(json_object_get(j, "ruled_out"), s->all ? SIZE_MAX : OUT_SHOWN);
    json_decref(j);
    return rc;
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

static enum pith_status work(struct pith_context *context, void *settings, char **report,
                             struct pith_error *err)
{
    return pith_advise(context, &((struct settings *)settings)->o, report, err);
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
    return run_reported(&(struct reported){.common = &s->common,
                                           .settings = s,
                                           .progress = &s->o.progress,
                                           .work = work,
                                           .print = print_report});
}

const struct command command_advise = {
    .name = "advise",
    .summary = "which recipe to take for an engine on a GPU, tried and measured",
    .operands = "MODEL --for ENGINE:gpu=NAME [options]",
    .examples =
        "  pith advise Llama-3.2-1B --for vllm:gpu=l4 --context 8k --users 16\n"
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
