/* pipe/guide.h: what a rounder that is guided by the model's loss needs of a run: one pass there
 * and back through the original (pipe/sense.h), before the first block is rounded. Its loss is the
 * model's divergence from itself: labels are drawn from what the model says, so that the squares
 * are the Fisher information of each linear's outputs, to which the divergence is proportional. */
#ifndef PITH_PIPE_GUIDE_H
#define PITH_PIPE_GUIDE_H

#include "base/file.h"
#include "calib/guide.h"
#include "base/json.h"

struct pith_job;
struct pith_run;

/* Lives as long as the run; all zero when nothing asks for it. */
struct pith_guiding {
    struct pith_scratch_file file; /* "pith.guide" in the partial folder */
    struct pith_guide guide;
};
/* Makes it, or what is left of it to make. */
enum pith_status pith_guiding_open(struct pith_run *r, struct pith_error *err);
void pith_guiding_close(struct pith_guiding *g);
/* What it will be, without its numbers. */
struct pith_guide pith_guiding_plan(const struct pith_job *job);
/* What it weighs in the progress, in windows through a block. */
double pith_guiding_effort(const struct pith_job *job);
/* The account of it; a new reference, NULL when memory is out. */
json_t *pith_guiding_account(const struct pith_job *job);

#endif
