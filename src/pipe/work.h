/* pipe/work.h: a block on its way through the stages, shared by the files that do them. */
#ifndef PITH_PIPE_WORK_H
#define PITH_PIPE_WORK_H

#include "pipe/run.h"

/* How a linear's tensors differ from the input's. */
struct pith_work_change {
    bool scaled; /* the matrix was multiplied by something */
    bool rotated;
    bool rebias;
    struct pith_linear_result pruned; /* of one without a grid */
};

/* A block on its way, and which of its tensors no longer equal the input's. */
struct pith_work {
    struct pith_run *run;
    struct pith_block block;
    struct pith_stages stages;
    uint32_t layer;
    const struct pith_layer_plan *plan;
    struct pith_work_change *changes; /* [plan->linears] */
    bool *regain;                     /* [plan->vectors]: no longer the input's */
    bool turned;                      /* the block is in another basis */
    json_t *linears, *transforms, *blocks, *experts, *tensors; /* borrowed from the unit */
};

/* block.c: a pass over the windows has ended: its time, and apart from it that of the Hessians. */
void pith_work_mark_pass(struct pith_work *w, enum pith_phase phase);
/* transform.c: the recipe's transform, applied to every site of the block. */
enum pith_status pith_work_transform(struct pith_work *w, struct pith_error *err);

#endif
