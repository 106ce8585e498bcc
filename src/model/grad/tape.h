/* model/grad/tape.h: what the kinds of node of a pass with gradients share; inside model/ only. Of
 * each kind tape_<name> computes and remembers, back_<name> takes gradients from what a node wrote
 * to what it read. */
#ifndef PITH_MODEL_GRAD_TAPE_H
#define PITH_MODEL_GRAD_TAPE_H

#include "model/grad/block_grad.h"
#include "model/nodes/nodes.h"

/* What the registers hold while a pass goes on. */
struct pith_tape_forward {
    struct pith_tape *t;
    const struct pith_block *b;
    float *reg[PITH_LAYER_REGS];
};

/* Gradients of what the registers hold, on the way back. */
struct pith_tape_backward {
    struct pith_tape *t;
    const struct pith_block *b;
    const struct pith_tape_grad *g;
    const float *d[PITH_LAYER_REGS]; /* NULL: none yet */
};

typedef void pith_tape_fn(struct pith_tape_forward *f, const struct pith_node *node,
                          struct pith_tape_step *s);
typedef void pith_back_fn(struct pith_tape_backward *k, const struct pith_node *node,
                          const struct pith_tape_step *s);

/* The gradient of a register of `width`, to add to: zeros when there was none. */
float *pith_tape_grow(struct pith_tape_backward *k, unsigned reg, size_t width);

/* A linear over n rows, which have room in the tape: x as the linear reads it; y = that W^T + bias;
 * its gradient grows by dy^T x; dx = dy W, or += . */
struct pith_tape_rows {
    uint32_t linear;
    size_t n;
    const float *x, *dy;
    const uint32_t *place; /* as struct pith_tape_gave has it */
    float *out;            /* y, or dx */
    bool accumulate;
};
void pith_tape_linear(struct pith_tape *t, const struct pith_block *b,
                      const struct pith_tape_rows *r);
void pith_tape_to_weights(struct pith_tape_backward *k, const struct pith_tape_rows *r);
/* A gradient that is wanted grows by that, or the callback receives it (model/grad/grad_vectors.c).
 */
void pith_tape_multiply(struct pith_tape_backward *k, const struct pith_tape_product *p);
/* The gradients of a linear's bias and of a norm's vectors, from those of what they gave, where
 * they are wanted (model/grad/grad_vectors.c). */
void pith_tape_to_bias(struct pith_tape_backward *k, const struct pith_tape_rows *r);
void pith_tape_to_vectors(struct pith_tape_backward *k, const struct pith_node *norm,
                          const struct pith_tape_step *s);
void pith_tape_to_input(struct pith_tape_backward *k, const struct pith_tape_rows *r);
/* Per-layer vectors of tokens: nothing flows back. */
pith_tape_fn pith_tape_per_layer;
pith_back_fn pith_back_per_layer;
/* Activation of the model's, or the node's; its gradients. */
struct pith_gating pith_tape_gating(const struct pith_tape *t, const struct pith_node *gate);

/* Places in memory what a mixture keeps of n rows. */
void pith_tape_keep_experts(struct pith_arena *a, const struct pith_plans *p,
                            const struct pith_node *node, size_t n, struct pith_tape_step *s);

/* What moves margins moves the router's logits. */
pith_back_fn pith_back_rivals;

/* Of the kinds that have a separate file. */
pith_tape_fn pith_tape_experts, pith_tape_absorb, pith_tape_expand, pith_tape_conv, pith_tape_delta,
    pith_tape_scan;
pith_back_fn pith_back_experts, pith_back_absorb, pith_back_expand, pith_back_conv, pith_back_delta,
    pith_back_scan;

#endif
