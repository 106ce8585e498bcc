/* Gradients of what a layer stores: parts of matrices, gains of norms, biases. */
#include "model/grad/tape.h"

#include "backend/grad.h"

void pith_tape_add(struct pith_backend *be, const struct pith_tape_product *p, size_t from,
                   size_t rows, float *grad)
{
    for (size_t i = 0; p->cols == 0 && i < p->n; i++)
        for (size_t j = 0; j < rows; j++) grad[j] += p->y[i * p->y_step + from + j];
    if (p->cols == 0) return;
    pith_gemm(be, &(struct pith_gemm){.m = rows,
                                      .n = p->cols,
                                      .k = p->n,
                                      .a = p->y + from,
                                      .a_rs = 1,
                                      .a_cs = p->y_step,
                                      .b = p->x,
                                      .b_rs = p->x_step,
                                      .b_cs = 1,
                                      .c = grad,
                                      .ldc = p->cols,
                                      .accumulate = true});
}

void pith_tape_multiply(struct pith_tape_backward *k, const struct pith_tape_product *p)
{
    float *w = k->g->w[p->linear];
    if (!w) return;
    if (k->g->product) k->g->product(k->g->product_ctx, p);
    else pith_tape_add(k->t->backend, p, 0, p->rows, w + p->first * p->cols);
}

void pith_tape_to_bias(struct pith_tape_backward *k, const struct pith_tape_rows *r)
{
    const size_t rows = k->b->linear[r->linear].w.rows;
    float *to = k->g->bias ? k->g->bias[r->linear] : NULL;
    const struct pith_tape_product p = {
        .linear = r->linear, .rows = rows, .n = r->n, .y = r->dy, .y_step = rows};
    if (!to) return;
    if (k->g->product) k->g->product(k->g->product_ctx, &p);
    else pith_tape_add(k->t->backend, &p, 0, rows, to);
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
