/* eval/task/free_answers.h: tasks whose answers a model generates: it continues the prompt with the
 * likeliest tokens, and the text of the reply is judged. */
#ifndef PITH_EVAL_TASK_FREE_ANSWERS_H
#define PITH_EVAL_TASK_FREE_ANSWERS_H

#include "eval/eval.h"
#include "eval/scorer.h"
#include "eval/task/items.h"

struct pith_phrase {
    const char *text;
    size_t size;
};
/* The question, its choice, and the model's reply. */
struct pith_answer {
    struct pith_phrase prompt, target, reply;
};
struct pith_judged {
    bool right;    /* by the form's rule */
    bool flexible; /* by a looser rule */
};

/* How answers to a form of tasks.def are generated and judged. */
struct pith_saying {
    const char *form;
    unsigned tokens;     /* at most */
    const char *stop[6]; /* texts that end it and are no part of it; the rest NULL */
    bool flexible;       /* there is a looser rule */
    enum pith_status (*judge)(const struct pith_answer *a, struct pith_judged *out,
                              struct pith_error *err);
    bool (*whole)(const char *reply, size_t n); /* whether nothing more can count, or NULL */
};
/* Of a form with PITH_TASK_GENERATED. */
const struct pith_saying *pith_saying_of(const struct pith_task_form *form);
/* Whether a form's answers may be judged. Programs are run where that is wished and where they can
 * do no harm (sandbox.h): PITH_ARG with the path, PITH_UNSUPPORTED. */
enum pith_status pith_saying_may(const struct pith_task_form *form, const char *path, bool run_code,
                                 struct pith_error *err);

/* A model that answers; all borrowed but the last four. */
struct pith_speaker {
    const struct pith_task_job *job;
    const struct pith_items *items;
    const struct pith_saying *how;
    struct pith_scorer scorer;
    int32_t *ids;                /* [scorer.capacity] */
    struct pith_str text, piece; /* the reply, without what ends it */
};
/* `model` is job->model or job->baseline. On failure *s owns nothing. */
enum pith_status pith_speaker_open(struct pith_speaker *s, const struct pith_task_job *job,
                                   struct pith_model *model, const struct pith_items *items,
                                   struct pith_error *err);
void pith_speaker_close(struct pith_speaker *s);
/* s->text becomes the answer to an item. PITH_NUMERIC: logits are not finite. */
enum pith_status pith_speaker_say(struct pith_speaker *s, const struct pith_item *item,
                                  struct pith_error *err);

/* Answers an item: out->greedy[first] is whether the answer is right, out->score[first] 1 or 0 by
 * the looser rule. */
enum pith_status pith_speaker_answer(struct pith_speaker *s, const struct pith_item *item,
                                     struct pith_task_answers *out, struct pith_error *err);

#endif
