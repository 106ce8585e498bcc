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
    struct pith_ranks *ranks;      /* NULL: nobody was joined */
    struct pith_progress progress; /* of calls without their own */
    pith_log_fn *log;              /* may be NULL */
    void *log_ctx;
};

/* A call's own listener, or the context's. */
struct pith_progress pith_context_progress(const struct pith_context *context,
                                           const struct pith_progress *own);
/* Reports to the context's log keys of a model's config.json that are not read and look like one
 * that is, and is missing, so that its default is in use. (A GGUF file has no config.json.) */
void pith_context_look(const struct pith_context *context, const char *model);

/* One line for the context's log: "WHAT: text". */
void pith_context_report(const struct pith_context *context, const char *what, const char *text);
/* The same of each of a list of strings, which may be NULL. */
void pith_context_report_all(const struct pith_context *context, const char *what,
                             const json_t *texts);

/* Ends a call that makes a text: gives it to the caller, or after a failure frees it. Returns s, or
 * PITH_NOMEM, which names `what`, where the text is incomplete. */
enum pith_status pith_text_give(struct pith_str *from, enum pith_status s, const char *what,
                                char **text, struct pith_error *err);
/* The text of a report for the caller, who owns it; takes the reference (NULL counts as out of
 * memory). */
enum pith_status pith_report_text(json_t *report, char **text, struct pith_error *err);

#endif
