/* eval/contents.h: what is in a checkpoint: tensors, linears, how their values are spread. */
#ifndef PITH_EVAL_CONTENTS_H
#define PITH_EVAL_CONTENTS_H

#include "base/progress.h"
#include "model/model.h"
#include "report/report.h"

/* *out receives what pith_inspect() reports of a model whose blocks are loaded: for
 * pith_report_free(); NULL on failure. `statistics` reads every value. progress NULL: nobody
 * listens. PITH_NOMEM; PITH_INTERRUPTED. */
enum pith_status pith_contents_report(const struct pith_model *m, bool statistics,
                                      const struct pith_progress *progress,
                                      struct pith_report **out, struct pith_error *err);

#endif
