/* quant/split.h: stage 2, what is kept out of the grid. One row of quant/splits.def a split;
 * `none` keeps nothing out. */
#ifndef PITH_QUANT_SPLIT_H
#define PITH_QUANT_SPLIT_H

#include "base/status.h"
#include "quant/stats.h"

struct pith_split_job {
    uint32_t rows, cols;
    float *w; /* [rows][cols]; what is taken out becomes 0 */
    const struct pith_stats *stats;
    double value; /* of the option */
};
struct pith_split {
    const char *name;
    const char *summary;
    unsigned needs;
    /* NULL: the name takes no option. Else the value of what follows the name and a colon, "" when
     * nothing does; PITH_ARG says what is right. */
    enum pith_status (*option)(const char *text, double *value, struct pith_error *err);
    enum pith_status (*run)(const struct pith_split_job *job, struct pith_error *err);
};
const struct pith_split *const *pith_splits(size_t *count);
const struct pith_split *pith_split_find(const char *name);

#endif
