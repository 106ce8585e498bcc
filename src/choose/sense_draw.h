/* choose/sense_draw.h: between the forward and the backward part of a pass of choose/sense.h: a
 * token drawn from each position's own distribution. */
#ifndef PITH_CHOOSE_SENSE_DRAW_H
#define PITH_CHOOSE_SENSE_DRAW_H

#include "quantize/job.h"

struct pith_draw_rows {
    const float *x; /* [n][hidden]: the last layer's output */
    size_t n;       /* at most PITH_HEAD_ROWS (model/grad/head_grad.h) */
    float *room;    /* [2 * PITH_HEAD_ROWS][vocab] */
    uint64_t seed;  /* of the first row */
    float *d_x;     /* [n][hidden], overwritten: the gradient of the drawn tokens'
                       log-probabilities, each with a random sign */
};
/* PITH_NUMERIC when the model's logits are not finite. */
enum pith_status pith_draw_rows(const struct pith_job *job, const struct pith_draw_rows *r,
                                struct pith_error *err);

#endif
