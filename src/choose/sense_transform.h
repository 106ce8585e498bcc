/* choose/sense_transform.h: the recipe's transform on a block whose sensitivities are looked at. It
 * leaves the model's function as it was, so that what goes through the layers stays; what is
 * rounded, and the gradients of it, are then of the transformed matrices. */
#ifndef PITH_CHOOSE_SENSE_TRANSFORM_H
#define PITH_CHOOSE_SENSE_TRANSFORM_H

#include "calib/stages.h"
#include "quantize/job.h"

struct pith_sense_place {
    uint32_t layer;
    struct pith_collector *collector;
    struct pith_acts in, spare; /* what enters the layer; of the same shape, overwritten */
    struct pith_ranks *ranks;   /* NULL, or who shares the windows */
    double done, total;         /* what the progress says, in transforms of a layer */
};
/* Transforms `block`, which holds all of its matrices as floats, as quantizing does where no linear
 * before is rounded, and judged by the grids of the job's choices. Nothing is done for a job
 * without a transform. On failure the block is what it was, or half transformed; it is the
 * caller's either way. */
enum pith_status pith_sense_transform(const struct pith_job *job, const struct pith_sense_place *p,
                                      struct pith_block *block, struct pith_error *err);

#endif
