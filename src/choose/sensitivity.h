/* choose/sensitivity.h: the table that <pith/sensitivity.h> reports. */
#ifndef PITH_CHOOSE_SENSITIVITY_H
#define PITH_CHOOSE_SENSITIVITY_H

#include <pith/quantize.h>

#include "backend/backend.h"
#include "report/report.h"

/* What is tried: grids of matrices, of inputs, and caches; none named: the usual ones. */
struct pith_sensitivity_wish {
    struct pith_list tries, acts, caches;
};
/* o as for quantizing; "<out>.partial" is made next to `out`, and removed. */
enum pith_status pith_sensitivity_find(struct pith_backend *be,
                                       const struct pith_quantize_options *o,
                                       const struct pith_sensitivity_wish *wish,
                                       struct pith_report **report, struct pith_error *err);

#endif
