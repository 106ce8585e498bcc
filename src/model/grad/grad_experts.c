/* Mixtures of experts with gradients, also of how a token's choice is weighed: which experts it
 * chooses counts as given. Places go by expert: those of one are rows of one product. */
#include "model/grad/tape.h"

#include "backend/grad.h"

#include <math.h>
#include <string.h>

enum { GATE, UP, ACT, RESULT }; /* saved for each place */

void pith_tape_keep_experts(struct pith_arena *a, const struct pith_plans *p,
                            const struct pith_node *node, size_t n, struct pith_tape_step *s)
{
    const size_t places = n * p->taken, dim = node->u.experts.dim;
    struct pith_tape_routes *r = &s->routes;
    for (int i = GATE; i <= RESULT; i++)
        s->saved[i] = pith_arena_take_rows(a, places, i == RESULT ? p->width[PITH_REG_STREAM] : dim,
                                           sizeof(float));
    r->chosen = pith_arena_take(a, places, sizeof *r->chosen);
    r->order = pith_arena_take(a, places, sizeof *r->order);
    r->begin = pith_arena_take(a, p->experts + 1, sizeof *r->begin);
    r->share = pith_arena_take(a, places, sizeof *r->share);
}

static const struct pith_moe *moe_of(const struct pith_tape *t)
{
    return &t->model->shape.moe;
}

/* Rows of one expert: places order[first .. first + n). */
struct group {
    size_t first, n;
    uint32_t linear; /* its gate; up and down follow */
};

static struct group group_of(const struct pith_node *node, const struct pith_tape_routes *r,
                             uint32_t expert)
{
    return (struct group){.first = r->begin[expert],
                          .n = r->begin[expert + 1] - r->begin[expert],
                          .linear = node->u.experts.first + expert * node->u.experts.each};
}

/* What an expert's rows read, into the tape's room for them. */
static float *gather(const struct pith_tape *t, const struct pith_tape_step *s,
                     const struct group *g)
{
    const size_t hidden = t->model->shape.hidden;
    for (size_t i = 0; i < g->n; i++) {
        const uint32_t at = s->routes.order[g->first + i];
        const float *from = s->in + at / moe_of(t)->taken * hidden;
        const float share = moe_of(t)->scales_input ? s->routes.share[at] : 1.0f;
        for (size_t j = 0; j < hidden; j++) t->grad_spare[i * hidden + j] = from[j] * share;
    }
    return t->grad_spare;
}

static void run_expert(struct pith_tape_forward *f, const struct pith_node *node,
                       struct pith_tape_step *s, const struct group *g)
{
    const size_t dim = node->u.experts.dim, hidden = f->t->model->shape.hidden;
    float *act = s->saved[ACT] + g->first * dim;
    struct pith_tape_rows r = {.linear = g->linear, .n = g->n, .x = gather(f->t, s, g)};
    struct pith_gating gating = pith_tape_gating(f->t, node);
    f->t->treated_of = NULL;
    r.out = s->saved[GATE] + g->first * dim;
    pith_tape_linear(f->t, f->b, &r);
    memcpy(act, r.out, g->n * dim * sizeof *act);
    r.linear++;
    r.out = s->saved[UP] + g->first * dim;
    pith_tape_linear(f->t, f->b, &r);
    gating.gate = act;
    gating.up = r.out;
    gating.count = g->n * dim;
    pith_gate(f->t->backend, &gating);
    f->t->treated_of = NULL;
    r.linear++;
    r.x = act;
    r.out = s->saved[RESULT] + g->first * hidden;
    pith_tape_linear(f->t, f->b, &r);
}

void pith_tape_experts(struct pith_tape_forward *f, const struct pith_node *node,
                       struct pith_tape_step *s)
{
    const struct pith_moe *m = moe_of(f->t);
    const size_t hidden = f->t->model->shape.hidden;
    struct pith_tape_routes *r = &s->routes;
    struct pith_scratch lists = {.chosen = r->chosen, .order = r->order, .begin = r->begin};
    s->other[0] = f->reg[node->u.experts.logits];
    pith_route_rows(m, f->b, node,
                    &(struct pith_routing){.logits = s->other[0],
                                           .n = f->t->n,
                                           .score = f->t->router,
                                           .chosen = r->chosen,
                                           .share = r->share});
    pith_experts_sort(m, &lists, f->t->n);
    memset(s->out, 0, f->t->n * hidden * sizeof *s->out);
    for (uint32_t e = 0; e < m->experts; e++) {
        const struct group g = group_of(node, r, e);
        if (g.n == 0) continue;
        run_expert(f, node, s, &g);
        for (size_t i = g.first; i < g.first + g.n; i++) {
            const float share = m->scales_input ? 1.0f : r->share[r->order[i]];
            float *out = s->out + r->order[i] / m->taken * hidden;
            const float *from = s->saved[RESULT] + i * hidden;
            for (size_t j = 0; j < hidden; j++) out[j] = fmaf(share, from[j], out[j]);
        }
    }
}

void pith_tape_count(const struct pith_tape *t, const struct pith_block *b, size_t *count)
{
    const struct pith_node *node = pith_plan_experts(b->plan);
    const uint32_t *begin = node ? t->step[node - b->plan->node].routes.begin : NULL;
    for (uint32_t e = 0; begin && e < moe_of(t)->experts; e++) count[e] += begin[e + 1] - begin[e];
}

/* --- back ------------------------------------------------------------------------------------- */

/* An expert's results become their gradients, and shares what moves the sum by them. */
static void back_results(struct pith_tape_backward *k, const struct pith_node *node,
                         const struct pith_tape_step *s, const struct group *g)
{
    const struct pith_moe *m = moe_of(k->t);
    const size_t hidden = k->t->model->shape.hidden;
    for (size_t i = g->first; i < g->first + g->n; i++) {
        const uint32_t at = s->routes.order[i];
        const float *dy = k->d[node->out] + at / m->taken * hidden;
        const float share = m->scales_input ? 1.0f : s->routes.share[at];
        float *result = s->saved[RESULT] + i * hidden;
        double dot = 0;
        for (size_t j = 0; j < hidden; j++) {
            dot += (double)dy[j] * (double)result[j];
            result[j] = share * dy[j];
        }
        if (!m->scales_input) s->routes.share[at] = (float)dot;
    }
}

/* The gradient of what an expert's rows read goes to the rows, or by way of the shares. */
static void scatter(struct pith_tape_backward *k, const struct pith_node *node,
                    const struct pith_tape_step *s, const struct group *g)
{
    const struct pith_moe *m = moe_of(k->t);
    const size_t hidden = k->t->model->shape.hidden;
    float *to = pith_tape_grow(k, node->in, hidden);
    for (size_t i = 0; i < g->n; i++) {
        const uint32_t at = s->routes.order[g->first + i];
        const size_t row = at / m->taken * hidden;
        const float *d = k->t->grad_spare + i * hidden;
        const float share = m->scales_input ? s->routes.share[at] : 1.0f;
        double dot = 0;
        for (size_t j = 0; j < hidden; j++) {
            to[row + j] += share * d[j];
            dot += (double)d[j] * (double)s->in[row + j];
        }
        if (m->scales_input) s->routes.share[at] = (float)dot;
    }
}

/* Rows that an expert's linear reads, saved until their gradient is known, if there is a callback.
 */
static void keep_read(const struct pith_tape_backward *k, const float *x, size_t count)
{
    k->t->treated_of = NULL;
    if (k->g->seen) memcpy(k->t->treated, x, count * sizeof *x);
}

static void report_read(const struct pith_tape_backward *k, const struct pith_tape_rows *r)
{
    const struct pith_linear_spec *l = &k->b->plan->linear[r->linear];
    if (!k->g->seen) return;
    k->g->seen(k->g->ctx, &(struct pith_tape_read){.what = PITH_READ_SITE,
                                                   .site = l->site,
                                                   .n = r->n,
                                                   .width = l->cols,
                                                   .x = k->t->treated,
                                                   .d = r->out});
}

/* Gate and up become their gradients, what was their product is overwritten. */
static void back_expert(struct pith_tape_backward *k, const struct pith_node *node,
                        const struct pith_tape_step *s, const struct group *g)
{
    const size_t dim = node->u.experts.dim, hidden = k->t->model->shape.hidden;
    const struct pith_gating gating = pith_tape_gating(k->t, node);
    float *gate = s->saved[GATE] + g->first * dim, *up = s->saved[UP] + g->first * dim;
    float *act = s->saved[ACT] + g->first * dim;
    struct pith_tape_rows r = {
        .linear = g->linear + 2, .n = g->n, .x = act, .place = s->routes.order + g->first};
    k->t->treated_of = NULL;
    r.dy = s->saved[RESULT] + g->first * hidden;
    pith_tape_to_weights(k, &r);
    keep_read(k, act, g->n * dim);
    r.out = act;
    pith_tape_to_input(k, &r);
    report_read(k, &r);
    /* In place: an element's inputs are read before its gradients are written. */
    pith_gate_grad(k->t->backend, &(struct pith_gate_grad){.act = gating.act,
                                                           .limit = gating.limit,
                                                           .alpha = gating.alpha,
                                                           .gate = gate,
                                                           .up = up,
                                                           .dy = act,
                                                           .count = g->n * dim,
                                                           .d_gate = act,
                                                           .d_up = gate});
    k->t->treated_of = NULL;
    r.x = gather(k->t, s, g);
    r.linear = g->linear;
    r.dy = act;
    pith_tape_to_weights(k, &r);
    r.linear++;
    r.dy = gate;
    pith_tape_to_weights(k, &r);
    keep_read(k, r.x, g->n * hidden);
    r.out = k->t->grad_spare;
    pith_tape_to_input(k, &r);
    r.linear--;
    r.dy = act;
    r.accumulate = true;
    pith_tape_to_input(k, &r);
    report_read(k, &r);
    scatter(k, node, s, g);
}

/* From the gradients of a token's shares to those of its logits, d[experts] += . `score` has room
 * for 4 numbers an expert. */
static void back_route(const struct pith_moe *m, const float *logits, const uint32_t *chosen,
                       const float *d_share, float *score, float *d)
{
    float *share = score + 3 * (size_t)m->experts;
    double sum = 0, weighted = 0, dot = 0;
    pith_route_scores(m, logits, chosen, score, share);
    for (uint32_t i = 0; i < m->taken; i++) sum += (double)share[i];
    const double over = pith_route_over(m, sum);
    const double scale = (m->scale != 0 ? m->scale : 1) / over;
    for (uint32_t i = 0; i < m->taken; i++)
        weighted += (double)d_share[i] * (double)share[i] / over;
    const double less = m->renormalised && sum >= m->floor ? weighted : 0;
    for (uint32_t i = 0; i < m->taken; i++)
        dot += ((double)d_share[i] - less) * scale * (double)share[i];
    for (uint32_t i = 0; i < m->taken; i++) {
        const double s = (double)share[i], ds = ((double)d_share[i] - less) * scale;
        if (m->router == PITH_ROUTER_SIGMOID) d[chosen[i]] += (float)(ds * s * (1 - s));
        else d[chosen[i]] += (float)(s * ds);
    }
    if (m->router == PITH_ROUTER_TOP)
        for (uint32_t i = 0; i < m->taken; i++) d[chosen[i]] -= (float)((double)share[i] * dot);
    if (m->router == PITH_ROUTER_SOFTMAX)
        for (uint32_t e = 0; e < m->experts; e++) d[e] -= (float)((double)score[e] * dot);
}

void pith_back_experts(struct pith_tape_backward *k, const struct pith_node *node,
                       const struct pith_tape_step *s)
{
    const struct pith_moe *m = moe_of(k->t);
    const struct pith_tape_routes *r = &s->routes;
    if (k->g->seen)
        k->g->seen(k->g->ctx, &(struct pith_tape_read){.what = PITH_READ_MIXTURE,
                                                       .n = k->t->n,
                                                       .width = k->t->model->shape.hidden,
                                                       .x = s->out,
                                                       .d = k->d[node->out]});
    for (uint32_t e = 0; e < m->experts; e++) {
        const struct group g = group_of(node, r, e);
        if (g.n == 0) continue;
        back_results(k, node, s, &g);
        back_expert(k, node, s, &g);
    }
    float *d = pith_tape_grow(k, node->u.experts.logits, m->experts);
    const uint32_t gains = node->u.experts.gains;
    for (size_t i = 0; gains != PITH_NO_PART && i < k->t->n * m->taken; i++)
        r->share[i] *= k->b->vector[gains][r->chosen[i]];
    for (size_t i = 0; i < k->t->n; i++)
        back_route(m, s->other[0] + i * m->experts, r->chosen + i * m->taken,
                   r->share + i * m->taken, k->t->router, d + i * m->experts);
    if (k->g->rivals) pith_back_rivals(k, node, s);
    k->d[node->out] = NULL;
}
