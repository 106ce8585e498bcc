#include <pith/inspect.h>

#include "api/context.h"
#include "api/report.h"
#include "eval/contents.h"
#include "verify/diff.h"

enum pith_status pith_inspect_report(struct pith_context *context, const char *model,
                                     int statistics, struct pith_report **report,
                                     struct pith_error *err)
{
    struct pith_model *m;
    *report = NULL;
    pith_context_look(context, model);
    PITH_TRY(pith_model_open(model, &m, err));
    enum pith_status s = pith_model_load_blocks(m, NULL, err);
    if (s == PITH_OK) s = pith_contents_report(m, statistics != 0, &context->progress, report, err);
    s = pith_checkpoint_settle(m->checkpoint, false, s, err);
    if (s != PITH_OK) pith_report_free(report); /* the files changed meanwhile */
    pith_model_close(m);
    return s;
}

enum pith_status pith_inspect(struct pith_context *context, const char *model, int statistics,
                              char **report, struct pith_error *err)
{
    struct pith_report *r = NULL;
    const enum pith_status s = pith_inspect_report(context, model, statistics, &r, err);
    return pith_report_give(&r, s, report, err);
}

enum pith_status pith_diff_report(struct pith_context *context, const char *a, const char *b,
                                  struct pith_report **report, struct pith_error *err)
{
    const struct pith_diff_job job = {context->backend, context->progress, a, b};
    pith_context_look(context, a);
    pith_context_look(context, b);
    return pith_diff_find(&job, report, err);
}

enum pith_status pith_diff(struct pith_context *context, const char *a, const char *b,
                           char **report, struct pith_error *err)
{
    struct pith_report *r = NULL;
    const enum pith_status s = pith_diff_report(context, a, b, &r, err);
    return pith_report_give(&r, s, report, err);
}
