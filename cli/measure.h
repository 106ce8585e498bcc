/* cli/measure.h: what the commands that measure have in common. */
#ifndef PITH_CLI_MEASURE_H
#define PITH_CLI_MEASURE_H

#include "cli/command.h"

#include <pith/eval.h>

struct measure_settings {
    struct text_list texts, tasks;
    const char *prompts;  /* NULL in commands that have no such option */
    struct text_list kvs; /* caches; several with eval only */
    struct text_list kv_layers;
    bool depth, run_code, chat;
    const char *convention, *mode, *crlf, *attn, *chat_template;
    size_t context, stride, max_tokens, task_limit, shots, length, seed;
};

/* The options of the topic, for a table of options; AT(): where a member of the settings is. */
#define MEASURE_OPTIONS                                                                            \
    OPTION(text_measure, AT(measure.texts)), OPTION(crlf_measure, AT(measure.crlf)),               \
        OPTION(tasks, AT(measure.tasks)), OPTION(shots, AT(measure.shots)),                        \
        OPTION(chat_measure, AT(measure.chat)),                                                    \
        OPTION(chat_template_measure, AT(measure.chat_template)),                                  \
        OPTION(convention, AT(measure.convention)), OPTION(context_measure, AT(measure.context)),  \
        OPTION(stride, AT(measure.stride)), OPTION(max_tokens_measure, AT(measure.max_tokens)),    \
        OPTION(task_limit, AT(measure.task_limit)), OPTION(run_code, AT(measure.run_code)),        \
        OPTION(length, AT(measure.length)), OPTION(seed_measure, AT(measure.seed)),                \
        OPTION(kv_measure, AT(measure.kvs)), OPTION(kv_layer, AT(measure.kv_layers)),              \
        OPTION(attn, AT(measure.attn)), OPTION(depth_measure, AT(measure.depth)),                  \
        OPTION(mode_measure, AT(measure.mode))

/* Refuses options that make no sense, or do nothing; EXIT_DONE or EXIT_USAGE. */
int measure_check(const struct common *common, const struct measure_settings *m);
/* Refuses an unknown --format, and one with --json. */
int check_format(const struct common *common, const char *format);
void measure_fill(const struct measure_settings *m, struct pith_eval_options *o);

/* Looks through texts before the work begins: EXIT_FAILED when one is not UTF-8, EXIT_USAGE for a
 * wrong --crlf. Where lines end in CR LF and `crlf` does not say what to do, a warning. */
int look_at_texts(const struct common *common, const struct text_list *texts, const char *crlf);

/* What a page says of its making; the command as it could be typed again. */
struct page_making {
    char date[64], version[80], command[4096];
};
void find_making(struct page_making *m);
/* Reports before the work that a page cannot be written there; an old page stays as it is. A
 * NULL path is fine. */
int page_check(const struct common *common, const char *path);
/* Writes it and frees html. */
int page_write(const struct common *common, const char *path, char *html);

#endif
