/* The pass for runs that are guided by the loss: it fills a guide instead of looking at grids. */
#include "choose/sense_pass.h"
#include "quantize/ranks/ranks.h"

static enum pith_status fill_guide(const struct pith_job *job, const struct pith_guide_task *task,
                                   struct pith_error *err)
{
    struct pith_sense s = {.guide = task->guide,
                           .ranks = pith_job_ranks(job),
                           .effort = task->effort,
                           .whole = task->whole};
    const enum pith_status r = pith_sense_run(job, job->partial, &s, err);
    pith_sense_free(&s);
    return r;
}

const struct pith_guide_pass pith_sense_guide_pass = {.fill = fill_guide,
                                                      .bytes = pith_sense_guide_bytes};
