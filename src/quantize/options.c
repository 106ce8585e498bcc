/* What follows from the options alone: names, grids, and which of them go together. Checked before
 * any file of the model is opened, so that a wrong option is the first thing that is reported. */
#include "quantize/options.h"

#include "base/json.h"
#include "num/input.h"
#include "plan/time/ranks_forecast.h"
#include "quant/scale.h"
#include "quantize/job.h"
#include "quantize/select.h"
#include "quantize/site/inputs.h"
#include "quantize/site/learn.h"

enum pith_status pith_job_check_targets(const struct pith_job *job, struct pith_error *err)
{
    const struct pith_list *targets = &job->options->targets;
    for (size_t i = 0; i < targets->count; i++) {
        struct pith_target ignored;
        PITH_TRY(pith_target_parse(targets->item[i], &ignored, err));
    }
    return PITH_OK;
}

/* What moves single weights, or tries scales on them, does not go with grids of whole matrices. */
static enum pith_status check_whole(const struct pith_job *job, struct pith_error *err)
{
    const struct pith_recipe *r = &job->recipe;
    const char *of = "it is a matrix as a whole that is put on it";
    if (!r->weights.format || !pith_gridder_for(&r->weights)->whole) return PITH_OK;
    if (r->round->by->member_scratch || r->round->form == PITH_SWEEP_GPTAQ)
        return pith_fail(err, PITH_UNSUPPORTED, "`round` %s does not go with %s: %s",
                         r->round->name, r->weights.format->name, of);
    if (r->transform->needs)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "`transform` %s does not go with %s, whose columns have factors of their"
                         " own: %s",
                         r->transform->name, r->weights.format->name, of);
    if (r->split != pith_split_find("none"))
        return pith_fail(err, PITH_UNSUPPORTED, "`split` %s does not go with %s: %s",
                         r->split->name, r->weights.format->name, of);
    return PITH_OK;
}

/* Does anything read activations? Grids and fixed scales do, besides the stages. */
static enum pith_status find_needs(struct pith_job *job, struct pith_error *err)
{
    const struct pith_grid *weights = &job->recipe.weights;
    if (job->convert) return PITH_OK;
    if (weights->format) job->needs_round |= pith_gridder_for(weights)->needs;
    PITH_TRY(pith_select_check(job, &job->needs_round, err));
    const json_t *linears = json_object_get(job->more, "linears"), *text;
    const char *name;
    json_object_foreach ((json_t *)linears, name, text) {
        struct pith_grid g;
        PITH_TRY(pith_recipe_linear(json_string_value(text), &g, err));
        if (g.format) job->needs_round |= pith_gridder_for(&g)->needs;
    }
    PITH_TRY(check_whole(job, err));
    PITH_TRY(pith_inputs_settle(job, err));
    if (job->recipe.split->sparse && weights->format && !(job->container->holds & PITH_QMAT_SPARSE))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s has no place for weights outside the grid (`split=sparse`);"
                         " `container=squeezellm` has",
                         job->container->name);
    PITH_TRY(pith_learn_check(job, err));
    const struct pith_input in = {
        .grid = job->recipe.acts, .threshold = job->container_opts.threshold, .scale = 1.0f};
    if (!in.grid.format) return PITH_OK;
    return pith_input_check(&in, in.grid.group ? in.grid.group : 64, err);
}

static enum pith_status check_numbers(const struct pith_quantize_options *o, struct pith_error *err)
{
    if (o->seq_len < 2) return pith_fail(err, PITH_ARG, "`seq_len`: at least 2");
    if (o->calib_tokens == 0) return pith_fail(err, PITH_ARG, "`calib_tokens`: at least 1");
    struct pith_cable ignored;
    if (o->link) PITH_TRY(pith_cable_parse(o->link, &ignored, err));
    return PITH_OK;
}

enum pith_status pith_job_check_options(const struct pith_quantize_options *o, bool convert,
                                        struct pith_job_look *look, struct pith_error *err)
{
    struct pith_job job = {.options = o, .convert = convert};
    if (!o->out || !o->out[0])
        return pith_fail(err, PITH_ARG, "the name of the output folder is empty");
    PITH_TRY(check_numbers(o, err));
    enum pith_status s = pith_job_recipe(&job, err);
    if (s == PITH_OK) s = pith_job_check_targets(&job, err);
    if (s == PITH_OK) s = find_needs(&job, err);
    if (s == PITH_OK) {
        *look = (struct pith_job_look){pith_job_recipe_json(&job), job.container,
                                       pith_job_calibrates(&job)};
        if (!look->recipe) s = pith_fail_nomem(err, "the recipe");
    }
    json_decref(job.more);
    return s;
}
