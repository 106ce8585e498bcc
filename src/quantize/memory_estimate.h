/* quantize/memory_estimate.h: the memory that a run will take, before it starts. */
#ifndef PITH_QUANTIZE_MEMORY_ESTIMATE_H
#define PITH_QUANTIZE_MEMORY_ESTIMATE_H

#include "quantize/job.h"

/* The most own memory (anonymous pages, whoever asked for them) that the process
 * will hold: job->held, which is measured, and what the run takes from then on, asked of those who
 * take it. After pith_job_layout(). What is measured differs by some pages from one start of the
 * program to the next: less than PITH_MEASURED_TO (base/mem.h), which is counted in. */
uint64_t pith_job_estimate(const struct pith_job *job);
/* Of it: the codes of a linear with what is kept beside them; the work of splitting and rounding
 * it, its floats, statistics and codes not counted. */
uint64_t pith_job_made_bytes(const struct pith_job *job, const struct pith_choice *c);
uint64_t pith_job_rounding_bytes(const struct pith_job *job, const struct pith_choice *c);
/* Of it: what transforming a layer takes beside its block. */
uint64_t pith_job_transform_bytes(const struct pith_job *job, uint32_t layer);
/* Whether products with what is made want pith_backend_take_prepared(). */
bool pith_job_prepares(const struct pith_job *job);

#endif
