/* quantize/output/layout.h: which tensors the output will hold, and where. */
#ifndef PITH_QUANTIZE_OUTPUT_LAYOUT_H
#define PITH_QUANTIZE_OUTPUT_LAYOUT_H

#include "quantize/job.h"

/* What a tensor is stored as that the output has from the input. */
enum pith_dtype pith_job_copy_dtype(const struct pith_job *job, const struct pith_tensor *t);
/* What the output will hold, and where: job->layout. */
enum pith_status pith_job_layout(struct pith_job *job, struct pith_error *err);
/* Whether a tensor of the input has no place in the output: nobody reads it, or it is a buffer that
 * can be computed, where that is one file. */
bool pith_job_leaves_out(const struct pith_job *job, const char *tensor);
/* The choice whose tensor of the input that is, biases aside, or NULL. */
const struct pith_choice *pith_job_tensor_choice(const struct pith_job *job, const char *tensor);

#endif
