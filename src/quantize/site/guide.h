/* quantize/site/guide.h: what a rounder that is guided by the model's loss needs of a run: one
 * forward and backward pass through the original (choose/sense.h), before the first block is
 * rounded. Its loss is the model's divergence from itself: labels are drawn from the model's
 * distribution, so that the squares are the Fisher information of each linear's outputs, to which
 * the divergence is proportional. */
#ifndef PITH_QUANTIZE_SITE_GUIDE_H
#define PITH_QUANTIZE_SITE_GUIDE_H

#include "base/file.h"
#include "base/json.h"
#include "calib/guide.h"

struct pith_job;
struct pith_run;

/* A guide to be filled, and for the progress what a layer weighs one way, and all of the run. */
struct pith_guide_task {
    struct pith_guide *guide;
    double effort, whole;
};
/* The pass that fills it, and the bytes that this takes. The same pass measures sensitivities and
 * lies above this folder, so the caller that starts a run passes it in (choose/sense.h). */
struct pith_guide_pass {
    enum pith_status (*fill)(const struct pith_job *job, const struct pith_guide_task *task,
                             struct pith_error *err);
    uint64_t (*bytes)(const struct pith_job *job);
};

/* Lives as long as the run; all zero when nothing needs it. */
struct pith_guiding {
    struct pith_scratch_file file; /* "pith.guide" in the partial folder */
    struct pith_guide guide;
};
/* Makes it, or the rest of it after an interruption. */
enum pith_status pith_guiding_open(struct pith_run *r, struct pith_error *err);
void pith_guiding_close(struct pith_guiding *g);
/* What it will be, without its numbers. */
struct pith_guide pith_guiding_plan(const struct pith_job *job);
/* What it weighs in the progress, in windows through a block. */
double pith_guiding_effort(const struct pith_job *job);
/* The account of it; a new reference, NULL when memory is out. */
json_t *pith_guiding_account(const struct pith_job *job);

#endif
