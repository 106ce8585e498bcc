/* Latent attention: its plan, and reading its sizes. */
#include "model/family/regs.h"

#include "model/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Whatever "rms_norm_eps" says. */
static const double latent_eps = 1e-6;

static const struct pith_family_latent *names_of(const struct pith_plan_maker *m)
{
    return &m->arch->family->latent;
}

static uint32_t compute(struct pith_plan_maker *m, const char *name, uint32_t rows, bool bias,
                        const unsigned reg[3])
{
    const uint32_t linear = pith_plan_linear(m, name, rows, bias);
    pith_plan_compute(m, reg[0], reg[1], reg[2]);
    return linear;
}

/* Normalises a latent in place; what rescales it. */
static struct pith_fold norm(struct pith_plan_maker *m, const char *name, unsigned reg,
                             uint32_t dim)
{
    char whole[PITH_PART_NAME];
    struct pith_node n = {.kind = PITH_NODE_NORM, .in = (uint8_t)reg, .out = (uint8_t)reg};
    (void)snprintf(whole, sizeof whole, "%s.weight", name);
    n.u.norm.vector = pith_plan_vector(m, whole, dim);
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

/* Queries into Q, the latent into V, the rotary key into K; the site that begins it all. */
static uint32_t project(struct pith_plan_maker *m, const struct pith_family_branch *b)
{
    const struct pith_family_latent *f = names_of(m);
    const struct pith_shape *s = m->shape;
    const struct pith_latent_shape *l = &s->latent;
    const uint32_t queries = s->heads * (l->nope + l->rope);
    const uint32_t site = pith_plan_site(m, "qkv", s->hidden, b->fold);
    if (l->q_rank)
        (void)compute(m, f->q_a, l->q_rank, s->o_bias, (const unsigned[3]){b->in, GATE, OUT});
    else note_queries(m, compute(m, f->q, queries, false, (const unsigned[3]){b->in, Q, OUT}));
    const uint32_t kv =
        compute(m, f->kv_a, l->rank + l->rope, s->o_bias, (const unsigned[3]){b->in, FUSED, OUT});
    if (!m->failed) m->plan->linear[kv].copied = true;
    struct pith_node n = {.kind = PITH_NODE_SPLIT, .in = FUSED, .out = FUSED};
    n.u.split.parts = 2;
    n.u.split.dim[0] = l->rank;
    n.u.split.dim[1] = l->rope;
    n.u.split.to[0] = V;
    n.u.split.to[1] = K;
    pith_plan_reg(m, V, l->rank);
    pith_plan_reg(m, K, l->rope);
    pith_plan_node(m, n);
    if (l->q_rank) {
        const struct pith_fold fold = norm(m, f->q_a_norm, GATE, l->q_rank);
        (void)pith_plan_site(m, "q_b", l->q_rank, fold);
        note_queries(m, compute(m, f->q_b, queries, false, (const unsigned[3]){GATE, Q, GATE}));
    }
    return site;
}

/* Queries meet keys, and weights values, in the latent. */
static void attend(struct pith_plan_maker *m, struct pith_fold fold)
{
    const struct pith_shape *s = m->shape;
    const struct pith_latent_shape *l = &s->latent;
    struct pith_node n = {.kind = PITH_NODE_ABSORB, .in = Q, .out = FUSED};
    const uint32_t site = pith_plan_site(m, "kv_b", l->rank, fold);
    n.u.latent.linear =
        pith_plan_linear(m, names_of(m)->kv_b, s->heads * (l->nope + l->value), false);
    n.u.latent.latent = V;
    n.u.latent.rotary = K;
    n.u.latent.key = UP;
    n.u.latent.heads = s->heads;
    n.u.latent.nope = l->nope;
    n.u.latent.rope = l->rope;
    n.u.latent.value = l->value;
    n.u.latent.rank = l->rank;
    if (!m->failed) {
        m->plan->site[site].from = m->plan->nodes;
        m->plan->linear[n.u.latent.linear].heads = s->heads;
    }
    pith_plan_reg(m, FUSED, s->heads * (l->rank + l->rope));
    pith_plan_reg(m, UP, l->rank + l->rope);
    pith_plan_node(m, n);
    struct pith_node a = {.kind = PITH_NODE_ATTEND, .in = FUSED, .out = GATE};
    a.u.attend.k = UP;
    a.u.attend.v = V;
    a.u.attend.heads = s->heads;
    a.u.attend.scale = (float)s->score_scale;
    a.u.attend.sinks = PITH_NO_PART;
    pith_plan_reg(m, GATE, s->heads * l->rank);
    pith_plan_node(m, a);
    n.kind = PITH_NODE_EXPAND;
    n.in = GATE;
    n.out = Q;
    pith_plan_reg(m, Q, s->heads * l->value);
    pith_plan_node(m, n);
    m->plan->state = (struct pith_state_spec){
        .kind = PITH_STATE_LATENT, .heads = 1, .key = l->rank + l->rope, .value = l->rank};
}

void pith_family_latent(struct pith_plan_maker *m, const struct pith_family_branch *b)
{
    const struct pith_shape *s = m->shape;
    const struct pith_latent_shape *l = &s->latent;
    const uint32_t site = project(m, b);
    const struct pith_fold latent = norm(m, names_of(m)->kv_a_norm, V, l->rank);
    rotate(m, Q, s->heads, l->nope);
    rotate(m, K, 1, 0);
    attend(m, latent);
    (void)pith_plan_site(m, "o", s->heads * l->value, (struct pith_fold){0});
    const uint32_t o =
        compute(m, m->arch->family->o, s->hidden, s->o_bias, (const unsigned[3]){Q, b->out, Q});
    if (!m->failed) {
        m->plan->linear[o].by_cols = true;
        m->plan->linear[o].heads = s->heads;
    }
    pith_plan_module(m, site, b->out);
}

/* --- config.json ------------------------------------------------------------------------------ */

/* DeepSeek's own rule for contexts beyond those trained on: scores times m^2, m = 0.1 a ln(factor)
 * + 1 with a = "mscale_all_dim". */
static enum pith_status read_scale(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    double all = 0, m = 1;
    PITH_TRY(pith_rope_real(c, "mscale_all_dim", &all, err));
    if (!(fabs(all) <= 1e3))
        return pith_fail(err, PITH_FORMAT, "%s: \"mscale_all_dim\" is %g, which makes no sense",
                         c->where, all);
    if (shape->rope.type != PITH_ROPE_DEFAULT && shape->rope.factor > 1)
        m = 0.1 * all * log(shape->rope.factor) + 1;
    shape->score_scale = m * m / sqrt((double)shape->head_dim);
    return PITH_OK;
}

enum pith_status pith_family_read_latent(const struct pith_config *c,
                                         const struct pith_latent_shape *absent,
                                         struct pith_shape *shape, struct pith_error *err)
{
    struct pith_latent_shape *l = &shape->latent;
    static const struct {
        const char *key;
        size_t at;
    } sizes[] = {{"kv_lora_rank", offsetof(struct pith_latent_shape, rank)},
                 {"qk_nope_head_dim", offsetof(struct pith_latent_shape, nope)},
                 {"qk_rope_head_dim", offsetof(struct pith_latent_shape, rope)},
                 {"v_head_dim", offsetof(struct pith_latent_shape, value)}};
    *l = *absent;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t n;
        memcpy(&n, (char *)l + sizes[i].at, sizeof n);
        PITH_TRY(pith_family_read_size(c, sizes[i].key, PITH_MAX_HEAD_DIM, n, &n, err));
        memcpy((char *)l + sizes[i].at, &n, sizeof n);
    }
    if (json_is_null(pith_config_get(c, "q_lora_rank"))) l->q_rank = 0;
    else
        PITH_TRY(
            pith_family_read_size(c, "q_lora_rank", PITH_MAX_WIDTH, l->q_rank, &l->q_rank, err));
    if (l->rope % 2 != 0)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"qk_rope_head_dim\" %u is odd, rotary positions need pairs",
                         c->where, l->rope);
    if (l->nope % 2 != 0)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"qk_nope_head_dim\" %u is odd, a head's dimension must be even",
                         c->where, l->nope);
    const uint64_t wide = l->rank > l->value ? l->rank : l->value;
    if (shape->heads * (wide + l->nope + l->rope) > PITH_MAX_WIDTH)
        return pith_fail(err, PITH_FORMAT, "%s: %u heads of a latent of %u are wider than %d",
                         c->where, shape->heads, l->rank, (int)PITH_MAX_WIDTH);
    shape->head_dim = l->nope + l->rope;
    shape->kv_heads = shape->heads;
    shape->rotary = l->rope;
    return read_scale(c, shape, err);
}
