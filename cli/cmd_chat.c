/* pith chat: the prompt that a conversation becomes. */
#include "cli/command.h"

#include <pith/chat.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    struct common common;
    const char *render, *chat_template;
};

#define AT(field) offsetof(struct settings, field)
static const struct option options[] = {
    {"render", 0, OPTION_TEXT, AT(render), "FILE",
     "a conversation as JSON: {\"messages\": [...]}, and with it \"tools\", \"documents\", "
     "\"add_generation_prompt\" and other variables of the template; - for standard input"},
    {"chat-template", 0, OPTION_TEXT, AT(chat_template), "FILE",
     "a Jinja template (default: the one that the model ships)"},
};

/* A whole file, at most 64 MiB; NULL, and a message, when it cannot be read. */
static char *read_file(const char *path, struct pith_error *err)
{
    enum { STEP = 1 << 16, MOST = 1 << 26 };
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    char *text = NULL;
    size_t size = 0, got = 1;
    while (f && got > 0) {
        char *more = size > MOST ? NULL : realloc(text, size + STEP + 1);
        if (!more) {
            errno = size > MOST ? EFBIG : ENOMEM;
            break;
        }
        text = more;
        got = fread(text + size, 1, STEP, f);
        size += got;
    }
    const bool good = f && got == 0 && !ferror(f);
    if (!good) {
        err->status = PITH_IO;
        snprintf(err->text, sizeof err->text, "%s: cannot read: %s", path, strerror(errno));
        free(text);
        text = NULL;
    }
    if (f && f != stdin) fclose(f);
    if (!text) return NULL;
    text[size] = '\0';
    if (strlen(text) == size) return text;
    err->status = PITH_FORMAT;
    snprintf(err->text, sizeof err->text, "%s: not valid JSON: it contains a NUL byte", path);
    free(text);
    return NULL;
}

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

static int run(void *settings, const struct text_list *operands)
{
    struct settings *s = settings;
    struct pith_error err = {0};
    struct pith_context *context;
    char *prompt = NULL;
    size_t size = 0;
    if (!s->render) return usage_failure(&s->common, "give --render FILE, a conversation as JSON");
    int rc = make_context(&s->common, &context);
    if (rc != EXIT_DONE) return rc;
    char *text = read_file(s->render, &err);
    if (text && pith_chat_prompt(operands->item[0], s->chat_template, text, &prompt, &size, &err) ==
                    PITH_OK)
        rc = print_prompt(s, prompt, size);
    else rc = report_failure(&s->common, &err);
    pith_text_free(prompt);
    free(text);
    pith_context_free(&context);
    return rc;
}

const struct command command_chat = {
    .name = "chat",
    .summary = "the prompt that a conversation becomes",
    .operands = "MODEL --render FILE [--chat-template FILE]",
    .extra = "--render FILE",
    .examples = "  pith chat model --render conversation.json\n"
                "  echo '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}' |\n"
                "      pith chat model --render -\n",
    .details =
        "Renders the chat template of the model (chat_template.jinja, chat_template in\n"
        "tokenizer_config.json, or the GGUF key tokenizer.chat_template) over a conversation and\n"
        "prints the prompt, byte for byte, and nothing else. MODEL may be a folder with a\n"
        "tokenizer alone. The opening of an answer is there when the conversation says\n"
        "\"add_generation_prompt\": true. To hear an answer: pith run MODEL --chat.\n"
        "Conversations are not held at the terminal.\n",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .settings_size = sizeof(struct settings),
    .min_operands = 1,
    .max_operands = 1,
    .takes_models = true,
    .plain = true,
    .run = run,
};
