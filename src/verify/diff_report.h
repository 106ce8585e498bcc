/* verify/diff_report.h: the report of what differs between two checkpoints. */
#ifndef PITH_VERIFY_DIFF_REPORT_H
#define PITH_VERIFY_DIFF_REPORT_H

#include "num/grid.h"
#include "report/report.h"

/* A part of the model in both; a number that is not known is NaN. */
struct pith_diff_part {
    char *name;                                /* owned */
    char a[PITH_GRID_TEXT], b[PITH_GRID_TEXT]; /* grids, or dtypes */
    bool equal;                                /* to the bit */
    bool rotated, rescaled;                    /* by a transform, as a pith.json says */
    double relative, largest;                  /* ||b - a|| / ||a||; of one value */
    double loss;                               /* at the output, as b's pith.json has it */
};

struct pith_diff_found {
    const char *a, *b; /* models */
    const char *container_a, *container_b;
    json_t *config; /* keys of config.json that differ; borrowed */
    struct pith_diff_part *part;
    size_t count, equal;
};

/* A new report, for pith_report_free(). PITH_NOMEM. */
enum pith_status pith_diff_write(const struct pith_diff_found *f, struct pith_report **report,
                                 struct pith_error *err);

#endif
