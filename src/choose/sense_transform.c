#include "choose/sense_transform.h"

#include "quantize/work.h"

/* What a layer's transform weighs in the progress: as much as that says itself. */
static double effort_of(const struct pith_job *job, uint32_t layer)
{
    const struct pith_layer_plan *plan = pith_job_plan(job, layer);
    return plan->sites * pith_job_site_effort(job);
}

static enum pith_status transform_site(struct pith_work *w, struct pith_error *err)
{
    PITH_TRY(pith_work_begin(w, err));
    w->transforms = json_array();
    if (!w->transforms) return pith_fail_nomem(err, "a block");
    return pith_work_transform(w, err);
}

enum pith_status pith_sense_transform(const struct pith_job *job, const struct pith_sense_place *p,
                                      struct pith_block *block, struct pith_error *err)
{
    if (!job->needs_transform) return PITH_OK;
    const double effort = effort_of(job, p->layer);
    struct pith_run run = {.job = job,
                           .ranks = p->ranks,
                           .unit_now = p->layer + (size_t)1,
                           .work_done = p->done * effort,
                           .work_total = p->total * effort};
    run.cal.collector = *p->collector;
    run.cal.acts[0] = p->in;
    struct pith_work w = {.run = &run,
                          .block = *block,
                          .layer = p->layer,
                          .plan = pith_job_plan(job, p->layer)};
    w.stages = (struct pith_stages){.collector = &run.cal.collector,
                                    .block = &w.block,
                                    .in = &run.cal.acts[0],
                                    .out = &p->spare,
                                    .routed = {.rule = job->experts}};
    const enum pith_status s = transform_site(&w, err);
    pith_stages_end(&w.stages);
    *p->collector = run.cal.collector;
    *block = w.block;
    w.block = (struct pith_block){0};
    json_decref(w.transforms);
    pith_work_end(&w);
    return s;
}
