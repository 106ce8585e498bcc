#include <pith/recover.h>

#include "api/context.h"
#include "api/options.h"
#include "api/report.h"
#include "recover/recover.h"

static const struct pith_recover_options defaults = {
    .train = "scales",
    .steps = "auto",
    .tokens = 131072,
    .seq_len = 512,
    .batch = 2,
    .rate = 1,
};

void pith_recover_defaults_sized(struct pith_recover_options *o, size_t size)
{
    pith_options_give(o, size, &defaults, sizeof defaults);
}

enum pith_status pith_recover_report(struct pith_context *c,
                                     const struct pith_recover_options *given,
                                     struct pith_report **report, struct pith_error *err)
{
    *report = NULL; /* stays so where another rank has it */
    PITH_OPTIONS(pith_recover_options, o, defaults, given, err);
    if (!o->model || !o->original)
        return pith_fail(err, PITH_ARG, "a quantized model and its original are needed");
    if (!o->train || !o->steps) return pith_fail(err, PITH_ARG, "train and steps are needed");
    struct pith_recover_options all = *o;
    all.progress = pith_context_progress(c, &o->progress);
    pith_context_look(c, o->original);
    return pith_recover_model(c->backend, &all, report, err);
}

enum pith_status pith_recover(struct pith_context *c, const struct pith_recover_options *given,
                              char **report, struct pith_error *err)
{
    struct pith_report *r = NULL;
    return pith_report_give(&r, pith_recover_report(c, given, &r, err), report, err);
}
