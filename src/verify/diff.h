/* verify/diff.h: two checkpoints of one shape, part by part, whatever their containers. */
#ifndef PITH_VERIFY_DIFF_H
#define PITH_VERIFY_DIFF_H

#include <pith/progress.h>
#include <pith/report.h>

#include "backend/backend.h"

struct pith_diff_job {
    struct pith_backend *backend;
    struct pith_progress progress;
    const char *a, *b; /* models, as they are opened */
};
/* *report receives what pith_diff() reports, for pith_report_free(); NULL on failure. PITH_ARG:
 * models of different shapes; statuses of opening and reading them. */
enum pith_status pith_diff_find(const struct pith_diff_job *job, struct pith_report **report,
                                struct pith_error *err);

#endif
