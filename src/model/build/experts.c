/* A mixture of experts: a router, the experts, and what all tokens share. */
#include "model/build/build.h"

#include <stdio.h>

bool pith_layer_is_sparse(const struct pith_plan_maker *m)
{
    return m->shape->moe.experts && pith_layer_in(&m->shape->moe.layers, m->layer);
}

void pith_build_correction(struct pith_plan_maker *m, struct pith_experts_spec *x,
                           const char *tensor, bool row)
{
    const struct pith_moe *moe = &m->shape->moe;
    if (!pith_layer_is_sparse(m) || !moe->correction) return;
    x->corrected = true;
    x->correction = pith_plan_vector(m, tensor, moe->experts);
    if (!m->failed && row) m->plan->vector[x->correction].rows = 1;
}

uint32_t pith_build_router(struct pith_plan_maker *m, const struct pith_branch *b,
                           const char *router)
{
    const struct pith_moe *moe = &m->shape->moe;
    const uint32_t site = pith_plan_site(m, "router", m->shape->hidden, b->fold);
    const uint32_t linear = pith_build_linear(m, router, moe->experts, moe->router_bias,
                                              (const unsigned[3]){b->in, LOGITS, OUT});
    if (!m->failed) m->plan->linear[linear].stays = true;
    return site;
}

/* --- the experts ------------------------------------------------------------------------------ */

static uint32_t begin_site(struct pith_plan_maker *m, const char *name, uint32_t dim,
                           struct pith_fold fold, uint32_t expert)
{
    char site[32];
    (void)snprintf(site, sizeof site, "experts.%u.%s", expert, name);
    const uint32_t at = pith_plan_site(m, site, dim, fold);
    if (!m->failed) m->plan->site[at].expert = expert;
    return at;
}

static uint32_t add_linear(struct pith_plan_maker *m, const char *pattern, uint32_t expert,
                           uint32_t rows)
{
    char name[PITH_PART_NAME];
    (void)snprintf(name, sizeof name, pattern, expert);
    return pith_plan_linear(m, name, rows, m->shape->moe.expert_bias);
}

static void add_expert(struct pith_plan_maker *m, const struct pith_experts_spec *x,
                       uint32_t expert, struct pith_fold fold)
{
    const uint32_t ffn = m->shape->moe.ffn, hidden = m->shape->hidden;
    (void)begin_site(m, "gate_up", hidden, fold, expert);
    (void)add_linear(m, x->gate, expert, ffn);
    const uint32_t up = add_linear(m, x->up, expert, ffn);
    (void)begin_site(m, "down", ffn, pith_build_fold_up(m, up), expert);
    const uint32_t down = add_linear(m, x->down, expert, hidden);
    if (m->failed) return;
    m->plan->linear[down].by_cols = true;
    m->plan->linear[down].to_stream = !x->normed_after;
}

/* How the experts, whose linears begin at `first`, may be stored together. */
static void add_fused(struct pith_plan_maker *m, const struct pith_experts_spec *x, uint32_t first)
{
    const char *const name[2] = {x->fused_gate_up, x->fused_down};
    const char *const bias[2] = {x->fused_gate_up_bias, x->fused_down_bias};
    for (uint32_t i = 0; i < 2 && name[i]; i++) {
        struct pith_fused_spec spec = {.first = first + 2 * i,
                                       .each = 3,
                                       .experts = m->shape->moe.experts,
                                       .parts = i ? 1 : 2,
                                       .transposed = x->fused_transposed,
                                       .either = x->fused_either,
                                       .only = x->fused_only,
                                       .adjacent = x->fused_adjacent && i == 0};
        (void)snprintf(spec.name, sizeof spec.name, "%s", name[i]);
        if (bias[i]) (void)snprintf(spec.bias, sizeof spec.bias, "%s", bias[i]);
        pith_plan_fused(m, &spec);
    }
}

void pith_build_experts_sum(struct pith_plan_maker *m, const struct pith_branch *b,
                            const struct pith_experts_spec *x)
{
    const struct pith_moe *moe = &m->shape->moe;
    const uint32_t hidden = m->shape->hidden;
    struct pith_node n = {.kind = PITH_NODE_EXPERTS, .in = (uint8_t)b->in, .out = (uint8_t)b->out};
    n.u.experts.logits = LOGITS;
    n.u.experts.rows = ROWS;
    n.u.experts.gate = GATE;
    n.u.experts.up = UP;
    n.u.experts.result = RESULT;
    n.u.experts.first = m->plan->linears;
    n.u.experts.each = 3;
    n.u.experts.dim = moe->ffn;
    n.u.experts.correction = x->corrected ? x->correction : PITH_NO_PART;
    n.u.experts.gains = x->gains ? pith_plan_vector(m, x->gains, moe->experts) : PITH_NO_PART;
    for (uint32_t e = 0; e < moe->experts && !m->failed; e++) add_expert(m, x, e, b->fold);
    add_fused(m, x, n.u.experts.first);
    pith_plan_reg(m, GATE, moe->ffn);
    pith_plan_reg(m, UP, moe->ffn);
    pith_plan_reg(m, ROWS, hidden);
    pith_plan_reg(m, b->out, hidden);
    /* RESULT is also the router's work space: two numbers an expert. */
    pith_plan_reg(m, RESULT, hidden > 2 * moe->experts ? hidden : 2 * moe->experts);
    pith_plan_node(m, n);
}

/* --- what all tokens share -------------------------------------------------------------------- */

/* A sigmoid of one number a token multiplies it. */
static uint32_t add_gate(struct pith_plan_maker *m, const struct pith_branch *b, const char *name)
{
    (void)pith_plan_site(m, "shared.gate", m->shape->hidden, b->fold);
    const uint32_t gate =
        pith_build_linear(m, name, 1, false, (const unsigned[3]){b->in, LOGITS, RESULT});
    if (!m->failed) m->plan->linear[gate].stays = true;
    return LOGITS;
}

/* Added to the experts' sum. */
static void add_shared(struct pith_plan_maker *m, const struct pith_branch *b,
                       const struct pith_experts_spec *x)
{
    static const char *const part[] = {"gate_proj", "up_proj", "down_proj"};
    const struct pith_branch own = {.in = b->in, .out = BRANCH, .fold = b->fold};
    char name[3][PITH_PART_NAME];
    for (int i = 0; i < 3; i++)
        (void)snprintf(name[i], sizeof name[i], "%s.%s", x->shared ? x->shared : "", part[i]);
    const struct pith_mlp_spec shared = {.gate = name[0],
                                         .up = name[1],
                                         .down = x->shared_down ? x->shared_down : name[2],
                                         .gate_up = x->shared_gate_up,
                                         .site = "shared.gate_up",
                                         .down_site = "shared.down",
                                         .ffn = m->shape->moe.shared_ffn,
                                         .bias = x->shared_bias};
    (void)pith_build_mlp(m, &own, &shared);
    pith_build_mix(m, m->shape->moe.shared_gate ? add_gate(m, b, x->shared_gate) : PITH_NO_PART);
}

void pith_build_experts(struct pith_plan_maker *m, const struct pith_branch *b,
                        const struct pith_experts_spec *x)
{
    const uint32_t site = pith_build_router(m, b, x->router);
    pith_build_experts_sum(m, b, x);
    if (m->shape->moe.shared_ffn) add_shared(m, b, x);
    pith_plan_module(m, site, b->out);
}
