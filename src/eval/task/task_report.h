/* eval/task/task_report.h: the JSON of a task's result. */
#ifndef PITH_EVAL_TASK_TASK_REPORT_H
#define PITH_EVAL_TASK_TASK_REPORT_H

#include "base/json.h"
#include "eval/eval.h"

/* A new reference, NULL when memory is out: the keys that docs/measuring.md tells. */
json_t *pith_task_report(const struct pith_task_result *t);

#endif
