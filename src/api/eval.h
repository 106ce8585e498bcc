/* api/eval.h: what pith_compare() measures, for other calls. */
#ifndef PITH_API_EVAL_H
#define PITH_API_EVAL_H

#include <pith/eval.h>

#include "api/context.h"
#include "eval/results.h"

/* Measures at least two models, the first of which is the baseline, into out[models], which is
 * zeroed; after a failure, too, the caller frees each with pith_results_free(). A model that is not
 * done has no name. `o` has its defaults and the context's progress, and no caches or one for each
 * model but the first. `folder`: NULL, or one that is there, where the baseline's logits may take
 * up to 2 GiB a text, so that they are computed once. Statuses as of pith_compare(). */
enum pith_status pith_compare_measure(struct pith_context *context, const struct pith_list *models,
                                      const struct pith_eval_options *o, const char *folder,
                                      struct pith_results *out, struct pith_error *err);

#endif
