/* pith run: does it still speak? */
#include "cli/command.h"
#include "cli/edit.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/measure.h"
#include "cli/report.h"

#include <pith/generate.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct settings {
    struct common common;
    const char *prompt, *file, *mode, *kv, *chat_template;
    bool chat;
    struct text_list kv_layers;
    size_t tokens, top_k;
    double temperature, top_p;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    OPTION(prompt_run, AT(prompt)),
    OPTION(chat_run, AT(chat)),
    OPTION(chat_template_measure, AT(chat_template)),
    OPTION(tokens_run, AT(tokens)),
    OPTION(temperature, AT(temperature)),
    OPTION(top_p, AT(top_p)),
    OPTION(mode_run, AT(mode)),
    OPTION(top_k, AT(top_k)),
    OPTION(kv, AT(kv)),
    OPTION(kv_layer, AT(kv_layers)),
};

static void defaults(void *settings)
{
    struct settings *s = settings;
    s->tokens = 128;
    s->top_p = 1;
}

static int on_text(void *ctx, const char *piece, size_t size)
{
    const struct settings *s = ctx;
    if (!s->common.json) {
        fwrite(piece, 1, size, stdout);
        fflush(stdout);
    }
    return interrupted();
}

static int check(const struct settings *s)
{
    const char *wrong = NULL;
    struct pith_error err = {0};
    const struct pith_list layers = as_list(&s->kv_layers);
    const int rc = check_given(&s->common);
    if (rc != EXIT_DONE) return rc;
    if (s->top_k > UINT32_MAX) wrong = "--top-k: too large";
    else if (pith_kv_check(s->kv, &err) != PITH_OK) wrong = err.text;
    else if (pith_kv_layers_check(&layers, &err) != PITH_OK) wrong = err.text;
    if (!wrong && s->temperature == 0 && (given(&s->common, "top-p") || given(&s->common, "top-k")))
        wrong = "--top-k and --top-p do nothing at temperature 0, which always takes the likeliest "
                "token; give --temperature";
    if (wrong) return usage_failure(&s->common, "%s", wrong);
    if (s->temperature == 0 && given(&s->common, "seed"))
        say(&s->common, "--seed does nothing at temperature 0, which always takes the likeliest "
                        "token; give --temperature");
    return EXIT_DONE;
}

/* A bad prompt that was read, not given, is no wrong usage; a bad cache that was given is. */
static int report_prompt(const struct settings *s, struct pith_engine *engine,
                         const struct pith_generate_options *o, struct pith_error *err)
{
    struct pith_generate_options alone = *o;
    alone.kv = NULL;
    alone.kv_layers = (struct pith_list){0};
    if (!given(&s->common, "prompt") && err->status == PITH_ARG &&
        pith_generate_check(engine, &alone, NULL) == PITH_ARG)
        err->status = PITH_FORMAT;
    return report_failure(&s->common, err);
}

/* The report as JSON, or what it took in a line on standard error. */
static int show_report(const struct settings *s, const struct pith_report *report)
{
    struct pith_error err = {0};
    char *text = NULL;
    const struct pith_report_form form = report_form_of_model(&s->common);
    if (s->common.json) return write_report(&s->common, report, &form);
    printf("\n");
    fflush(stdout);
    if (s->common.quiet) return EXIT_DONE;
    if (pith_report_write(report, &form, &text, &err) != PITH_OK)
        return report_failure(&s->common, &err);
    fputs(text, stderr);
    pith_text_free(text);
    return EXIT_DONE;
}

/* Continues a prompt; `echo` prints it first, once it is known that it can be continued. */
static int generate(struct settings *s, struct pith_engine *engine, const char *prompt, bool echo)
{
    struct pith_generate_options o;
    struct pith_error err = {0};
    struct pith_report *report;
    pith_generate_defaults(&o);
    o.prompt = prompt;
    o.max_tokens = s->tokens;
    o.temperature = (float)s->temperature;
    o.top_k = (uint32_t)s->top_k;
    o.top_p = (float)s->top_p;
    o.seed = s->common.seed;
    if (s->kv) o.kv = s->kv;
    o.kv_layers = as_list(&s->kv_layers);
    o.chat = s->chat;
    o.chat_template = s->chat_template;
    o.text = on_text;
    o.ctx = s;
    if (pith_generate_check(engine, &o, &err) != PITH_OK) return report_prompt(s, engine, &o, &err);
    if (echo && !s->chat && !s->common.json && !s->common.quiet) fputs(prompt, stdout);
    if (pith_generate_report(engine, &o, &report, &err) != PITH_OK)
        return report_failure(&s->common, &err);
    const int rc = show_report(s, report);
    fflush(stdout);
    pith_report_free(&report);
    return interrupted() ? EXIT_INTERRUPTED : rc;
}

/* Prompt after prompt, typed at a terminal. An answer that is cut off by Ctrl-C, or a prompt that
 * cannot be continued, ends neither. */
static int converse(struct settings *s, struct pith_engine *engine)
{
    struct editor *e = editor_new("> ");
    const char *line;
    enum edited what;
    if (!e) return report_failure(&s->common, &(struct pith_error){.status = PITH_NOMEM});
    if (!s->common.quiet)
        fprintf(stderr, "a line is %s; Ctrl-C cancels, Ctrl-D ends\n",
                s->chat ? "a separate conversation" : "a text to continue");
    while (!interrupt_is_final() && (what = editor_read(e, &line)) != EDIT_END) {
        if (what == EDIT_CANCELLED || !*line) continue;
        (void)generate(s, engine, line, false);
        interrupt_clear();
    }
    putchar('\n');
    editor_free(e);
    return interrupt_is_final() ? EXIT_INTERRUPTED : EXIT_DONE;
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_context *context;
    struct pith_engine *engine = NULL;
    struct pith_error err = {0};
    const bool typed = !s->prompt && !s->common.json && isatty(STDIN_FILENO) &&
                       isatty(STDOUT_FILENO);
    char *input = NULL;
    int rc = check(s);
    if (rc == EXIT_DONE) rc = make_context(&s->common, &context);
    if (rc == EXIT_DONE) rc = choose_mode(&s->common, &context, s->mode);
    if (rc != EXIT_DONE) return rc;
    if (!s->prompt && !typed) s->prompt = input = read_whole("-", "the prompt", &err);
    if (!s->prompt && !typed) {
        rc = report_failure(&s->common, &err);
    } else if (pith_engine_open(context, operands->item[0], &engine, &err) != PITH_OK) {
        rc = report_failure(&s->common, &err);
    } else {
        rc = typed ? converse(s, engine) : generate(s, engine, s->prompt, true);
    }
    free(input);
    pith_engine_close(&engine);
    pith_context_free(&context);
    return rc;
}

const struct command command_run = {
    .name = "run",
    .summary = "continue a text",
    .operands = "MODEL -p TEXT [options]",
    .extra = "-p TEXT",
    .examples = "  pith run out -p \"Once upon a time\" -n 100\n"
                "  pith run out -p \"The sea\" --temperature 0.8 --top-p 0.95 --seed 7\n"
                "  pith run out --chat -p \"Who wrote Faust?\"\n"
                "  printf \"Dear reader,\" | pith run out --quiet\n",
    .details =
        "Prints the prompt and its continuation; with --quiet the continuation alone. A prompt\n"
        "from standard input is taken as it is, with its last line break if it has one. The text\n"
        "ends early where the model ends it, or where the model's context is full. At a terminal,\n"
        "without -p, each line that is typed is continued: lines are edited as in a shell, Ctrl-C\n"
        "cancels a line or an answer, Ctrl-D ends. With --chat the text is one user's message, "
        "and\n"
        "the answer alone is printed, up to the end of its message; what looks like a special\n"
        "token in the message is text.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .min_operands = 1,
    .max_operands = 1,
    .takes_models = true,
    .defaults = defaults,
    .run = run,
};
