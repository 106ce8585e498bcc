/* Gradients of gains of norms and of biases. */
#include "model/tape.h"

#include "backend/grad.h"

void pith_tape_to_bias(struct pith_tape_backward *k, const struct pith_tape_rows *r)
{
    const size_t rows = k->b->linear[r->linear].w.rows;
    float *to = k->g->bias ? k->g->bias[r->linear] : NULL;
    for (size_t i = 0; to && i < r->n; i++)
        for (size_t j = 0; j < rows; j++) to[j] += r->dy[i * rows + j];
}

static float *wanted(const struct pith_tape_backward *k, uint32_t vector)
{
    return vector == PITH_NO_PART ? NULL : k->g->vector[vector];
}

/* Heads that share a gain are vectors that follow each other. */
void pith_tape_to_vectors(struct pith_tape_backward *k, const struct pith_node *norm,
                          const struct pith_tape_step *s)
{
    const size_t heads = norm->u.norm.heads;
    if (!k->g->vector) return;
    float *gain = wanted(k, norm->u.norm.vector), *bias = wanted(k, norm->u.norm.bias);
    if (!gain && !bias) return;
    pith_norm_vectors_grad(k->t->backend,
                           &(struct pith_norm_vectors){.x = s->in,
                                                       .dy = k->d[norm->out],
                                                       .n = k->t->n * heads,
                                                       .dim = norm->u.norm.dim,
                                                       .period = norm->u.norm.by_head ? heads : 0,
                                                       .eps = norm->u.norm.eps,
                                                       .centred = norm->u.norm.centred,
                                                       .d_weight = gain,
                                                       .d_bias = bias,
                                                       .work = k->t->norms});
}
