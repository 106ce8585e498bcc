/* quantize/options.h: what follows of a job from its options alone. */
#ifndef PITH_QUANTIZE_OPTIONS_H
#define PITH_QUANTIZE_OPTIONS_H

#include "quantize/job.h"

/* What follows from the options without reading a model. */
struct pith_job_look {
    json_t *recipe; /* in full, owned */
    const struct pith_container *container;
    bool calibrates;
};
/* Statuses as of pith_quantize(); on failure *look owns nothing. */
enum pith_status pith_job_check_options(const struct pith_quantize_options *o, bool convert,
                                        struct pith_job_look *look, struct pith_error *err);
/* The names in job->options->targets: PITH_ARG. */
enum pith_status pith_job_check_targets(const struct pith_job *job, struct pith_error *err);

#endif
