/* eval/divergence.h: comparing two rows of logits. Plain C in blocks that compilers vectorize; the
 * same bits on every machine. */
#ifndef PITH_EVAL_DIVERGENCE_H
#define PITH_EVAL_DIVERGENCE_H

#include <stddef.h>

/* KL(softmax(p) || softmax(q)) in nats for two rows of n finite logits with their logsumexp.
 * At least 0; relative error about 1e-6 however close the two are. */
double pith_kl_logits(const float *p, double p_lse, const float *q, double q_lse, size_t n);

/* Index of the largest value, the first of equals; n > 0. */
size_t pith_argmax(const float *x, size_t n);

#endif
