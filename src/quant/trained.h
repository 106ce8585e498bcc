/* quant/trained.h: a quantized matrix while it learns from the gradient of a loss.
 *
 * What it is begins as what is stored:
 *
 *     scale = round(scale_0 (1 + p)),   u = u_0 + p d,   value = (Q(u) - zero) scale
 *
 * u is a weight in units of its scale, u_0 the point of the grid that is stored, d half the
 * distance of that point's neighbours, Q the nearest point. A scale's p begins as 0, a weight's as
 * 0 or, by pith_trained_begin(), on the side where the original's weight is, as far from where the
 * next point begins as that is, on either side of it: those that rounding had to decide narrowly
 * change first. So a step of a parameter is a part of a scale, or of the way to the next point,
 * whatever the matrix. Without `weights` Q(u) is what is stored.
 *
 * For gradients rounding counts as the identity (Bengio et al. 2013, "Estimating or propagating
 * gradients through stochastic neurons"), and a scale has those of the points that are taken:
 *
 *     d scale = sum over its weights dW (Q(u) - zero),   d u = dW scale
 *
 * u is limited to the grid's range, so that no weight is stuck where clipping has no slope. Scales
 * that are powers of two or one for a whole matrix are unchanged: the former have no small step,
 * the latter may be shared with other matrices. Of a trellis (num/trellis.h), whose codes stay, the
 * factors of columns learn as those of rows do:
 *
 *     factor = round(factor_0 (1 + p)),   d factor = sum over its column dW value / factor */
#ifndef PITH_QUANT_TRAINED_H
#define PITH_QUANT_TRAINED_H

#include "backend/backend.h"
#include "io/container/container.h"
#include "num/qmat.h"

struct pith_trained {
    const struct pith_qmat *from; /* as it is stored; borrowed */
    const struct pith_container *container;
    struct pith_grid grid;
    struct pith_qmat now; /* the same with scales as they are; it borrows all else */
    size_t scales;        /* how many are learned, the factors among them, last: all or none */
    size_t factors;       /* of columns, of a trellis; they are learned like scales */
    size_t weights;       /* all or none */
    uint8_t *codes;       /* [threads][cols] scratch */
    float level[256], apart[256]; /* of each code: its point, and d */
    float down[256], up[256];     /* and how far to where its neighbours' begin, in d */
};
/* What is to be trained. */
struct pith_trained_case {
    const struct pith_container *container;
    const struct pith_qmat *q;
    bool weights; /* these too */
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
/* How much of a scale is a step at its outermost point, of 2^bits points evenly spread around 0:
 * what a scale's p changes by, where the outermost point is to move by one. Four times that where
 * scales are stored as FP8, whose neighbours are an eighth to a sixteenth apart: smaller steps are
 * too few to reach them. A quarter of it for factors of whole rows and columns of a trellis. */
static inline float pith_trained_reach(const struct pith_trained *t)
{
    const float coarse = t->from->scale_dtype == PITH_F8_E4M3 ? 4.0f : t->factors ? 0.25f : 1.0f;
    return coarse * 2.0f / (float)(1u << t->from->format->bits);
}

/* Where weights begin, p[t->weights] of those parameters, from the original's matrix in the same
 * units; what is stored is still what they come to. */
void pith_trained_begin(struct pith_trained *t, struct pith_backend *b,
                        const struct pith_weight *original, float *p);
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
