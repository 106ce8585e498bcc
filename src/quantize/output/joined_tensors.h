/* quantize/output/joined_tensors.h: tensors that hold the matrices, or the biases, of several
 * linears. */
#ifndef PITH_QUANTIZE_OUTPUT_JOINED_TENSORS_H
#define PITH_QUANTIZE_OUTPUT_JOINED_TENSORS_H

#include "quantize/job.h"

/* Finds job->wholes: where no linear of a tensor of several is quantized or pruned, the output has
 * it as the input does; when that is a file in another form, as the architecture is published if
 * that is in one way. None in an output that is one file. */
enum pith_status pith_job_wholes(struct pith_job *job, struct pith_error *err);
/* That which a linear's matrix, or bias, goes into; NULL: it stands by itself. The same of a tensor
 * of the input. */
struct pith_whole *pith_job_whole(const struct pith_job *job, uint32_t layer, uint32_t linear,
                                  bool bias);
struct pith_whole *pith_job_tensor_whole(const struct pith_job *job, const char *tensor);
/* Bytes that storing one of a layer's takes when it is made anew, 0: it has none. */
uint64_t pith_store_whole_bytes(const struct pith_job *job, uint32_t layer);

#endif
