/* What would become of a mixture's output if a token changed one of its experts: the forward pass
 * of the expert that stands next in line, and how far the token is from it. */
#include "model/grad/tape.h"

#include "backend/grad.h"

#include <math.h>
#include <string.h>

static const struct pith_moe *moe_of(const struct pith_tape *t)
{
    return &t->model->shape.moe;
}

static const float *correction_of(const struct pith_block *b, const struct pith_node *node)
{
    const uint32_t at = node->u.experts.correction;
    return at == PITH_NO_PART ? NULL : b->vector[at];
}

/* The weight that who comes would have, of that of who goes. */
static float weight_of(const struct pith_block *b, const struct pith_node *node,
                       const struct pith_rival *rival, float share)
{
    const uint32_t gains = node->u.experts.gains;
    const float *gain = gains == PITH_NO_PART ? NULL : b->vector[gains];
    float weight = share * rival->weight;
    if (gain && gain[rival->goes] != 0) weight *= gain[rival->comes] / gain[rival->goes];
    return weight;
}

static float share_of(const struct pith_tape *t, const struct pith_tape_step *s, size_t row,
                      uint32_t expert)
{
    const uint32_t taken = moe_of(t)->taken;
    for (size_t i = row * taken; i < (row + 1) * taken; i++)
        if (s->routes.chosen[i] == expert) return s->routes.share[i];
    return 0;
}

static void find_rivals(const struct pith_tape *t, const struct pith_block *b,
                        const struct pith_node *node, const struct pith_tape_step *s,
                        struct pith_tape_rivals *r)
{
    const struct pith_moe *m = moe_of(t);
    for (size_t i = 0; i < t->n; i++) {
        struct pith_rival *rival = &r->rival[i];
        pith_route_rival(m, s->other[0] + i * m->experts, correction_of(b, node),
                         s->routes.chosen + i * m->taken, t->router, rival);
        r->weight[i] = isfinite(rival->margin)
                           ? weight_of(b, node, rival, share_of(t, s, i, rival->goes))
                           : 0;
    }
}

/* What those rows read, if the expert were theirs. */
static float *gather(const struct pith_tape *t, const struct pith_tape_step *s,
                     const struct pith_tape_rivals *r, size_t n)
{
    const size_t hidden = t->model->shape.hidden;
    for (size_t i = 0; i < n; i++) {
        const float *from = s->in + r->row[i] * hidden;
        const float share = moe_of(t)->scales_input ? r->weight[r->row[i]] : 1.0f;
        for (size_t j = 0; j < hidden; j++) t->grad_spare[i * hidden + j] = from[j] * share;
    }
    return t->grad_spare;
}

/* Registers' gradients are not at work between a forward pass and the way back. */
static const float *run_rival(struct pith_tape *t, const struct pith_block *b,
                              const struct pith_node *node, uint32_t expert,
                              struct pith_tape_rows *rows)
{
    float *gate = t->grad[node->u.experts.gate], *up = t->grad[node->u.experts.up];
    struct pith_gating gating = pith_tape_gating(t, node);
    t->treated_of = NULL;
    rows->linear = node->u.experts.first + expert * node->u.experts.each;
    rows->out = gate;
    pith_tape_linear(t, b, rows);
    rows->linear++;
    rows->out = up;
    pith_tape_linear(t, b, rows);
    gating.gate = gate;
    gating.up = up;
    gating.count = rows->n * node->u.experts.dim;
    pith_gate(t->backend, &gating);
    t->treated_of = NULL;
    rows->linear++;
    rows->x = gate;
    rows->out = t->grad[node->u.experts.result];
    pith_tape_linear(t, b, rows);
    t->treated_of = NULL;
    return rows->out;
}

static void add_comers(struct pith_tape *t, const struct pith_block *b,
                       const struct pith_node *node, const struct pith_tape_step *s,
                       struct pith_tape_rivals *r)
{
    const struct pith_moe *m = moe_of(t);
    const size_t hidden = t->model->shape.hidden;
    for (uint32_t e = 0; e < m->experts; e++) {
        struct pith_tape_rows rows = {.n = 0};
        for (size_t i = 0; i < t->n; i++)
            if (isfinite(r->rival[i].margin) && r->rival[i].comes == e)
                r->row[rows.n++] = (uint32_t)i;
        if (rows.n == 0) continue;
        rows.x = gather(t, s, r, rows.n);
        const float *result = run_rival(t, b, node, e, &rows);
        for (size_t i = 0; i < rows.n; i++) {
            const float share = m->scales_input ? 1.0f : r->weight[r->row[i]];
            float *to = r->change + r->row[i] * hidden;
            for (size_t j = 0; j < hidden; j++) to[j] += share * result[i * hidden + j];
        }
    }
}

static void take_goers(const struct pith_tape *t, const struct pith_tape_step *s,
                       struct pith_tape_rivals *r)
{
    enum { RESULT = 3 }; /* saved for each place, in the layout of grad_experts.c */
    const struct pith_moe *m = moe_of(t);
    const size_t hidden = t->model->shape.hidden;
    for (size_t i = 0; i < t->n * m->taken; i++) {
        const uint32_t at = s->routes.order[i];
        const size_t row = at / m->taken;
        if (!isfinite(r->rival[row].margin) || r->rival[row].goes != s->routes.chosen[at]) continue;
        const float share = m->scales_input ? 1.0f : s->routes.share[at];
        const float *result = s->saved[RESULT] + i * hidden;
        for (size_t j = 0; j < hidden; j++) r->change[row * hidden + j] -= share * result[j];
    }
}

bool pith_tape_find_rivals(struct pith_tape *t, const struct pith_block *b,
                           struct pith_tape_rivals *r)
{
    const struct pith_node *node = pith_plan_experts(b->plan);
    if (!node) return false;
    const struct pith_tape_step *s = &t->step[node - b->plan->node];
    memset(r->change, 0, t->n * t->model->shape.hidden * sizeof *r->change);
    find_rivals(t, b, node, s, r);
    add_comers(t, b, node, s, r);
    take_goers(t, s, r);
    return true;
}

void pith_back_rivals(struct pith_tape_backward *k, const struct pith_node *node,
                      const struct pith_tape_step *s)
{
    const struct pith_moe *m = moe_of(k->t);
    const struct pith_tape_rivals *r = k->g->rivals;
    float *d = pith_tape_grow(k, node->u.experts.logits, m->experts);
    for (size_t i = 0; i < k->t->n; i++)
        if (isfinite(r->rival[i].margin))
            pith_route_rival_grad(m, s->other[0] + i * m->experts,
                                  correction_of(k->b, node) != NULL, k->t->router,
                                  &(struct pith_rival_grad){.rival = &r->rival[i],
                                                            .d_margin = k->g->d_margin[i],
                                                            .d = d + i * m->experts});
}
