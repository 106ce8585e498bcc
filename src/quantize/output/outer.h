/* quantize/output/outer.h: what stands outside the blocks: the embedding, the final norm, the head.
 */
#ifndef PITH_QUANTIZE_OUTPUT_OUTER_H
#define PITH_QUANTIZE_OUTPUT_OUTER_H

#include "quantize/job.h"

struct pith_run;

/* Everything outside the blocks: embedding, final norm, head. Appends its account. */
enum pith_status pith_run_outer(struct pith_run *r, json_t *tensors, struct pith_error *err);

#endif
