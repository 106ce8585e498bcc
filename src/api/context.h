/* api/context.h: what the opaque handles of include/pith are made of. */
#ifndef PITH_API_CONTEXT_H
#define PITH_API_CONTEXT_H

#include <pith/context.h>

#include "backend/backend.h"
#include "base/json.h"
#include "base/pool.h"

struct pith_context {
    struct pith_pool *pool;
    struct pith_backend *backend;
};

/* The text of a report for the caller, who owns it; takes the reference (NULL counts as out of
 * memory). */
enum pith_status pith_report_text(json_t *report, char **text, struct pith_error *err);

#endif
