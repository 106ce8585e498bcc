/* quantize/site/error_limits.h: which relative errors of a linear are refused, and which are warned
 * of. */
#ifndef PITH_QUANTIZE_SITE_ERROR_LIMITS_H
#define PITH_QUANTIZE_SITE_ERROR_LIMITS_H

#include "quantize/job.h"

/* PITH_NUMERIC for a linear that is further from its original (||W - Q|| / ||W||)
 * than the options allow; 0.5 where they say nothing. */
enum pith_status pith_judge(const struct pith_job *job, const struct pith_choice *c, double error,
                            struct pith_error *err);
/* The warnings about linears: where their losses are those of outputs {"linear", "loss_share",
 * "limit"} of those that carry far more than their share, else {"linear", "relative_error",
 * "limit"} of those above 0.3. A new reference. */
json_t *pith_judge_warnings(const json_t *linears, bool outputs);

#endif
