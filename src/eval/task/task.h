/* eval/task/task.h: what a model makes of the items of a task, choice by choice. */
#ifndef PITH_EVAL_TASK_TASK_H
#define PITH_EVAL_TASK_TASK_H

#include "eval/eval.h"
#include "eval/task/items.h"

/* Opens the source of a job and encodes it. Both are the caller's to free, after success. */
enum pith_status pith_task_items(const struct pith_task_job *job, struct pith_task_source *source,
                                 struct pith_items *items, struct pith_error *err);
/* What `model` (job->model or job->baseline) makes of the choices; *out is the caller's to free,
 * after success. Progress counts done .. done + items of `total`. */
enum pith_status pith_task_answer(const struct pith_task_job *job, struct pith_model *model,
                                  const struct pith_items *items, size_t done, size_t total,
                                  struct pith_task_answers *out, struct pith_error *err);

#endif
