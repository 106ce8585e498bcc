/* pith chat: a conversation at the terminal, one message and its answer in a pipe, or the prompt
 * that a conversation becomes. */
#include "cli/command.h"
#include "cli/edit.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/measure.h"
#include "cli/chat/talk.h"

#include <pith/json.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct settings {
    struct common common;
    const char *render, *chat_template, *prompt, *system, *load, *mode, *kv;
    struct text_list kv_layers;
    size_t context;
    bool no_history;
    struct sampling sampling;
};

#define AT(field) offsetof(struct settings, field)
#define SAMPLING(field) (offsetof(struct settings, sampling) + offsetof(struct sampling, field))
static const struct option options[] = {
    OPTION(prompt_chat, AT(prompt)),
    OPTION(system, AT(system)),
    OPTION(load, AT(load)),
    OPTION(tokens_chat, SAMPLING(tokens)),
    OPTION(temperature, SAMPLING(temperature)),
    OPTION(top_p, SAMPLING(top_p)),
    OPTION(top_k, SAMPLING(top_k)),
    OPTION(min_p, SAMPLING(min_p)),
    OPTION(typical, SAMPLING(typical)),
    OPTION(repetition, SAMPLING(repetition)),
    OPTION(frequency, SAMPLING(frequency)),
    OPTION(presence, SAMPLING(presence)),
    OPTION(context_chat, AT(context)),
    OPTION(kv, AT(kv)),
    OPTION(kv_layer, AT(kv_layers)),
    OPTION(mode, AT(mode)),
    OPTION(chat_template, AT(chat_template)),
    OPTION(no_history, AT(no_history)),
    OPTION(render, AT(render)),
};
enum { OPTIONS = sizeof options / sizeof options[0] };

static void defaults(void *settings)
{
    struct settings *s = settings;
    s->sampling = (struct sampling){.top_p = 1, .typical = 1, .repetition = 1};
    s->mode = "fast";
}

/* --- --render --------------------------------------------------------------------------------- */

static int print_prompt(const struct settings *s, const char *prompt, size_t size)
{
    if (s->common.json) {
        json_t *j = json_pack("{s:s%}", "prompt", prompt, size);
        if (!j) return report_failure(&s->common, &(struct pith_error){.status = PITH_NOMEM});
        json_dumpf(j, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(j);
    } else {
        fwrite(prompt, 1, size, stdout);
    }
    return EXIT_DONE;
}

/* Says so where a conversation has tools that its template does not know. */
static void note_tools(const struct settings *s, const char *model, const char *text)
{
    struct pith_reply_format *format = NULL;
    json_t *j = NULL;
    (void)pith_tree_read(text, strlen(text), "a conversation", &j, NULL);
    if (json_array_size(json_object_get(j, "tools")) > 0 &&
        pith_reply_format_open(model, s->chat_template, &format, NULL) == PITH_OK &&
        strcmp(pith_reply_format_name(format), "described") == 0)
        say(&s->common, "the chat template knows no tools: they are described in the system "
                        "message (docs/chat.md)");
    pith_reply_format_close(&format);
    json_decref(j);
}

static int render(const struct settings *s, const char *model)
{
    struct pith_error err = {0};
    char *prompt = NULL;
    size_t size = 0;
    char *text = read_whole(s->render, NULL, &err);
    const int rc = text && pith_chat_prompt(model, s->chat_template, text, &prompt, &size, &err) ==
                               PITH_OK
                       ? print_prompt(s, prompt, size)
                       : report_failure(&s->common, &err);
    if (rc == EXIT_DONE) note_tools(s, model, text);
    pith_text_free(prompt);
    free(text);
    return rc;
}

/* --- one message ------------------------------------------------------------------------------ */

static int print_messages(const struct talk *t)
{
    const struct spoken *a = &t->last;
    const struct pith_usage *u = &a->usage;
    json_t *j = json_pack("{s:s, s:s*, s:s, s:I, s:I, s:I, s:f, s:f}", "content",
                          a->content ? a->content : "", "reasoning", a->reasoning, "finish_reason",
                          a->finish, "prompt_tokens", (json_int_t)u->prompt, "cached_tokens",
                          (json_int_t)u->cached, "generated_tokens", (json_int_t)u->generated,
                          "seconds_first", u->first, "seconds", u->seconds);
    if (!j) return report_failure(t->common, &(struct pith_error){.status = PITH_NOMEM});
    json_dumpf(j, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(j);
    return EXIT_DONE;
}

/* An answer that was cut: by --tokens, or because the context is full. */
static bool is_cut_by_tokens(const struct talk *t)
{
    return t->sampling.tokens && t->last.usage.generated >= t->sampling.tokens;
}

static int answer_once(struct talk *t, const char *message)
{
    struct pith_error err = {.status = PITH_FORMAT, .text = "the message: not UTF-8"};
    if (!talk_add(t, "user", message)) return report_failure(t->common, &err);
    err = (struct pith_error){.status = PITH_OK};
    const enum answered how = talk_ask(t, &err);
    if (how == ANSWER_FAILED) return report_failure(t->common, &err);
    const int rc = t->common->json ? print_messages(t) : EXIT_DONE;
    if (how == ANSWERED && strcmp(t->last.finish, "length") == 0)
        say(t->common, "%s",
            is_cut_by_tokens(t) ? "the answer is cut by --tokens"
                                : "the answer is cut: the context is full");
    return how == ANSWER_STOPPED ? EXIT_INTERRUPTED : rc;
}

/* --- at the terminal -------------------------------------------------------------------------- */

/* Requests the answer and adds it; without one, the message is removed. */
static void ask(struct talk *t)
{
    struct pith_error err = {0};
    const enum answered how = talk_ask(t, &err);
    interrupt_clear();
    if (how == ANSWER_STOPPED) puts("[stopped]");
    if (how == ANSWER_FAILED) (void)report_failure(t->common, &err);
    else if (strcmp(t->last.finish, "length") == 0 && is_cut_by_tokens(t))
        puts("[cut by --tokens]");
    else if (strcmp(t->last.finish, "length") == 0)
        puts("[cut: the context is full; /undo or /reset makes room]");
    if (!talk_keep(t)) {
        talk_cut(t, json_array_size(t->messages) - 1);
        say(t->common, "there is no answer: the message was taken back");
    }
}

/* What is typed, line by line. */
struct message {
    char *text;
    size_t size, lines;
    bool block; /* between two """ */
    bool nomem;
};

static void add_line(struct message *m, const char *line, size_t size)
{
    char *more = realloc(m->text, m->size + size + 2);
    if (!more) {
        m->nomem = true;
        return;
    }
    m->text = more;
    if (m->lines++ > 0) m->text[m->size++] = '\n';
    memcpy(m->text + m->size, line, size);
    m->size += size;
    m->text[m->size] = '\0';
}

/* Takes a line in; true when the message goes on in the next. */
static bool take_line(struct message *m, const char *line, bool first)
{
    static const char quotes[] = "\"\"\"";
    if (first && strncmp(line, quotes, 3) == 0) {
        m->block = true;
        line += 3;
        if (!*line) return true;
    }
    const size_t size = strlen(line);
    if (!m->block) {
        const bool more = size > 0 && line[size - 1] == '\\';
        add_line(m, line, size - more);
        return more;
    }
    const bool closes = size >= 3 && strcmp(line + size - 3, quotes) == 0;
    if (!closes || size > 3 || m->lines == 0) add_line(m, line, closes ? size - 3 : size);
    return !closes;
}

/* What is typed up to the end of a message; *empty: Ctrl-C, and nothing was. */
static enum edited read_message(struct editor *e, struct message *m, bool *empty)
{
    const char *line = "";
    enum edited what = EDIT_LINE;
    bool first = true, more = true;
    *m = (struct message){.text = NULL};
    *empty = false;
    for (; more && !m->nomem; first = false) {
        editor_prompt(e, first ? "> " : ". ");
        what = editor_read(e, &line);
        *empty = first && what == EDIT_CANCELLED && !*line;
        if (what != EDIT_LINE) break;
        more = take_line(m, line, first);
    }
    return m->nomem ? EDIT_END : what;
}

static int converse(struct talk *t, struct editor *e)
{
    bool end = false, empty = false;
    int rc = EXIT_DONE;
    while (!end) {
        struct message m;
        const enum edited what = read_message(e, &m, &empty);
        if (what == EDIT_END || (what == EDIT_CANCELLED && empty)) end = true;
        if (what == EDIT_CANCELLED && empty) rc = EXIT_INTERRUPTED;
        if (what == EDIT_LINE && m.size > 0) {
            enum talk_next next = TALK_ASKS;
            if (m.text[0] == '/' && !m.block) next = talk_command(t, m.text);
            else if (!talk_add(t, "user", m.text)) {
                fputs("pith: that is not UTF-8\n", stderr);
                next = TALK_GOES_ON;
            }
            if (next == TALK_ASKS) ask(t);
            end = next == TALK_ENDS;
        }
        end |= interrupt_is_final();
        free(m.text);
    }
    if (rc == EXIT_DONE) putchar('\n');
    return interrupt_is_final() ? EXIT_INTERRUPTED : rc;
}

static int at_terminal(struct talk *t, bool history)
{
    struct editor *e = editor_new("> ");
    if (!e) return report_failure(t->common, &(struct pith_error){.status = PITH_NOMEM});
    char *path = history ? history_path() : NULL;
    if (path) (void)editor_remember(e, path);
    say(t->common, "/help lists commands; Ctrl-C stops an answer, Ctrl-D ends");
    const int rc = converse(t, e);
    free(path);
    editor_free(e);
    return rc;
}

/* --- the whole -------------------------------------------------------------------------------- */

static const char *wrong_sampling(const struct settings *s)
{
    static const char *const random[] = {"top-p", "top-k", "min-p", "typical"};
    static char text[160];
    const struct sampling *a = &s->sampling;
    if (a->top_k > UINT32_MAX) return "--top-k: too large";
    if (a->temperature > 0) return NULL;
    for (size_t i = 0; i < sizeof random / sizeof random[0]; i++) {
        if (!given(&s->common, random[i])) continue;
        snprintf(text, sizeof text,
                 "--%s does nothing at temperature 0, which always takes the likeliest token; give "
                 "--temperature",
                 random[i]);
        return text;
    }
    return NULL;
}

static int check(const struct settings *s, bool typed)
{
    struct pith_error err = {0};
    const struct pith_list layers = as_list(&s->kv_layers);
    const char *wrong = wrong_sampling(s);
    for (size_t i = 0; s->render && i < OPTIONS; i++) {
        const char *name = options[i].row->name;
        if (given(&s->common, name) && strcmp(name, "render") != 0 &&
            strcmp(name, "chat-template") != 0)
            return usage_failure(&s->common, "--%s does nothing with --render", name);
    }
    const int rc = check_given(&s->common);
    if (rc != EXIT_DONE) return rc;
    if (!wrong && s->prompt && !*s->prompt) wrong = "--prompt: it is empty";
    if (!wrong && given(&s->common, "context") && s->context < 2) wrong = "--context: at least 2";
    if (!wrong && s->no_history && !typed)
        wrong =
            "--no-history does nothing without a terminal: history is stored at a terminal alone";
    if (!wrong && pith_kv_check(s->kv, &err) != PITH_OK) wrong = err.text;
    if (!wrong && pith_kv_layers_check(&layers, &err) != PITH_OK) wrong = err.text;
    if (wrong) return usage_failure(&s->common, "%s", wrong);
    if (s->sampling.temperature == 0 && given(&s->common, "seed"))
        say(&s->common, "--seed does nothing at temperature 0, which always takes the likeliest "
                        "token; give --temperature");
    return EXIT_DONE;
}

static enum pith_status open_talk(const struct settings *s, struct pith_engine *engine,
                                  const char *model, struct talk *t, struct pith_error *err)
{
    struct pith_service_options o;
    pith_service_defaults(&o);
    o.sequences = 1;
    o.context = s->context;
    o.kv = s->kv;
    o.kv_layers = as_list(&s->kv_layers);
    o.chat_template = s->chat_template;
    enum pith_status status = pith_reply_format_open(model, s->chat_template, &t->format, err);
    if (status == PITH_OK) status = pith_service_open(engine, &o, &t->service, err);
    if (status == PITH_OK && s->load && !talk_load(t, s->load, err)) status = err->status;
    if (status == PITH_OK && s->system && !talk_system(t, s->system)) {
        *err = (struct pith_error){.status = PITH_FORMAT, .text = "--system: not UTF-8"};
        status = err->status;
    }
    return status;
}

/* A message from standard input, without its last line break; NULL, and an error, when there is
 * none. */
static char *read_input(struct pith_error *err)
{
    char *text = read_whole("-", "the message", err);
    const size_t size = text ? strlen(text) : 0;
    if (size > 0 && text[size - 1] == '\n') text[size - 1] = '\0';
    if (!text || *text) return text;
    free(text);
    *err = (struct pith_error){.status = PITH_FORMAT,
                               .text = "the message from standard input is empty"};
    return NULL;
}

static int talk(struct settings *s, const char *model, struct pith_context *context, bool typed)
{
    struct talk t = {.common = &s->common, .sampling = s->sampling, .messages = json_array()};
    struct pith_engine *engine = NULL;
    struct pith_error err = {.status = PITH_OK};
    char *message = NULL;
    int rc = EXIT_DONE;
    if (!typed && !s->prompt && isatty(STDIN_FILENO)) say(&s->common, "a message, and then Ctrl-D");
    if (!typed && !s->prompt) message = read_input(&err);
    if (!typed && !s->prompt && !message) rc = report_failure(&s->common, &err);
    if (rc == EXIT_DONE && (pith_engine_open(context, model, &engine, &err) != PITH_OK ||
                            open_talk(s, engine, model, &t, &err) != PITH_OK))
        rc = report_failure(&s->common, &err);
    if (rc == EXIT_DONE)
        rc = typed ? at_terminal(&t, !s->no_history)
                   : answer_once(&t, s->prompt ? s->prompt : message);
    free(message);
    spoken_free(&t.last);
    json_decref(t.messages);
    pith_service_close(&t.service);
    pith_reply_format_close(&t.format);
    pith_engine_close(&engine);
    return rc;
}

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_context *context;
    const bool typed = !s->prompt && !s->common.json && isatty(STDIN_FILENO) &&
                       isatty(STDOUT_FILENO);
    int rc = check(s, typed);
    if (rc == EXIT_DONE) rc = make_context(&s->common, &context);
    if (rc == EXIT_DONE) rc = choose_mode(&s->common, &context, s->mode);
    if (rc != EXIT_DONE) return rc;
    rc = s->render ? render(s, operands->item[0]) : talk(s, operands->item[0], context, typed);
    pith_context_free(&context);
    return rc;
}

const struct command command_chat = {
    .name = "chat",
    .summary = "talk with a model at the terminal",
    .operands = "MODEL [-p TEXT] [options]",
    .extra = "-p TEXT",
    .examples = "  pith chat out --system \"Be brief.\" --temperature 0.7\n"
                "  echo \"Who wrote Faust?\" | pith chat out\n"
                "  pith chat out --kv int8:token --load talk.json\n"
                "  pith chat model --render conversation.json\n",
    .details =
        "Messages are put into the chat template of the model (chat_template.jinja,\n"
        "chat_template in tokenizer_config.json, or the GGUF key tokenizer.chat_template). At a\n"
        "terminal lines are edited as in a shell, and stored for the next time; a line that ends "
        "in\n"
        "\\ goes on in the next, and so does all between two \"\"\"; /help lists commands, /save,\n"
        "/regen and /undo among them. Ctrl-C stops an answer; its text so far stays. Reasoning is\n"
        "dimmed. What is written into a pipe is the answer alone, without reasoning. With\n"
        "--render the prompt is printed, byte for byte, and nothing else; MODEL may then be a\n"
        "folder with a tokenizer alone, and the opening of an answer is there when the\n"
        "conversation says \"add_generation_prompt\": true.\n",
    .options = options,
    .option_count = OPTIONS,
    .settings_size = sizeof(struct settings),
    .min_operands = 1,
    .max_operands = 1,
    .takes_models = true,
    .defaults = defaults,
    .run = run,
};
