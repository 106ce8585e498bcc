/* backend/adamw.h: one step of AdamW (Loshchilov and Hutter 2019, "Decoupled weight decay
 * regularization") on many parameters. */
#ifndef PITH_BACKEND_ADAMW_H
#define PITH_BACKEND_ADAMW_H

#include "backend/backend.h"

/* With g the gradient, and t counting steps from 1:
 *
 *     m = beta1 m + (1 - beta1) g,   v = beta2 v + (1 - beta2) g^2
 *     p -= rate (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + decay p)
 *
 * Every parameter by itself, in float32 with each operation rounded: the same bits for any thread
 * count and instruction set. */
struct pith_adamw {
    float *p, *m, *v; /* [n]; m and v begin as zeros */
    const float *g;   /* [n] */
    size_t n, step;   /* step: t */
    float rate, beta1, beta2, eps, decay;
};
void pith_adamw(struct pith_backend *b, const struct pith_adamw *a);

#endif
