/* quantize/time_estimate.h: how long a run will take, estimated before it begins: operations
 * counted as in plan/time/quantize_time.h, at the speed that this machine has at products now.
 * Other load makes it longer. */
#ifndef PITH_QUANTIZE_TIME_ESTIMATE_H
#define PITH_QUANTIZE_TIME_ESTIMATE_H

#include "plan/time/quantize_time.h"
#include "quantize/job.h"

/* Receives a line for the user now and then; say NULL: nobody does. */
struct pith_notice {
    void (*say)(void *ctx, const char *line);
    void *ctx;
};
/* What a run is part of. */
struct pith_frame {
    struct pith_notice notice;
    double started; /* pith_clock() when the whole began, 0: with the run */
    double search;  /* seconds of that before the run, in which its recipe was found */
    bool quiet;     /* the expected time was reported already */
    const struct pith_guide_pass *guide_pass; /* quantize/site/guide.h; NULL: no recipe needs it */
};

/* Float32 operations a second, as a machine's row of plan/hardware/hardware.def has them; takes
 * some hundredths of a second. 0 when memory is out. */
double pith_expect_speed(struct pith_backend *be);

/* The job's model, a recipe and so many tokens, in its windows: what the estimates are made of. */
struct pith_quantize_task pith_expect_task(const struct pith_job *job,
                                           const struct pith_recipe *recipe, size_t tokens);
/* Seconds of quantizing it; 0: not known. */
double pith_expect_quantize(const struct pith_job *job, const struct pith_recipe *recipe,
                            size_t tokens, double speed);

/* Seconds of finding the sensitivities of the job's linears on so many grids. */
double pith_expect_sense(const struct pith_job *job, size_t grids, double speed);
/* What the backward pass through a layer takes, in forward passes; the transform's part of it. The
 * forward pass of all layers is `layers` of these; the head in between takes `head`. */
struct pith_sense_effort {
    double back, transform, head;
};
#define PITH_EXPECT_TRANSFORM 0.8
struct pith_sense_effort pith_expect_effort(const struct pith_job *job, size_t grids);

/* Seconds of measuring what a recipe predicted (quantize/prediction.h). */
double pith_expect_check(const struct pith_job *job, double speed);

/* "about 4 min 10 s". */
enum { PITH_EXPECT_TEXT = 48 };
const char *pith_expect_text(double seconds, char text[PITH_EXPECT_TEXT]);

#endif
