/* eval/task/task_report.h: a task's result in reports. */
#ifndef PITH_EVAL_TASK_TASK_REPORT_H
#define PITH_EVAL_TASK_TASK_REPORT_H

#include "eval/eval.h"
#include "report/report.h"

/* Adds the keys that docs/measuring.md lists, to an object that is open. */
void pith_task_set(struct pith_report *r, const struct pith_task_result *t);
/* Adds its text. */
void pith_task_say(struct pith_report *r, const struct pith_task_result *t);

#endif
