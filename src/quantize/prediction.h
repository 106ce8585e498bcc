/* quantize/prediction.h: the divergence that a recipe predicted, against a measured one. */
#ifndef PITH_QUANTIZE_PREDICTION_H
#define PITH_QUANTIZE_PREDICTION_H

#include "quantize/run.h"

/* Where the recipe states a prediction ("predicted": {"kld"}), measures the divergence of the
 * finished model, in the partial folder, from the original: over the held-out part of the
 * calibration text (job->judge), at most PITH_PREDICTION_TOKENS, and over the first calibration
 * windows, in windows as long, at most PITH_PREDICTION_FITTED; without a held-out part, over the
 * latter alone. Both models go block by block, so that one block of each is in memory. Adds
 * "prediction" to the account: {"kld", "measured", "standard_error": over windows, "tokens",
 * "held_out": whether these three are of held-out tokens, "fitted": {"measured", "standard_error",
 * "tokens"}, "remarks": lines, if there are any: that there was no held-out part, or that held-out
 * tokens lose more than PITH_PREDICTION_APART times what fitted ones do; and that the prediction is
 * above PITH_PREDICTION_COVERED nats a token, where the second order does not suffice
 * (docs/mixed.md)}. Does nothing for other recipes, and without calibration text. */
enum { PITH_PREDICTION_TOKENS = 8192, PITH_PREDICTION_FITTED = 4096 };
#define PITH_PREDICTION_APART 1.3
#define PITH_PREDICTION_COVERED 0.6
enum pith_status pith_prediction_check(struct pith_run *r, json_t *account, struct pith_error *err);

#endif
