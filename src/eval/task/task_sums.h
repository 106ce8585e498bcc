/* eval/task/task_sums.h: accuracies and their differences from what models made of the choices. */
#ifndef PITH_EVAL_TASK_TASK_SUMS_H
#define PITH_EVAL_TASK_TASK_SUMS_H

#include "eval/eval.h"
#include "eval/task/items.h"

/* All borrowed. */
struct pith_task_sums {
    const struct pith_task_source *source;
    const struct pith_items *items;
    const struct pith_task_answers *model, *baseline; /* [items->choices]; baseline NULL: none */
};

/* The index, among its choices, of what an item is answered with: the largest score, or the largest
 * score a character; the first of equals. */
size_t pith_task_pick(const struct pith_items *items, const struct pith_item *item,
                      const struct pith_task_answers *answers, bool normalized);

/* Fills all figures of *out and its groups; on failure *out has no groups. */
enum pith_status pith_task_sum(const struct pith_task_sums *sums, struct pith_task_result *out,
                               struct pith_error *err);

#endif
