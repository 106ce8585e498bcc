/* eval/speed/rates_report.h: how fast products and attention are on this machine, as
 * plan/hardware/kernels.h reads it. */
#ifndef PITH_EVAL_SPEED_RATES_REPORT_H
#define PITH_EVAL_SPEED_RATES_REPORT_H

#include <pith/quantize.h>

#include "backend/backend.h"
#include "base/json.h"

/* *kernels receives an array of {"grid" | "cache" | "rest", "rows", "seconds"}, a new reference;
 * NULL on failure. `weights` are grids in addition to 16 bits, `caches` formats of a cache (none:
 * bf16). PITH_ARG: a name that means nothing; PITH_NOMEM. */
enum pith_status pith_rates_report(struct pith_backend *be, const struct pith_list *weights,
                                   const struct pith_list *caches, json_t **kernels,
                                   struct pith_error *err);

#endif
