/* Latent attention: queries meet keys in the latent that keys and values come from. */
#include "model/build/build.h"

/* Whatever "rms_norm_eps" says. */
static const double latent_eps = 1e-6;

/* Normalises a latent in place; what rescales it. */
static struct pith_fold norm(struct pith_plan_maker *m, const char *name, unsigned reg,
                             uint32_t dim)
{
    struct pith_node n = {.kind = PITH_NODE_NORM, .in = (uint8_t)reg, .out = (uint8_t)reg};
    n.u.norm.vector = pith_build_vector(m, name, dim);
    n.u.norm.bias = PITH_NO_PART;
    n.u.norm.heads = 1;
    n.u.norm.dim = dim;
    n.u.norm.eps = latent_eps;
    pith_plan_node(m, n);
    return (struct pith_fold){.kind = PITH_FOLD_VECTOR, .from = n.u.norm.vector};
}

static void rotate(struct pith_plan_maker *m, unsigned reg, uint32_t heads, uint32_t before)
{
    const struct pith_latent_shape *l = &m->shape->latent;
    struct pith_node n = {.kind = PITH_NODE_ROPE, .in = (uint8_t)reg, .out = (uint8_t)reg};
    n.u.rope.heads = heads;
    n.u.rope.stride = before + l->rope;
    n.u.rope.offset = before;
    n.u.rope.dim = l->rope;
    n.u.rope.adjacent = l->adjacent;
    pith_plan_node(m, n);
}

/* The queries' last linear. */
static void note_queries(struct pith_plan_maker *m, uint32_t linear)
{
    if (m->failed) return;
    m->plan->linear[linear].scores = true;
    m->plan->linear[linear].heads = m->shape->heads;
}

/* The latent into V, the rotary key into K. */
static void project_latent(struct pith_plan_maker *m, const struct pith_branch *b,
                           const struct pith_latent_spec *names)
{
    const struct pith_latent_shape *l = &m->shape->latent;
    const uint32_t kv = pith_build_linear(m, names->kv_a, l->rank + l->rope, names->bias,
                                          (const unsigned[3]){b->in, FUSED, OUT});
    if (!m->failed) m->plan->linear[kv].copied = true;
    pith_build_split(m, 2, (const uint32_t[2]){l->rank, l->rope}, (const uint8_t[2]){V, K});
}

/* Queries into Q, and the above; the site that begins it all. */
static uint32_t project(struct pith_plan_maker *m, const struct pith_branch *b,
                        const struct pith_latent_spec *names)
{
    const struct pith_latent_shape *l = &m->shape->latent;
    const uint32_t queries = m->shape->heads * (l->nope + l->rope);
    const uint32_t site = pith_plan_site(m, "qkv", m->shape->hidden, b->fold);
    if (l->q_rank == 0) {
        note_queries(
            m, pith_build_linear(m, names->q, queries, false, (const unsigned[3]){b->in, Q, OUT}));
        project_latent(m, b, names);
        return site;
    }
    (void)pith_build_linear(m, names->q_a, l->q_rank, names->bias,
                            (const unsigned[3]){b->in, GATE, OUT});
    project_latent(m, b, names);
    const struct pith_fold fold = norm(m, names->q_a_norm, GATE, l->q_rank);
    (void)pith_plan_site(m, "q_b", l->q_rank, fold);
    note_queries(
        m, pith_build_linear(m, names->q_b, queries, false, (const unsigned[3]){GATE, Q, GATE}));
    return site;
}

/* The node that both ways between heads and latents have in common. */
static struct pith_node between(const struct pith_plan_maker *m, enum pith_node_kind kind)
{
    const struct pith_latent_shape *l = &m->shape->latent;
    struct pith_node n = {.kind = kind};
    n.u.latent.latent = V;
    n.u.latent.rotary = K;
    n.u.latent.key = UP;
    n.u.latent.heads = m->shape->heads;
    n.u.latent.nope = l->nope;
    n.u.latent.rope = l->rope;
    n.u.latent.value = l->value;
    n.u.latent.rank = l->rank;
    return n;
}

static void attend_latents(struct pith_plan_maker *m)
{
    const struct pith_latent_shape *l = &m->shape->latent;
    struct pith_node a = {.kind = PITH_NODE_ATTEND, .in = FUSED, .out = GATE};
    a.u.attend.k = UP;
    a.u.attend.v = V;
    a.u.attend.heads = m->shape->heads;
    a.u.attend.scale = (float)m->shape->scores.scale;
    a.u.attend.sinks = PITH_NO_PART;
    pith_plan_reg(m, GATE, m->shape->heads * l->rank);
    pith_plan_node(m, a);
    m->plan->state = (struct pith_state_spec){
        .kind = PITH_STATE_LATENT, .heads = 1, .key = l->rank + l->rope, .value = l->rank};
}

/* Queries meet keys, and weights values, in the latent. */
static void attend(struct pith_plan_maker *m, const struct pith_latent_spec *names,
                   struct pith_fold fold)
{
    const struct pith_latent_shape *l = &m->shape->latent;
    const uint32_t heads = m->shape->heads;
    struct pith_node n = between(m, PITH_NODE_ABSORB);
    const uint32_t site = pith_plan_site(m, "kv_b", l->rank, fold);
    n.in = Q;
    n.out = FUSED;
    n.u.latent.linear = pith_plan_linear(m, names->kv_b, heads * (l->nope + l->value), false);
    if (!m->failed) {
        m->plan->site[site].from = m->plan->nodes;
        m->plan->linear[n.u.latent.linear].heads = heads;
    }
    pith_plan_reg(m, FUSED, heads * (l->rank + l->rope));
    pith_plan_reg(m, UP, l->rank + l->rope);
    pith_plan_node(m, n);
    attend_latents(m);
    n.kind = PITH_NODE_EXPAND;
    n.in = GATE;
    n.out = Q;
    pith_plan_reg(m, Q, heads * l->value);
    pith_plan_node(m, n);
}

void pith_build_latent(struct pith_plan_maker *m, const struct pith_branch *b,
                       const struct pith_latent_spec *names)
{
    const struct pith_latent_shape *l = &m->shape->latent;
    const uint32_t heads = m->shape->heads;
    const uint32_t site = project(m, b, names);
    const struct pith_fold latent = norm(m, names->kv_a_norm, V, l->rank);
    rotate(m, Q, heads, l->nope);
    rotate(m, K, 1, 0);
    attend(m, names, latent);
    (void)pith_plan_site(m, "o", heads * l->value, (struct pith_fold){0});
    pith_build_out(m, names->o, names->bias, heads, (const unsigned[3]){Q, b->out, Q});
    pith_plan_module(m, site, b->out);
}
