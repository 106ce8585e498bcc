/* quantize/memory_estimate.h: the memory that a run will take, before it starts. */
#ifndef PITH_QUANTIZE_MEMORY_ESTIMATE_H
#define PITH_QUANTIZE_MEMORY_ESTIMATE_H

#include "quantize/job.h"

/* The most own memory (anonymous pages of every allocator) that the process will hold:
 * job->own_memory, which is measured, and what the run takes from then on, computed by the code
 * that takes it. After pith_job_layout(). The measured part differs by some pages from one start of
 * the program to the next: less than PITH_MEASURED_TO (base/mem.h), which is included. */
uint64_t pith_job_estimate(const struct pith_job *job);
/* Of it: the codes of a linear with the weights stored outside the grid; the work of splitting and
 * rounding it, without its floats, statistics and codes. */
uint64_t pith_job_made_bytes(const struct pith_job *job, const struct pith_choice *c);
uint64_t pith_job_rounding_bytes(const struct pith_job *job, const struct pith_choice *c);
/* Of it: what transforming a layer takes in addition to its block. */
uint64_t pith_job_transform_bytes(const struct pith_job *job, uint32_t layer);
/* Whether products with what is made want pith_backend_take_prepared(). */
bool pith_job_prepares(const struct pith_job *job);

#endif
