/* eval/contents.h: what is in a checkpoint: tensors, linears, how their values are spread. */
#ifndef PITH_EVAL_CONTENTS_H
#define PITH_EVAL_CONTENTS_H

#include "base/json.h"
#include "base/progress.h"
#include "model/model.h"

/* *out receives what pith_inspect() reports of a model whose blocks are loaded: a new reference,
 * NULL on failure. `statistics` reads every value. progress NULL: nobody listens. PITH_NOMEM;
 * PITH_INTERRUPTED. */
enum pith_status pith_contents_report(const struct pith_model *m, bool statistics,
                                      const struct pith_progress *progress, json_t **out,
                                      struct pith_error *err);

#endif
