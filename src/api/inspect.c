#include <pith/inspect.h>

#include "api/context.h"
#include "eval/contents.h"
#include "verify/diff.h"

enum pith_status pith_inspect(struct pith_context *context, const char *model, int statistics,
                              char **report, struct pith_error *err)
{
    struct pith_model *m;
    json_t *j = NULL;
    pith_context_look(context, model);
    PITH_TRY(pith_model_open(model, &m, err));
    enum pith_status s = pith_model_load_blocks(m, NULL, err);
    if (s == PITH_OK) s = pith_contents_report(m, statistics != 0, &context->progress, &j, err);
    s = pith_checkpoint_settle(m->checkpoint, false, s, err);
    if (s == PITH_OK) s = pith_report_text(j, report, err);
    else json_decref(j); /* the files changed meanwhile */
    pith_model_close(m);
    return s;
}

enum pith_status pith_diff(struct pith_context *context, const char *a, const char *b,
                           char **report, struct pith_error *err)
{
    const struct pith_diff_job job = {context->backend, context->progress, a, b};
    json_t *j;
    pith_context_look(context, a);
    pith_context_look(context, b);
    PITH_TRY(pith_diff_find(&job, &j, err));
    return pith_report_text(j, report, err);
}
