/* Nodes of latent attention and of states of all tokens, with gradients. */
#include "model/grad/tape.h"

#include "backend/grad.h"

#include <string.h>

/* --- latents ---------------------------------------------------------------------------------- */

/* Where in kv_b [heads][nope + value][rank] a head's part of keys or of values begins. */
static size_t part_of(const struct pith_node *node, size_t head, bool values)
{
    const size_t nope = node->u.latent.nope, each = nope + node->u.latent.value;
    return (head * each + (values ? nope : 0)) * node->u.latent.rank;
}

/* One head: its part of kv_b, `rows` of it, and what that grows by. */
struct head {
    const float *y; /* [n][rows] */
    size_t y_step;
    const float *x; /* [n][rank] */
    size_t x_step;
    size_t rows, at;
};

static void to_part(struct pith_tape_backward *k, const struct pith_node *node,
                    const struct head *h)
{
    const size_t rank = node->u.latent.rank;
    pith_tape_multiply(k, &(struct pith_tape_product){.linear = node->u.latent.linear,
                                                      .first = h->at / rank,
                                                      .rows = h->rows,
                                                      .cols = rank,
                                                      .n = k->t->n,
                                                      .y = h->y,
                                                      .x = h->x,
                                                      .y_step = h->y_step,
                                                      .x_step = h->x_step});
}

void pith_tape_absorb(struct pith_tape_forward *f, const struct pith_node *node,
                      struct pith_tape_step *s)
{
    const struct pith_block *b = f->b;
    s->other[0] = f->reg[node->u.latent.latent];
    s->other[1] = f->reg[node->u.latent.rotary];
    pith_absorbed_fill(f->t->backend, &b->linear[node->u.latent.linear], b->absorbed);
    pith_latent_join(node, f->t->n, s->other[0], s->other[1], s->saved[0]);
    f->reg[node->u.latent.key] = s->saved[0];
    pith_latent_queries(f->t->backend, &b->absorbed->parts, s->in, f->t->n, node->u.latent.rope,
                        s->out);
}

/* What the keys were joined of. */
static void back_key(struct pith_tape_backward *k, const struct pith_node *node)
{
    const size_t rank = node->u.latent.rank, rope = node->u.latent.rope;
    const float *d = k->d[node->u.latent.key];
    float *latent = pith_tape_grow(k, node->u.latent.latent, rank);
    float *rotary = pith_tape_grow(k, node->u.latent.rotary, rope);
    for (size_t i = 0; i < k->t->n; i++, d += rank + rope) {
        for (size_t j = 0; j < rank; j++) latent[i * rank + j] += d[j];
        for (size_t j = 0; j < rope; j++) rotary[i * rope + j] += d[rank + j];
    }
    k->d[node->u.latent.key] = NULL;
}

void pith_back_absorb(struct pith_tape_backward *k, const struct pith_node *node,
                      const struct pith_tape_step *s)
{
    const size_t rank = node->u.latent.rank, rope = node->u.latent.rope, n = k->t->n;
    const size_t heads = node->u.latent.heads, nope = node->u.latent.nope;
    const size_t narrow = heads * (nope + rope), wide = heads * (rank + rope);
    const float *w = k->b->linear[node->u.latent.linear].w.dense, *d = k->d[node->out];
    float *dq = pith_tape_grow(k, node->in, narrow);
    for (size_t h = 0; h < heads; h++) {
        const float *dh = d + h * (rank + rope);
        float *to = dq + h * (nope + rope);
        const struct head head = {s->in + h * (nope + rope), narrow, dh, wide, nope,
                                  part_of(node, h, false)};
        to_part(k, node, &head);
        pith_gemm(k->t->backend, &(struct pith_gemm){.m = n,
                                                     .n = nope,
                                                     .k = rank,
                                                     .a = dh,
                                                     .a_rs = wide,
                                                     .a_cs = 1,
                                                     .b = w + head.at,
                                                     .b_rs = 1,
                                                     .b_cs = rank,
                                                     .c = to,
                                                     .ldc = narrow,
                                                     .accumulate = true});
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < rope; j++) to[i * narrow + nope + j] += dh[i * wide + rank + j];
    }
    k->d[node->out] = NULL;
    back_key(k, node);
}

void pith_tape_expand(struct pith_tape_forward *f, const struct pith_node *node,
                      struct pith_tape_step *s)
{
    (void)node;
    pith_latent_values(f->t->backend, &f->b->absorbed->parts, s->in, f->t->n, s->out);
}

void pith_back_expand(struct pith_tape_backward *k, const struct pith_node *node,
                      const struct pith_tape_step *s)
{
    const size_t rank = node->u.latent.rank, value = node->u.latent.value;
    const size_t heads = node->u.latent.heads, narrow = heads * value, wide = heads * rank;
    const float *w = k->b->linear[node->u.latent.linear].w.dense, *d = k->d[node->out];
    float *dx = pith_tape_grow(k, node->in, wide);
    for (size_t h = 0; h < heads; h++) {
        const struct head head = {d + h * value, narrow, s->in + h * rank,
                                  wide,          value,  part_of(node, h, true)};
        to_part(k, node, &head);
        pith_gemm(k->t->backend, &(struct pith_gemm){.m = k->t->n,
                                                     .n = rank,
                                                     .k = value,
                                                     .a = head.y,
                                                     .a_rs = narrow,
                                                     .a_cs = 1,
                                                     .b = w + head.at,
                                                     .b_rs = rank,
                                                     .b_cs = 1,
                                                     .c = dx + h * rank,
                                                     .ldc = wide,
                                                     .accumulate = true});
    }
    k->d[node->out] = NULL;
}

/* --- states ----------------------------------------------------------------------------------- */

/* What a layer keeps, as it is before the first token. */
static float *fresh_state(const struct pith_tape_forward *f)
{
    memset(f->t->state, 0, f->b->plan->state.floats * sizeof *f->t->state);
    return f->t->state;
}

void pith_tape_conv(struct pith_tape_forward *f, const struct pith_node *node,
                    struct pith_tape_step *s)
{
    struct pith_conv c = pith_conv_of(f->b, node);
    memcpy(s->out, s->in, f->t->n * c.channels * sizeof *s->out);
    c.x = s->out;
    c.tail = fresh_state(f);
    c.n = f->t->n;
    pith_conv(f->t->backend, &c);
}

void pith_back_conv(struct pith_tape_backward *k, const struct pith_node *node,
                    const struct pith_tape_step *s)
{
    const struct pith_conv c = pith_conv_of(k->b, node);
    float *d = pith_tape_grow(k, node->in, node->u.conv.dim);
    memcpy(k->t->grad_spare, d, k->t->n * c.channels * sizeof *d);
    pith_conv_grad(k->t->backend,
                   &(struct pith_conv_grad){
                       .of = &c, .x = s->in, .dy = k->t->grad_spare, .n = k->t->n, .dx = d});
}

static struct pith_delta delta_of(const struct pith_tape *t, const struct pith_block *b,
                                  const struct pith_node *node, const struct pith_tape_step *s)
{
    struct pith_delta d = pith_delta_of(b, node);
    d.mixed = s->in;
    d.a = s->other[0];
    d.beta = s->other[1];
    d.n = t->n;
    d.state = t->state;
    d.out = s->out;
    return d;
}

void pith_tape_delta(struct pith_tape_forward *f, const struct pith_node *node,
                     struct pith_tape_step *s)
{
    s->other[0] = f->reg[node->u.delta.a];
    s->other[1] = f->reg[node->u.delta.beta];
    (void)fresh_state(f);
    const struct pith_delta d = delta_of(f->t, f->b, node, s);
    pith_delta(f->t->backend, &d);
}

void pith_back_delta(struct pith_tape_backward *k, const struct pith_node *node,
                     const struct pith_tape_step *s)
{
    struct pith_tape *t = k->t;
    const struct pith_delta d = delta_of(t, k->b, node, s);
    const uint8_t a = node->u.delta.a, beta = node->u.delta.beta;
    pith_delta_grad(t->backend, &(struct pith_delta_grad){.of = &d,
                                                          .d_out = k->d[node->out],
                                                          .d_mixed = t->grad[node->in],
                                                          .d_a = t->grad[a],
                                                          .d_beta = t->grad[beta],
                                                          .work = t->work});
    k->d[node->out] = NULL;
    k->d[node->in] = t->grad[node->in];
    k->d[a] = t->grad[a];
    k->d[beta] = t->grad[beta];
}

static struct pith_scan scan_of(const struct pith_tape *t, const struct pith_block *b,
                                const struct pith_node *node, const struct pith_tape_step *s)
{
    struct pith_scan d = pith_scan_of(b, node);
    d.mixed = s->in;
    d.step = s->other[0];
    d.n = t->n;
    d.state = t->state;
    d.out = s->out;
    return d;
}

void pith_tape_scan(struct pith_tape_forward *f, const struct pith_node *node,
                    struct pith_tape_step *s)
{
    s->other[0] = f->reg[node->u.scan.step];
    (void)fresh_state(f);
    const struct pith_scan d = scan_of(f->t, f->b, node, s);
    pith_scan(f->t->backend, &d);
}

void pith_back_scan(struct pith_tape_backward *k, const struct pith_node *node,
                    const struct pith_tape_step *s)
{
    struct pith_tape *t = k->t;
    const struct pith_scan d = scan_of(t, k->b, node, s);
    const uint8_t step = node->u.scan.step;
    pith_scan_grad(t->backend, &(struct pith_scan_grad){.of = &d,
                                                        .d_out = k->d[node->out],
                                                        .d_mixed = t->grad[node->in],
                                                        .d_step = t->grad[step],
                                                        .work = t->work});
    k->d[node->out] = NULL;
    k->d[node->in] = t->grad[node->in];
    k->d[step] = t->grad[step];
}
