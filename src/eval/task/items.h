/* eval/task/items.h: the questions of a task as ids, ready to be scored. */
#ifndef PITH_EVAL_TASK_ITEMS_H
#define PITH_EVAL_TASK_ITEMS_H

#include "eval/task/questions.h"
#include "tok/tokenizer.h"

/* One sequence: prompt and choice; the ids from `score_from` on are the choice's. There are none
 * when the choice merges with the end of the prompt into no more tokens than that has alone. The
 * ids are `shared` ones that begin with ids[head], those of the item's first choice, then those
 * that begin with ids[tail]. */
struct pith_item_choice {
    size_t head, shared, tail;
    size_t length;
    size_t score_from; /* > 0 */
    size_t characters; /* of the choice */
};

struct pith_item {
    size_t line;         /* in the file, from 1 */
    size_t first, count; /* in choices */
    size_t answer;       /* < count */
    size_t subject;      /* of the source */
    size_t question;     /* in the source's questions */
    bool shortened;      /* a sequence was too long and lost tokens in front */
};

struct pith_items {
    const struct pith_task_source *source; /* borrowed */
    struct pith_item *item;
    size_t count, item_cap;
    struct pith_item_choice *choice;
    size_t choices, choice_cap;
    struct pith_ids ids;
    size_t longest; /* tokens of the longest sequence */
};

struct pith_item_rules {
    const char *path; /* in messages */
    const struct pith_tokenizer *tokenizer;
    size_t shots;                         /* examples in front of each */
    size_t max_length;                    /* tokens that the model reads at most */
    const struct pith_progress *progress; /* receives each question, may stop it; NULL: nobody */
    const struct pith_chat *chat;         /* what makes a conversation of each prompt; NULL: none */
};

/* Of a form with PITH_TASK_GENERATED the one choice is the prompt alone, as it stands and short
 * enough for the answer (free_answers.h) to follow; nothing of it is scored.
 *
 * Encodes all questions of a source. A prompt is the subject's introduction (if any), the
 * examples, the question; white space at its end belongs to the choice; prompt and choice are
 * encoded together and split after as many tokens as the prompt has alone, BOS in front where
 * the tokenizer has one. With a chat template the introduction is the system message, examples are
 * messages of user and assistant, the question is the last message, and choices follow the
 * template's opening of an answer without a delimiter: as the harness does (apply_chat_template,
 * fewshot_as_multiturn), whose second attempt without the system message is made, too, where a
 * template refuses one. The last token of a sequence is only predicted,
 * so max_length + 1 are possible. PITH_FORMAT names path and line of a question that is too
 * long, when its form says that it is not shortened or the choice alone is; PITH_ARG when there
 * are not so many examples. On failure *out owns nothing. */
enum pith_status pith_items_make(const struct pith_task_source *source,
                                 const struct pith_item_rules *rules, struct pith_items *out,
                                 struct pith_error *err);
/* The length ids of a choice, one after the other. */
void pith_items_sequence(const struct pith_items *items, const struct pith_item_choice *c,
                         int32_t *out);
/* Frees what *items owns and zeroes it. */
void pith_items_free(struct pith_items *items);

#endif
