#include "quantize/site/guide.h"

#include "base/mem.h"
#include "quantize/run.h"

enum { FORWARD = 1, THERE_AND_BACK = 4 }; /* efforts */

static bool is_guided(const struct pith_job *job)
{
    return job->needs_round & PITH_NEED_GUIDED;
}

static const struct pith_rotation *rotation_of(const void *ctx, uint32_t layer, uint32_t linear)
{
    const struct pith_job *job = ctx;
    return pith_output_rotation(&job->basis, pith_job_plan(job, layer), linear);
}

struct pith_guide pith_guiding_plan(const struct pith_job *job)
{
    return (struct pith_guide){
        .backend = job->backend,
        .model = job->model,
        .groups = job->recipe.round_options.row_groups,
        .block = job->needs_round & PITH_NEED_OUTPUTS
                     ? pith_output_block(job->recipe.round_options.output_block)
                     : 0,
        .tokens = job->calib.windows * job->calib.length,
        .output_rotation = pith_job_rotates(job) ? rotation_of : NULL,
        .rotation_ctx = job};
}

double pith_guiding_effort(const struct pith_job *job)
{
    const double windows = (double)job->calib.windows * job->model->shape.layers;
    return is_guided(job) ? (FORWARD + THERE_AND_BACK) * windows : 0;
}

enum pith_status pith_guiding_open(struct pith_run *r, struct pith_error *err)
{
    const struct pith_job *job = r->job;
    struct pith_guiding *g = &r->cal.guiding;
    if (!is_guided(job)) return PITH_OK;
    if (!job->guide_pass)
        return pith_fail(err, PITH_UNSUPPORTED, "nobody here makes gradients for %s",
                         job->recipe.round->name);
    g->guide = pith_guiding_plan(job);
    const uint64_t bytes =
        pith_times_bytes(pith_guide_floats(&g->guide, job->model->shape.layers), sizeof(float));
    PITH_TRY(pith_calibration_keep(r, "pith.guide", bytes, &g->file, err));
    g->guide.data = g->file.data;
    g->guide.scratch = pith_alloc_aligned(pith_guide_scratch(&g->guide, job->calib.length), 1);
    if (!g->guide.scratch) return pith_fail_nomem(err, "what is felt of outputs");
    const enum pith_status s = job->guide_pass->fill(
        job,
        &(struct pith_guide_task){.guide = &g->guide,
                                  .effort = pith_guiding_effort(job) / 2 / job->model->shape.layers,
                                  .whole = r->work_total},
        err);
    pith_free(g->guide.scratch);
    g->guide.scratch = NULL;
    return s;
}

void pith_guiding_close(struct pith_guiding *g)
{
    pith_scratch_file_close(&g->file);
    g->guide.data = NULL;
}

/* Names of the linears that attention over latents takes into itself. */
static void add_unfelt(const struct pith_job *job, json_t **names)
{
    for (uint32_t l = 0; l < job->model->shape.layers; l++) {
        const struct pith_layer_plan *plan = pith_job_plan(job, l);
        for (uint32_t i = 0; i < plan->nodes; i++)
            if (plan->node[i].kind == PITH_NODE_ABSORB)
                pith_json_add(
                    names,
                    json_string(pith_job_choice(job, l, plan->node[i].u.latent.linear)->module));
    }
}

json_t *pith_guiding_account(const struct pith_job *job)
{
    json_t *names = json_array();
    if (!is_guided(job)) {
        json_decref(names);
        return json_null();
    }
    add_unfelt(job, &names);
    return json_pack("{s:s, s:i, s:o}", "loss", "divergence", "row_groups",
                     (int)job->recipe.round_options.row_groups, "unguided", names);
}
