/* verify/diff.h: two checkpoints of one shape, part by part, whatever their containers. */
#ifndef PITH_VERIFY_DIFF_H
#define PITH_VERIFY_DIFF_H

#include <pith/progress.h>

#include "backend/backend.h"
#include "base/json.h"

struct pith_diff_job {
    struct pith_backend *backend;
    struct pith_progress progress;
    const char *a, *b; /* models, as they are opened */
};
/* *report receives what pith_diff() reports, a new reference; NULL on failure. PITH_ARG: models of
 * different shapes; statuses of opening and reading them. */
enum pith_status pith_diff_find(const struct pith_diff_job *job, json_t **report,
                                struct pith_error *err);

#endif
