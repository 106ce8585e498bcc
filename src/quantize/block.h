/* quantize/block.h: one block from its weights to its place in the output, or several that are
 * learned together. */
#ifndef PITH_QUANTIZE_BLOCK_H
#define PITH_QUANTIZE_BLOCK_H

#include "quantize/job.h"

struct pith_run;

/* Layers [first, first + count) that are rounded together, or one. */
struct pith_blocks {
    struct pith_run *run;
    struct pith_work *work; /* [count], owned; NULL before it is opened */
    json_t *const *unit;    /* [count], borrowed */
    uint32_t first, count;
};
/* Begins them. Blocks that are neither converted nor streamed are loaded and transformed, and where
 * rounding is learned also rounded. The caller closes *b, also after a failure. */
enum pith_status pith_blocks_open(struct pith_blocks *b, struct pith_error *err);
/* Each in order: rounds and stores what is not yet, on what lies in cal.acts[0]; when `propagate`,
 * cal.acts[1] receives the quantized block's output (both may be the same). Appends the account to
 * its unit: "linears", "transforms", "tensors". */
enum pith_status pith_blocks_finish(struct pith_blocks *b, uint32_t place, bool propagate,
                                    struct pith_error *err);
void pith_blocks_close(struct pith_blocks *b);

#endif
