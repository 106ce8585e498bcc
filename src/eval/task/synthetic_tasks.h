/* eval/task/synthetic_tasks.h: tasks without a file, about something that stands at a depth of a
 * long context: the kinds that passkey retrieval (Mohtashami and Jaggi 2023) and RULER (Hsieh et
 * al. 2024) use, in other words. Made from a seed, for any tokenizer, at any length. */
#ifndef PITH_EVAL_TASK_SYNTHETIC_TASKS_H
#define PITH_EVAL_TASK_SYNTHETIC_TASKS_H

#include "eval/task/questions.h"

enum {
    PITH_MADE_DEPTHS = 11,  /* 0%, 10% ... 100%: a subject each */
    PITH_MADE_ITEMS = 10,   /* of a depth, where no limit is given */
    PITH_MADE_LENGTH = 4096 /* tokens, where no length is given, or the model's context if less */
};

/* "needle", or "needle:8192" with its own length, which *length receives. NULL when path is
 * neither; a number that is none leaves NULL too. */
const struct pith_task_form *pith_made_find(const char *path, size_t *length);
/* The i-th name, NULL behind the last. */
const char *pith_made_name(size_t i);

/* The questions of such a task. Prompt and choice have at most wish->length tokens (0: see above),
 * BOS counted, and hardly fewer. An item depends on seed, length, tokenizer, task, depth and its
 * index, not on the limit. Without a tokenizer nothing is made and *out has no subjects. PITH_ARG:
 * too short for its content, longer than the model reads, examples wanted. On
 * failure *out owns nothing. */
enum pith_status pith_made_open(const struct pith_task_wish *wish, struct pith_task_source *out,
                                struct pith_error *err);

#endif
