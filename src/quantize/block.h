/* quantize/block.h: one block from its weights to its place in the output, or several that are
 * learned together. */
#ifndef PITH_QUANTIZE_BLOCK_H
#define PITH_QUANTIZE_BLOCK_H

#include "quantize/job.h"

struct pith_run;

struct pith_blocks {
    struct pith_run *run;
    struct pith_work *work; /* [count] */
    json_t *const *unit;    /* [count], borrowed */
    uint32_t first, count;
};
enum pith_status pith_blocks_open(struct pith_blocks *b, struct pith_error *err);
enum pith_status pith_blocks_finish(struct pith_blocks *b, uint32_t place, bool propagate,
                                    struct pith_error *err);
void pith_blocks_close(struct pith_blocks *b);

#endif
