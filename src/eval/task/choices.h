/* eval/task/choices.h: what a model makes of the choices of an item. */
#ifndef PITH_EVAL_TASK_CHOICES_H
#define PITH_EVAL_TASK_CHOICES_H

#include "eval/eval.h"
#include "eval/scorer.h"
#include "eval/task/items.h"

/* The choices fork from what their sequences share: that is read once, all that follows in one
 * step, and each row of logits that several choices need is computed once. Where a linear's input
 * has one scale over a whole call, choices are read one by one, as that depends on the cut. */
struct pith_choices {
    struct pith_scorer scorer;
    const struct pith_items *items; /* borrowed */
    int32_t *ids;                /* [longest], then [tails]: a sequence; what choices have alone */
    float *x;                    /* [longest + tails][hidden]: rows that logits are wanted of */
    struct pith_step_span *span; /* [most] */
    size_t *first, *row;         /* [most]: the tokens that are scored begin there; their rows */
    size_t most, tails;          /* of an item: choices; tokens beyond what they share */
};
/* Makes the scorer, with room for the largest item; the scorer's capacity and forks are set here.
 */
enum pith_status pith_choices_init(struct pith_choices *c, const struct pith_items *items,
                                   struct pith_model *model, struct pith_backend *be,
                                   struct pith_scorer_options options, struct pith_error *err);
void pith_choices_free(struct pith_choices *c);
/* Summed log-probability of each choice's tokens, and whether each is the likeliest, into
 * out->score and out->greedy: the same bits however it is read. */
enum pith_status pith_choices_answer(struct pith_choices *c, const struct pith_item *item,
                                     struct pith_task_answers *out, struct pith_error *err);

#endif
