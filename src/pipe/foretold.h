/* pipe/foretold.h: whether what a recipe foretold came true. */
#ifndef PITH_PIPE_FORETOLD_H
#define PITH_PIPE_FORETOLD_H

#include "pipe/run.h"

/* Where the recipe says what it expects ("predicted": {"kld"}), measures the divergence of the
 * finished model, in the partial folder, from the original over the first of the calibration
 * windows, at most PITH_FORETOLD_TOKENS: both models block by block, so that one block of each is
 * held. Adds "prediction": {"kld", "measured", "standard_error": over windows, "tokens"} to the
 * account. Nothing to do for other recipes, and where there is no calibration text. */
enum { PITH_FORETOLD_TOKENS = 8192 };
enum pith_status pith_foretold(struct pith_run *r, json_t *account, struct pith_error *err);

#endif
