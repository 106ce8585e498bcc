/* choose/auto.h: the recipe that -r auto means: of each linear the grid that together lose least
 * within a budget, by their sensitivities (choose/sense.h) and the solver of plan/assign.h. */
#ifndef PITH_CHOOSE_AUTO_H
#define PITH_CHOOSE_AUTO_H

#include <pith/quantize.h>

#include "backend/backend.h"
#include "base/json.h"
#include "choose/auto_clock.h"
#include "num/grid.h"

#define PITH_AUTO_RECIPE "recipe.json"

/* Whether the options request it. */
bool pith_auto_requested(const struct pith_quantize_options *o);
/* Whether what they say of it makes sense: PITH_ARG. */
enum pith_status pith_auto_check(const struct pith_quantize_options *o, struct pith_error *err);
/* The same options with what stands for "auto" while no budget is looked at: a recipe of its stages
 * on one of its grids. Texts are static, the options', or in `first`. */
struct pith_quantize_options pith_auto_base(const struct pith_quantize_options *o,
                                            char first[PITH_GRID_TEXT]);

/* Finds the recipe and writes it to a file of that name in `folder`, which is made; nothing to do,
 * with `resume`, when it is there. It is a recipe like any, with "linears" and "predicted":
 * {"budget", "kld", "bits": a weight of the layers' linears, "bytes": of these, "bound": no
 * assignment within the budget has a smaller sum than that, "exact", "tokens", "draw":
 * {"tokens", "seq_len"} that were requested of the text, "round": which rounder that is of; the
 * recipe's own may lose less, "tried": [{"transform", "kld", "bits"}]}.
 * Transforms come first: of each of choose/candidates.def sensitivities are measured and the
 * assignment solved, the least prediction (of --max-kl: the least bytes) wins. A transform is
 * judged by the grids that were found without one. PITH_LIMIT when even the smallest grids need
 * more. The clock, which has replaced the options' listener, goes on to the stage of the run. With
 * several ranks all make the call, and each has its own file of what rank 0 chose.
 */
enum pith_status pith_auto_find(struct pith_backend *be, const struct pith_quantize_options *o,
                                const char *folder, struct pith_auto_clock *clock,
                                struct pith_error *err);
/* That file, pith_free() it; NULL when memory is out. */
char *pith_auto_recipe(const struct pith_backend *be, const char *folder);

#endif
