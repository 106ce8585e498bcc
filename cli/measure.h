/* cli/measure.h: what eval and compare have in common. */
#ifndef PITH_CLI_MEASURE_H
#define PITH_CLI_MEASURE_H

#include "cli/command.h"

#include <pith/eval.h>

#include <jansson.h>

struct measure_settings {
    struct text_list texts, tasks;
    const char *convention, *mode, *kv;
    size_t context, stride, max_tokens, task_limit;
};

/* Rows of both commands' option tables; OFFSET(field) gives a field's place in the settings. */
#define MEASURE_OPTIONS(OFFSET) \
    {"text", 0, OPTION_LIST, OFFSET(texts), "FILE", "text to score; may repeat"}, \
        {"tasks", \
         0, \
         OPTION_LIST, \
         OFFSET(tasks), \
         "FILE", \
         "multiple choice as JSON lines {\"context\", \"choices\", \"answer\"}; may repeat"}, \
        {"convention",       0,      OPTION_TEXT, \
         OFFSET(convention), "NAME", "gptq, hf or llama.cpp (default gptq)"}, \
        {"context",    0, \
         OPTION_COUNT, OFFSET(context), \
         "N",          "window length (default 2048; llama.cpp: 512; never more than the model's)"}, \
        {"stride",       0,   OPTION_COUNT, \
         OFFSET(stride), "N", "hf: step of the window (default: half of it)"}, \
        {"max-tokens",       0,   OPTION_COUNT, \
         OFFSET(max_tokens), "N", "score at most about N tokens of a text"}, \
        {"task-limit",       0,   OPTION_COUNT, \
         OFFSET(task_limit), "N", "only the first N items of a task"}, \
        {"kv",       0,      OPTION_TEXT, \
         OFFSET(kv), "GRID", "KV-cache format; this version knows none (float32)"}, \
    { \
        "mode", 0, OPTION_TEXT, OFFSET(mode), "MODE", \
            "exact: float32, what the numbers mean (default)" \
    }

/* Refuses what this version does not do; EXIT_DONE or EXIT_USAGE. */
int measure_check(const struct measure_settings *m);
void measure_fill(const struct measure_settings *m, struct pith_eval_options *o);

double json_get(const json_t *j, const char *key);
const char *json_text(const json_t *j, const char *key);

#endif
