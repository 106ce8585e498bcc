/* quantize/ranks/planned_machines.h: what quantizing a model would take on machines that are not
 * there. */
#ifndef PITH_QUANTIZE_RANKS_PLANNED_MACHINES_H
#define PITH_QUANTIZE_RANKS_PLANNED_MACHINES_H

#include <pith/plan.h>

#include "report/report.h"

/* What pith_plan_quantize() reports, with options as they are given to it, of which none is
 * missing; NULL on failure. */
enum pith_status pith_quantize_plan(const struct pith_plan_quantize_options *o,
                                    struct pith_report **report, struct pith_error *err);

#endif
