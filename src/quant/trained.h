/* quant/trained.h: a quantized matrix while it learns from the gradient of a loss.
 *
 * What it is begins as what is stored, and every parameter p as 0:
 *
 *     scale = round(scale_0 (1 + p)),   u = u_0 + p d,   value = (Q(u) - zero) scale
 *
 * u is a weight in units of its scale, d half the distance of the neighbours of the point of the
 * grid that is stored, Q the nearest point. u_0 is that point, or where the original's weight is,
 * but a quarter of d from it at most: those that rounding had to decide narrowly then change first,
 * and not all at once. So a step of a parameter is a part of a
 * scale, or of the way to the next point, whatever the matrix and its bits. Without `weights` Q(u)
 * is what is stored.
 *
 * For gradients rounding counts as the identity (Bengio et al. 2013, "Estimating or propagating
 * gradients through stochastic neurons"), and a scale has those of the points that are taken:
 *
 *     d scale = sum over its weights dW (Q(u) - zero),   d u = dW scale
 *
 * u is kept within the grid's range, so that no weight is lost to a cut that has no slope. Scales
 * that are powers of two or one for a whole matrix stay as they are: the former have no small step,
 * the latter may be shared with other matrices. */
#ifndef PITH_QUANT_TRAINED_H
#define PITH_QUANT_TRAINED_H

#include "backend/backend.h"
#include "io/container.h"
#include "num/qmat.h"

struct pith_trained {
    const struct pith_qmat *from; /* as it is stored; borrowed */
    const struct pith_weight *original; /* borrowed; NULL: not known, or in other units */
    const struct pith_container *container;
    struct pith_grid grid;
    struct pith_qmat now; /* the same with scales as they are; it borrows all else */
    size_t scales;        /* how many are learned: all or none */
    size_t weights;       /* likewise */
    uint8_t *codes;       /* [threads][cols] scratch */
    float level[256], apart[256]; /* of each code: its point, and d */
};
/* What is to be trained. */
struct pith_trained_case {
    const struct pith_container *container;
    const struct pith_qmat *q;
    const struct pith_weight *original; /* as in struct pith_trained */
    bool weights;                       /* these too */
};
/* PITH_UNSUPPORTED names what of q cannot be learned; on failure *t owns nothing. */
enum pith_status pith_trained_open(struct pith_trained *t, struct pith_backend *b,
                                   const struct pith_trained_case *c, struct pith_error *err);
void pith_trained_free(struct pith_trained *t);
/* Parameters: the scales, then the weights. */
static inline size_t pith_trained_count(const struct pith_trained *t)
{
    return t->scales + t->weights;
}
/* Bytes that pith_trained_open() takes. */
uint64_t pith_trained_bytes(const struct pith_qmat *q, unsigned threads);

/* values[rows][cols] of the parameters p, and t->now's scales; p comes to lie within the grid. */
void pith_trained_values(struct pith_trained *t, struct pith_backend *b, float *p, float *values);
/* After it: from dW[rows][cols] to the gradients of the scales, d_scale[t->scales], and, where
 * weights are learned, in its place to theirs. */
void pith_trained_gradient(const struct pith_trained *t, struct pith_backend *b,
                           const float *values, float *dw, float *d_scale);
/* The same values as a matrix that owns all that is in it. PITH_NOMEM. */
enum pith_status pith_trained_matrix(struct pith_trained *t, struct pith_backend *b, float *p,
                                     float *values, struct pith_qmat *out, struct pith_error *err);

#endif
