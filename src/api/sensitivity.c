#include <pith/sensitivity.h>

#include "api/context.h"
#include "api/options.h"
#include "api/report.h"
#include "choose/auto.h"
#include "choose/sensitivity.h"
#include "quantize/job.h"
#include "quantize/output/work_folder.h"
#include "tok/text_input.h"

static const struct pith_sensitivity_options defaults = {
    .calib_tokens = 16384,
    .seq_len = 512,
};

void pith_sensitivity_defaults_sized(struct pith_sensitivity_options *o, size_t size)
{
    pith_options_give(o, size, &defaults, sizeof defaults);
}

enum pith_status pith_sensitivity_report(struct pith_context *c,
                                         const struct pith_sensitivity_options *given,
                                         struct pith_report **report, struct pith_error *err)
{
    *report = NULL; /* stays so where another rank has it */
    PITH_OPTIONS(pith_sensitivity_options, o, defaults, given, err);
    if (!o->model || !o->work)
        return pith_fail(err, PITH_ARG, "a model and a folder to work in are needed");
    struct pith_newlines newlines;
    PITH_TRY(pith_newlines_read(o->crlf, &newlines, err));
    char first[PITH_GRID_TEXT];
    struct pith_quantize_options all;
    pith_quantize_defaults(&all);
    all.model = o->model;
    all.out = o->work;
    all.round = o->round;
    all.container = o->container;
    all.tries = o->tries;
    if (o->recipe) all.recipe = o->recipe;
    else all = pith_auto_base(&all, first);
    all.tries = (struct pith_list){0};
    /* What stands for the grids that are tried has to fit any model. */
    if (!o->recipe && !o->container) all.weights = "int8:channel";
    all.targets = o->targets;
    all.calib = o->calib;
    all.crlf = o->crlf;
    all.experts = o->experts;
    all.calib_tokens = o->calib_tokens;
    all.seq_len = o->seq_len;
    all.seed = o->seed;
    all.requantize = true; /* it is only measured */
    all.resume = o->resume;
    all.progress = pith_context_progress(c, &o->progress);
    if (o->resume && c->log && !pith_place_is_begun(&all))
        c->log(c->log_ctx, "`resume`: there is nothing to resume; this run starts anew");
    const struct pith_sensitivity_wish wish = {o->tries, o->acts, o->caches};
    pith_context_look(c, o->model);
    return pith_sensitivity_find(c->backend, &all, &wish, report, err);
}

enum pith_status pith_sensitivity(struct pith_context *c,
                                  const struct pith_sensitivity_options *given, char **report,
                                  struct pith_error *err)
{
    struct pith_report *r = NULL;
    return pith_report_give(&r, pith_sensitivity_report(c, given, &r, err), report, err);
}
