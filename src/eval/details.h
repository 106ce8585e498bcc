/* eval/details.h: what a page shows beyond the numbers of a report. */
#ifndef PITH_EVAL_DETAILS_H
#define PITH_EVAL_DETAILS_H

#include "eval/profile.h"
#include "model/model.h"
#include "report/report.h"
#include "tok/tokenizer.h"

/* Adds "kld_histogram": {"from": [least divergence of each bin], "counts"} and "worst": [{"at",
 * "kld", "nll_delta", "before", "token", "after", "base_top", "top"}] to the report of a text of
 * these ids. */
enum pith_status pith_details_text(struct pith_report *r, const struct pith_profile *f,
                                   const struct pith_tokenizer *t, const struct pith_ids *ids,
                                   struct pith_error *err);

/* Adds "made" to the report of a model: {"sha256" of its tensors' names and bytes, "container"}
 * and, from its account (pith.json) where there is one at that path, "pith", "recipe", "weights",
 * "round", "acts", "kv", "job", "calibration_tokens", "calibration_sha256", "losses": [{"name",
 * "value"}] and "loss_of": "outputs" (each linear's squared error of its outputs a row) or
 * "weights" (its relative error). */
enum pith_status pith_details_model(struct pith_report *r, const struct pith_model *m,
                                    const char *account_path, struct pith_error *err);

#endif
