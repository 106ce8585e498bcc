/* choose/auto_clock.h: one progress for all that -r auto does: sensitivities for each transform,
 * the run by the recipe that was found, and its check. */
#ifndef PITH_CHOOSE_AUTO_CLOCK_H
#define PITH_CHOOSE_AUTO_CLOCK_H

#include "choose/sense.h"
#include "quantize/time_estimate.h"

enum { PITH_AUTO_STAGES = 8 };
struct pith_auto_clock {
    struct pith_progress inner;        /* who listens */
    double started;                    /* pith_clock() */
    double expected[PITH_AUTO_STAGES]; /* seconds of each stage */
    size_t stages, now;
    double shown; /* the most that was reported */
    struct pith_notice notice;
    struct pith_quantize_options requested; /* of the whole */
};
/* The stages' progress is reported in shares of the whole, which never shrink; *out replaces the
 * listener. The clock must not move. */
void pith_auto_clock_start(struct pith_auto_clock *c, const struct pith_quantize_options *o,
                           struct pith_progress *out);
/* The stages that there will be, given at once: sensitivities, so many of them, and the run. */
void pith_auto_clock_expect(struct pith_auto_clock *c, const struct pith_job *job,
                            const struct pith_sense *sense, size_t transforms);
/* A stage is done. */
void pith_auto_clock_next(struct pith_auto_clock *c);

#endif
