/* Mixtures of experts: which experts a token takes, and their sum. */
#include "model/nodes/nodes.h"

#include "backend/layer.h"
#include "kern/ops.h"
#include "model/grad/block_grad.h"

#include <math.h>
#include <string.h>

/* --- routing ---------------------------------------------------------------------------------- */

static void softmax(uint32_t n, const float *x, float *y)
{
    float most = x[0];
    double sum = 0;
    for (uint32_t i = 1; i < n; i++) most = x[i] > most ? x[i] : most;
    for (uint32_t i = 0; i < n; i++) sum += (double)(y[i] = pith_exp_f32(x[i] - most));
    for (uint32_t i = 0; i < n; i++) y[i] = (float)((double)y[i] / sum);
}

/* The largest of score[n], the first of equals. */
static uint32_t best_of(uint32_t n, const float *score)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (score[i] > score[best]) best = i;
    return best;
}

/* What a group of `each` experts is judged by. */
static float group_score(const struct pith_moe *m, uint32_t each, const float *score)
{
    const uint32_t first = best_of(each, score);
    float second = -INFINITY;
    if (!m->group_best_two || each < 2) return score[first];
    for (uint32_t i = 0; i < each; i++)
        if (i != first && score[i] > second) second = score[i];
    return score[first] + second;
}

/* Experts outside the best groups can no longer be chosen. */
static void keep_groups(const struct pith_moe *m, float *score)
{
    const uint32_t each = m->experts / m->groups;
    for (uint32_t dropped = m->groups - m->groups_taken; dropped > 0; dropped--) {
        uint32_t worst = m->groups;
        float least = INFINITY;
        for (uint32_t g = 0; g < m->groups; g++) {
            const float s = group_score(m, each, score + g * each);
            if (s == -INFINITY || s > least) continue; /* the last of equals goes first */
            least = s;
            worst = g;
        }
        if (worst == m->groups) return;
        for (uint32_t i = 0; i < each; i++) score[worst * each + i] = -INFINITY;
    }
}

static void sort_chosen(uint32_t n, uint32_t *chosen)
{
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = i; j > 0 && chosen[j - 1] > chosen[j]; j--) {
            const uint32_t t = chosen[j];
            chosen[j] = chosen[j - 1];
            chosen[j - 1] = t;
        }
}

static bool is_chosen(const uint32_t *chosen, uint32_t n, uint32_t expert)
{
    for (uint32_t i = 0; i < n; i++)
        if (chosen[i] == expert) return true;
    return false;
}

static void choose(const struct pith_moe *m, float *score, uint32_t *chosen)
{
    if (m->groups > 1) keep_groups(m, score);
    for (uint32_t k = 0; k < m->taken; k++) {
        chosen[k] = best_of(m->experts, score);
        score[chosen[k]] = -INFINITY;
        /* Numbers that are none would choose one expert twice; any others do as well. */
        while (is_chosen(chosen, k, chosen[k])) chosen[k] = (chosen[k] + 1) % m->experts;
    }
    sort_chosen(m->taken, chosen);
}

static void score_all(const struct pith_moe *m, const float *logits, float *score)
{
    if (m->router == PITH_ROUTER_SOFTMAX) softmax(m->experts, logits, score);
    for (uint32_t i = 0; i < m->experts; i++) {
        if (m->router == PITH_ROUTER_SIGMOID) score[i] = 1.0f / (1.0f + pith_exp_f32(-logits[i]));
        else if (m->router == PITH_ROUTER_TOP) score[i] = logits[i];
    }
}

/* Of those chosen; work holds a number for each of them. */
static void take_scores(const struct pith_moe *m, const float *score, const uint32_t *chosen,
                        float *work, float *share)
{
    for (uint32_t k = 0; k < m->taken; k++) share[k] = score[chosen[k]];
    if (m->router == PITH_ROUTER_TOP)
        softmax(m->taken, memcpy(work, share, m->taken * sizeof *work), share);
}

void pith_route_scores(const struct pith_moe *m, const float *logits, const uint32_t *chosen,
                       float *score, float *share)
{
    score_all(m, logits, score);
    take_scores(m, score, chosen, score + m->experts, share);
}

double pith_route_over(const struct pith_moe *m, double sum)
{
    const double plus = m->plus > 0 ? m->plus : m->floor > 0 ? 0 : 1e-20;
    return m->renormalised ? fmax(sum, m->floor) + plus : 1;
}

void pith_route(const struct pith_moe *m, const float *logits, const float *correction,
                float *score, uint32_t *chosen, float *share)
{
    float *s = score, *by = score + m->experts;
    double sum = 0;
    score_all(m, logits, s);
    for (uint32_t i = 0; i < m->experts; i++) by[i] = s[i] + (correction ? correction[i] : 0.0f);
    choose(m, by, chosen);
    take_scores(m, s, chosen, by, share);
    for (uint32_t k = 0; k < m->taken; k++) sum += (double)share[k];
    const double over = pith_route_over(m, sum);
    for (uint32_t k = 0; k < m->taken; k++)
        share[k] = (float)((double)share[k] / over * (m->scale != 0 ? m->scale : 1));
}

void pith_route_rows(const struct pith_moe *m, const struct pith_block *b,
                     const struct pith_node *node, const struct pith_routing *r)
{
    const uint32_t correction = node->u.experts.correction, gains = node->u.experts.gains;
    for (size_t i = 0; i < r->n; i++)
        pith_route(m, r->logits + i * m->experts,
                   correction == PITH_NO_PART ? NULL : b->vector[correction], r->score,
                   r->chosen + i * m->taken, r->share + i * m->taken);
    for (size_t i = 0; gains != PITH_NO_PART && i < r->n * m->taken; i++)
        r->share[i] *= b->vector[gains][r->chosen[i]];
}

/* Without a correction, the order of a softmax is that of its logits. */
static bool by_logits(const struct pith_moe *m, bool corrected)
{
    return m->router == PITH_ROUTER_TOP || (m->router == PITH_ROUTER_SOFTMAX && !corrected);
}

static uint32_t least_of(const float *score, const uint32_t *chosen, uint32_t n)
{
    uint32_t least = chosen[0];
    for (uint32_t i = 1; i < n; i++)
        if (score[chosen[i]] < score[least]) least = chosen[i];
    return least;
}

void pith_route_rival(const struct pith_moe *m, const float *logits, const float *correction,
                      const uint32_t *chosen, float *score, struct pith_rival *out)
{
    float *s = score, *by = score + m->experts;
    score_all(m, logits, s);
    for (uint32_t i = 0; i < m->experts; i++) by[i] = s[i] + (correction ? correction[i] : 0.0f);
    out->goes = least_of(by, chosen, m->taken);
    const float last = by[out->goes];
    if (m->groups > 1) keep_groups(m, by);
    for (uint32_t i = 0; i < m->taken; i++) by[chosen[i]] = -INFINITY;
    out->comes = best_of(m->experts, by);
    const float next = by[out->comes];
    const bool logit = by_logits(m, correction != NULL);
    out->margin = next == -INFINITY ? INFINITY
                  : logit           ? logits[out->goes] - logits[out->comes]
                                    : last - next;
    out->weight = correction && s[out->goes] > 0 ? s[out->comes] / s[out->goes] : 1;
}

void pith_route_rival_grad(const struct pith_moe *m, const float *logits, bool corrected,
                           float *score, const struct pith_rival_grad *g)
{
    const uint32_t goes = g->rival->goes, comes = g->rival->comes;
    float dg = 1, dc = 1;
    if (!by_logits(m, corrected)) {
        score_all(m, logits, score);
        dg = score[goes], dc = score[comes];
        if (m->router == PITH_ROUTER_SIGMOID) dg *= 1 - dg, dc *= 1 - dc;
        else
            for (uint32_t e = 0; e < m->experts; e++)
                g->d[e] -= g->d_margin * score[e] * (dg - dc);
    }
    g->d[goes] += g->d_margin * dg;
    g->d[comes] -= g->d_margin * dc;
}

/* --- running ---------------------------------------------------------------------------------- */

void pith_experts_sort(const struct pith_moe *m, struct pith_scratch *s, size_t n)
{
    const size_t places = n * m->taken;
    memset(s->begin, 0, (m->experts + 1) * sizeof *s->begin);
    for (size_t i = 0; i < places; i++) s->begin[s->chosen[i] + 1]++;
    for (uint32_t e = 0; e < m->experts; e++) s->begin[e + 1] += s->begin[e];
    for (size_t i = 0; i < places; i++) s->order[s->begin[s->chosen[i]]++] = (uint32_t)i;
    for (uint32_t e = m->experts; e > 0; e--) s->begin[e] = s->begin[e - 1];
    s->begin[0] = 0;
}

/* One expert over rows[r->n][hidden], into the node's result. */
static void run_expert(struct pith_node_run *r, const struct pith_node *node, uint32_t expert,
                       float *rows)
{
    const struct pith_layer_plan *l = r->block->plan;
    const uint32_t first = node->u.experts.first + expert * node->u.experts.each;
    const uint32_t down = first + node->u.experts.each - 1;
    float *gate = r->reg[node->u.experts.gate], *result = r->reg[node->u.experts.result];
    pith_node_meet_site(r, l->linear[first].site, rows, result);
    if (r->stopped) return;
    pith_node_linear(r, first, gate);
    pith_node_linear(r, first + 1, r->reg[node->u.experts.up]);
    pith_node_gate(r, gate, r->reg[node->u.experts.up], r->n * node->u.experts.dim);
    pith_node_meet_site(r, l->linear[down].site, gate, gate);
    pith_node_linear(r, down, result);
}

/* What the expert of a place reads. */
static void gather_row(const struct pith_node_run *r, const struct pith_node *node, uint32_t at,
                       float *row)
{
    const struct pith_shape *s = &r->pass->model->shape;
    const float *from = r->reg[node->in] + at / s->moe.taken * (size_t)s->hidden;
    const float share = s->moe.scales_input ? r->pass->scratch->share[at] : 1.0f;
    for (uint32_t i = 0; i < s->hidden; i++) row[i] = from[i] * share;
}

/* Adds a place's share of its expert's result to its row of out. */
static void add_share(const struct pith_node_run *r, const struct pith_node *node, uint32_t at,
                      const float *result)
{
    const struct pith_shape *s = &r->pass->model->shape;
    float *out = r->reg[node->out] + at / s->moe.taken * (size_t)s->hidden;
    const float share = s->moe.scales_input ? 1.0f : r->pass->scratch->share[at];
    for (size_t j = 0; j < s->hidden; j++) out[j] = fmaf(share, result[j], out[j]);
}

/* Gathers the rows that take an expert, and adds its shares to out. */
static void add_expert(struct pith_node_run *r, const struct pith_node *node, uint32_t expert)
{
    const struct pith_scratch *s = r->pass->scratch;
    const size_t hidden = r->pass->model->shape.hidden, all = r->n;
    const uint32_t *places = s->order + s->begin[expert];
    float *rows = r->reg[node->u.experts.rows], *result = r->reg[node->u.experts.result];
    r->n = s->begin[expert + 1] - s->begin[expert];
    for (size_t i = 0; i < r->n; i++) gather_row(r, node, places[i], rows + i * hidden);
    run_expert(r, node, expert, rows);
    for (size_t i = 0; i < r->n && !r->stopped; i++)
        add_share(r, node, places[i], result + i * hidden);
    r->n = all;
}

/* --- few rows, all experts at once ------------------------------------------------------------ */

/* Whether the experts of all places can run side by side: no two rows take the same, nobody looks
 * at what they read, and their matrices take it as it is. */
static bool runs_at_once(const struct pith_node_run *r, const struct pith_node *node)
{
    const struct pith_scratch *s = r->pass->scratch;
    const struct pith_moe *m = &r->pass->model->shape.moe;
    const size_t places = r->n * m->taken;
    if (r->pass->tap || places > s->rows || places > PITH_PRODUCTS / 2) return false;
    for (uint32_t e = 0; e < m->experts; e++)
        if (s->begin[e + 1] > s->begin[e] + 1) return false;
    for (size_t i = 0; i < places; i++)
        for (uint32_t k = 0; k < node->u.experts.each; k++) {
            const uint32_t at = node->u.experts.first + s->chosen[i] * node->u.experts.each + k;
            const struct pith_linear_weights *l = &r->block->linear[at];
            const struct pith_input in = pith_weight_input(&l->w);
            if (in.grid.format || in.hadamard > 1 || l->hadamard > 1) return false;
        }
    return true;
}

static struct pith_product product_of(const struct pith_node_run *r, uint32_t linear,
                                      const float *x, float *y)
{
    const struct pith_linear_weights *l = &r->block->linear[linear];
    return (struct pith_product){&l->w, l->bias, x, y};
}

/* The inputs of all places' experts, gathered where shares scale them. */
static const float *input_of(struct pith_node_run *r, const struct pith_node *node, uint32_t at)
{
    const struct pith_shape *s = &r->pass->model->shape;
    float *row = r->reg[node->u.experts.rows] + at * (size_t)s->hidden;
    if (!s->moe.scales_input) return r->reg[node->in] + at / s->moe.taken * (size_t)s->hidden;
    gather_row(r, node, at, row);
    return row;
}

/* Place i is row i of each register. */
static void run_at_once(struct pith_node_run *r, const struct pith_node *node)
{
    const struct pith_shape *shape = &r->pass->model->shape;
    const struct pith_scratch *s = r->pass->scratch;
    const size_t dim = node->u.experts.dim, hidden = shape->hidden;
    const uint32_t taken = shape->moe.taken, places = (uint32_t)r->n * taken;
    float *gate = r->reg[node->u.experts.gate], *up = r->reg[node->u.experts.up];
    float *result = r->reg[node->u.experts.result];
    struct pith_product first[PITH_PRODUCTS] = {{0}}, last[PITH_PRODUCTS / 2] = {{0}};
    size_t count = 0;
    for (uint32_t i = 0; i < places; i++) {
        const uint32_t at = node->u.experts.first + s->chosen[i] * node->u.experts.each;
        const float *x = input_of(r, node, i);
        first[count++] = product_of(r, at, x, gate + i * dim);
        first[count++] = product_of(r, at + 1, x, up + i * dim);
        last[i] = product_of(r, at + node->u.experts.each - 1, gate + i * dim, result + i * hidden);
    }
    pith_linear_products(r->pass->backend, first, count);
    pith_node_gate(r, gate, up, places * dim);
    pith_linear_products(r->pass->backend, last, places);
    for (uint32_t i = 0; i < places; i++) add_share(r, node, i, result + i * hidden);
}

/* The experts of r->n rows, into the scratch. */
static void choose_rows(const struct pith_node_run *r, const struct pith_node *node,
                        uint32_t *chosen)
{
    const struct pith_routing routing = {.logits = r->reg[node->u.experts.logits],
                                         .n = r->n,
                                         .score = r->reg[node->u.experts.result],
                                         .chosen = chosen,
                                         .share = r->pass->scratch->share};
    pith_route_rows(&r->pass->model->shape.moe, r->block, node, &routing);
}

enum pith_status pith_node_experts(struct pith_node_run *r, const struct pith_node *node,
                                   struct pith_error *err)
{
    const struct pith_moe *m = &r->pass->model->shape.moe;
    struct pith_scratch *s = r->pass->scratch;
    (void)err;
    choose_rows(r, node, s->chosen);
    memset(r->reg[node->out], 0, r->n * r->pass->model->shape.hidden * sizeof(float));
    if (r->block->idle) return PITH_OK;
    pith_experts_sort(m, s, r->n);
    if (runs_at_once(r, node)) {
        run_at_once(r, node);
        return PITH_OK;
    }
    for (uint32_t e = 0; e < m->experts && !r->stopped; e++)
        if (s->begin[e + 1] > s->begin[e]) add_expert(r, node, e);
    return PITH_OK;
}

/* --- a module, one expert at a time ----------------------------------------------------------- */

/* Nodes [from, to) of the module, from and to its rows. */
static struct pith_nodes module_nodes(const struct pith_pass *p, const struct pith_block *b,
                                      const struct pith_module_rows *rows)
{
    const struct pith_site_spec *s = &b->plan->site[pith_plan_router(b->plan)];
    struct pith_nodes part = pith_nodes_begin(p, b, NULL, rows->n);
    part.from = s->from;
    part.to = s->to;
    part.reg[b->plan->node[s->from].in] = (float *)(uintptr_t)rows->x; /* only read */
    part.reg[s->result] = rows->out;
    return part;
}

enum pith_status pith_module_begin(const struct pith_pass *p, const struct pith_block *b,
                                   const struct pith_module_rows *rows, struct pith_error *err)
{
    const struct pith_moe *m = &p->model->shape.moe;
    const struct pith_nodes part = module_nodes(p, b, rows);
    PITH_TRY(pith_experts_choose(p, b, &part, rows->chosen, err));
    memcpy(rows->share, p->scratch->share, rows->n * m->taken * sizeof *rows->share);
    memset(rows->out, 0, rows->n * p->model->shape.hidden * sizeof *rows->out);
    return PITH_OK;
}

void pith_module_expert(const struct pith_pass *p, const struct pith_block *b, uint32_t expert,
                        const struct pith_module_rows *rows)
{
    const struct pith_moe *m = &p->model->shape.moe;
    struct pith_scratch *s = p->scratch;
    const struct pith_nodes part = module_nodes(p, b, rows);
    struct pith_node_run run = {
        .pass = p, .block = b, .reg = part.reg, .n = part.n, .site = PITH_NO_PART};
    memcpy(s->chosen, rows->chosen, rows->n * m->taken * sizeof *s->chosen);
    memcpy(s->share, rows->share, rows->n * m->taken * sizeof *s->share);
    pith_experts_sort(m, s, rows->n);
    if (s->begin[expert + 1] > s->begin[expert])
        add_expert(&run, pith_plan_experts(b->plan), expert);
}

enum pith_status pith_module_end(const struct pith_pass *p, const struct pith_block *b,
                                 const struct pith_module_rows *rows, struct pith_error *err)
{
    struct pith_nodes part = module_nodes(p, b, rows);
    part.from = (uint32_t)(pith_plan_experts(b->plan) - b->plan->node) + 1;
    return pith_nodes_run(p, b, &part, NULL, err);
}

enum pith_status pith_experts_choose(const struct pith_pass *p, const struct pith_block *b,
                                     const struct pith_nodes *r, uint32_t *chosen,
                                     struct pith_error *err)
{
    struct pith_pass quiet = *p;
    struct pith_nodes part = *r;
    const struct pith_node *node = pith_plan_experts(b->plan);
    const struct pith_node_run run = {.pass = p, .block = b, .reg = part.reg, .n = part.n};
    quiet.tap = NULL;
    part.to = (uint32_t)(node - b->plan->node);
    PITH_TRY(pith_nodes_run(&quiet, b, &part, NULL, err));
    choose_rows(&run, node, chosen);
    return PITH_OK;
}

enum pith_status pith_expert_tap(const struct pith_pass *p, const struct pith_block *b,
                                 uint32_t expert, float *x, size_t n, struct pith_error *err)
{
    const struct pith_node *node = pith_plan_experts(b->plan);
    struct pith_node_run run = {
        .pass = p, .block = b, .reg = p->scratch->reg, .n = n, .site = PITH_NO_PART};
    if (n > p->scratch->rows)
        return pith_fail(err, PITH_ARG, "%zu tokens in a work space for %zu", n, p->scratch->rows);
    run_expert(&run, node, expert, x);
    return PITH_OK;
}
