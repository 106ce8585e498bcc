/* What becomes of the linears' inputs: the grid of activations, outlier columns, and the scales
 * that calibration fixes. */
#include "quantize/site/inputs.h"

#include "base/mem.h"
#include "num/input.h"
#include "quantize/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct pith_input input_of(const struct pith_job *job)
{
    return (struct pith_input){.grid = job->recipe.acts,
                               .threshold = job->container_opts.threshold,
                               .rule = job->container->input_rule};
}

/* Formats of a cache are those of keys and values. */
static enum pith_status check_cache(const struct pith_job *job, struct pith_error *err)
{
    for (uint32_t i = 0; i < job->model->plans.kinds; i++)
        if (job->model->plans.kind[i].state.kind == PITH_STATE_LATENT)
            return pith_fail(err, PITH_UNSUPPORTED,
                             "`kv`: a %s keeps latents, for which checkpoints have no format",
                             job->model->arch->name);
    return PITH_OK;
}

enum pith_status pith_inputs_settle(struct pith_job *job, struct pith_error *err)
{
    const struct pith_recipe *recipe = &job->recipe;
    job->container_opts.acts = recipe->acts;
    job->container_opts.threshold = recipe->split->of_inputs ? (float)recipe->split_value : 0.0f;
    if (recipe->split->of_inputs && !recipe->acts.format)
        return pith_fail(err, PITH_ARG,
                         "`split` %s keeps columns of quantized activations; add `acts=int8:token`",
                         recipe->split->name);
    job->container_opts.kv = recipe->kv;
    if (recipe->kv.format && job->model) PITH_TRY(check_cache(job, err));
    if (recipe->kv.format && !job->container->kv_scale[0])
        return pith_fail(err, PITH_UNSUPPORTED,
                         "`kv`: %s has no place for a KV-cache format; compressed-tensors has",
                         job->container->name);
    const struct pith_input in = input_of(job);
    if (pith_input_needs_scale(&in) || pith_inputs_kv(job)) job->needs_round |= PITH_NEED_RANGE;
    return PITH_OK;
}

bool pith_inputs_kv(const struct pith_job *job)
{
    return job->container_opts.kv.format && job->container_opts.kv.is_static;
}

bool pith_inputs_kv_of(const struct pith_job *job, uint32_t layer)
{
    return pith_inputs_kv(job) && pith_plan(&job->model->plans, layer)->state.kind == PITH_STATE_KV;
}

enum pith_status pith_inputs_converts(const struct pith_job *job, struct pith_error *err)
{
    if (job->container_opts.kv.format && !job->container->kv_scale[0])
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s has no place for the KV-cache format of the input",
                         job->container->name);
    if (job->container_opts.threshold > 0.0f && job->container->input_rule != PITH_INPUT_BNB)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s cannot keep outlier columns of activations, as the input does",
                         job->container->name);
    return PITH_OK;
}

bool pith_inputs_kv_by_head(const struct pith_job *job)
{
    return job->container_opts.kv.granularity == PITH_PER_HEAD;
}

uint32_t pith_inputs_kv_scales(const struct pith_job *job, uint32_t layer)
{
    return pith_inputs_kv_by_head(job) ? pith_plan(&job->model->plans, layer)->state.heads : 1;
}

void pith_inputs_kv_name(const struct pith_job *job, uint32_t layer, int which,
                         char name[PITH_KV_NAME])
{
    pith_plan_name(&job->model->plans, layer, job->container->kv_scale[which], name, PITH_KV_NAME);
}

/* ModelOpt exports the scale of an NVFP4 cache as it does that of an FP8 one. */
static float kv_scale_of(const struct pith_grid *grid, float most)
{
    struct pith_input in = {.grid = *grid};
    if (grid->format->kind == PITH_KIND_BLOCK) return most > 0.0f ? most / 448.0f : 1.0f;
    if (grid->granularity == PITH_PER_HEAD) in.grid.granularity = PITH_PER_TENSOR;
    pith_input_calibrate(&in, -most, most);
    return in.scale;
}

/* Scales from the largest magnitudes, [2][heads] each; of a layer the first of each. */
static enum pith_status kv_scales_of(const struct pith_job *job, uint32_t heads, const float *most,
                                     float *scale, struct pith_error *err)
{
    const struct pith_grid *grid = &job->recipe.kv;
    for (uint32_t i = 0; i < 2 * heads; i++)
        if (!isfinite(most[i]))
            return pith_fail(err, PITH_NUMERIC, "keys or values are not finite");
    for (uint32_t i = 0; i < 2; i++) {
        float all = 0.0f;
        for (uint32_t h = 0; h < heads; h++) {
            if (most[i * heads + h] > all) all = most[i * heads + h];
            scale[i * heads + h] = kv_scale_of(grid, most[i * heads + h]);
        }
        if (!pith_inputs_kv_by_head(job)) scale[i * heads] = kv_scale_of(grid, all);
    }
    return PITH_OK;
}

enum pith_status pith_inputs_measure_kv(struct pith_run *r, const struct pith_block *b,
                                        float *scale, struct pith_error *err)
{
    struct pith_stats stats;
    const struct pith_collect what = {
        .first = pith_plan_after_attend(b->plan), .count = 1, .needs = PITH_NEED_RANGE};
    const uint32_t heads = b->plan->state.heads;
    float *most = pith_zalloc(2 * (size_t)heads, sizeof *most);
    if (!most) return pith_fail_nomem(err, "scales of keys and values");
    r->cal.collector.kv_most = most;
    enum pith_status s = pith_collect(&r->cal.collector, b, &r->cal.acts[0], &what, &stats, err);
    r->cal.collector.kv_most = NULL;
    pith_stats_free(&stats, 1);
    if (s == PITH_OK) s = kv_scales_of(r->job, heads, most, scale, err);
    pith_free(most);
    return s;
}

enum pith_status pith_inputs_check(const struct pith_job *job, const struct pith_choice *c,
                                   struct pith_error *err)
{
    struct pith_input in = input_of(job);
    in.hadamard = c->hadamard;
    in.scale = 1.0f; /* not known yet */
    return pith_input_check(&in, c->cols, err);
}

struct pith_input pith_inputs_make(const struct pith_job *job, const struct pith_choice *c,
                                   const struct pith_stats *stats)
{
    struct pith_input in = input_of(job);
    float lo = 0.0f, hi = 0.0f;
    in.hadamard = c->hadamard;
    if (!pith_input_needs_scale(&in)) return in;
    for (uint32_t i = 0; i < stats->dim; i++) {
        lo = fminf(lo, stats->lo[i]);
        hi = fmaxf(hi, stats->hi[i]);
    }
    pith_input_calibrate(&in, lo, hi);
    return in;
}
