/* quantize/output/store.h: bytes that writing tensors at their place takes. */
#ifndef PITH_QUANTIZE_OUTPUT_STORE_H
#define PITH_QUANTIZE_OUTPUT_STORE_H

#include "quantize/job.h"

/* Bytes of a linear's tensor in the input, and of the copy that its rows are put in order in, 0
 * where they lie so. */
uint64_t pith_job_tensor_bytes(const struct pith_job *job, const struct pith_choice *c);
uint64_t pith_job_straight_bytes(const struct pith_job *job, const struct pith_choice *c);
/* What a matrix outside of the blocks takes whose values are stored and whose codes are read. */
uint64_t pith_store_outer_bytes(const struct pith_job *job);
/* Bytes that storing a linear takes in addition to its codes: the packed form, or what is read
 * back. */
uint64_t pith_store_linear_bytes(const struct pith_job *job, const struct pith_choice *c);

#endif
