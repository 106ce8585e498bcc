/* model/grad/head_grad.h: the way back through a model's last norm and head. */
#ifndef PITH_MODEL_GRAD_HEAD_GRAD_H
#define PITH_MODEL_GRAD_HEAD_GRAD_H

#include "model/model.h"

struct pith_head_grad {
    const float *x;      /* [n][hidden]: what pith_model_logits() was given */
    const float *logits; /* [n][vocab]: what it gave */
    float *d_logits;     /* [n][vocab]: of a loss with respect to these; overwritten */
    size_t n;
    float *d_x; /* [n][hidden]: of the loss with respect to x; overwritten */
    /* [hidden]: of the last norm's gain and bias, which grow by it; NULL: not wanted */
    float *d_gain, *d_bias;
};
/* In float32, sums in a fixed order: the same bits for any thread count. PITH_UNSUPPORTED where
 * something stands between the stream and the head. */
enum pith_status pith_head_grad(const struct pith_model *m, struct pith_backend *be,
                                const struct pith_head_grad *g, struct pith_error *err);

#endif
