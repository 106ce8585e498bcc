/* Attention over keys and values of each position. */
#include "model/build/build.h"

#include <math.h>

/* --- from the shape --------------------------------------------------------------------------- */

static void set_positions(const struct pith_plan_maker *m, struct pith_attention_spec *a)
{
    const struct pith_shape *s = m->shape;
    const bool rotated = !pith_layer_in(&s->place.unrotated, m->layer);
    const bool window = pith_layer_in(&s->windows.layers, m->layer);
    if (rotated) a->rotary = s->place.rotary;
    a->rope_table = s->place.by_kind && window;
    if (window) a->window = s->windows.size;
}

struct pith_attention_spec pith_attention_of(const struct pith_plan_maker *m)
{
    const struct pith_shape *s = m->shape;
    struct pith_attention_spec a = {.q = "self_attn.q_proj",
                                    .k = "self_attn.k_proj",
                                    .v = "self_attn.v_proj",
                                    .o = "self_attn.o_proj",
                                    .heads = s->heads,
                                    .kv_heads = s->kv_heads,
                                    .dim = s->head_dim,
                                    .bias = s->biases.qkv,
                                    .o_bias = s->biases.o,
                                    .scale = s->scores.scale,
                                    .cap = s->scores.cap};
    if (a.scale == 0) a.scale = 1 / sqrt((double)s->head_dim);
    set_positions(m, &a);
    return a;
}

struct pith_head_norm pith_build_head_norm(struct pith_plan_maker *m, const char *module,
                                           enum pith_head_norm_kind kind, uint32_t heads,
                                           uint32_t dim)
{
    const uint32_t length = kind == PITH_HEADS_TOGETHER ? heads * dim : dim;
    const uint32_t vector = pith_build_vector(m, module, length);
    if (!m->failed) m->plan->vector[vector].plus = m->arch->norm.plus;
    if (!m->failed && kind == PITH_HEADS_CENTRED) m->plan->vector[vector].rows = heads;
    return (struct pith_head_norm){kind, vector};
}

void pith_build_head_norms(struct pith_plan_maker *m, struct pith_attention_spec *a,
                           enum pith_head_norm_kind kind)
{
    a->q_norm = pith_build_head_norm(m, "self_attn.q_norm", kind, a->heads, a->dim);
    if (a->shared) return;
    a->k_norm = pith_build_head_norm(m, "self_attn.k_norm", kind, a->kv_heads, a->dim);
}

/* --- projections ------------------------------------------------------------------------------ */

/* One of q, k, v. */
static uint32_t project(struct pith_plan_maker *m, const struct pith_attention_spec *a,
                        const char *name, uint32_t heads, const unsigned reg[3])
{
    const uint32_t width = heads * a->dim * (reg[1] == FUSED ? 2 : 1);
    const uint32_t linear = pith_build_linear(m, name, width, a->bias, reg);
    if (m->failed) return linear;
    m->plan->linear[linear].scores = reg[1] != V;
    m->plan->linear[linear].copied = reg[1] == K || reg[1] == V;
    m->plan->linear[linear].heads = heads;
    return linear;
}

static void project_at_once(struct pith_plan_maker *m, const struct pith_attention_spec *a,
                            unsigned in)
{
    static const uint8_t to[3] = {Q, K, V};
    const uint32_t q = a->heads * a->dim, kv = a->kv_heads * a->dim;
    (void)pith_build_linear(m, a->qkv, q + 2 * kv, a->bias, (const unsigned[3]){in, FUSED, OUT});
    if (a->qkv_by_head) pith_build_split_heads(m, 3, a->heads, a->dim, to);
    else pith_build_split(m, 3, (const uint32_t[3]){q, kv, kv}, to);
}

/* q, k and v into their registers; the linear that values come from, where that is a separate one
 * and values are its output. */
static uint32_t project_all(struct pith_plan_maker *m, const struct pith_attention_spec *a,
                            unsigned in)
{
    if (a->qkv) {
        project_at_once(m, a, in);
        return PITH_NO_PART;
    }
    (void)project(m, a, a->q, a->heads, (const unsigned[3]){in, a->gated ? FUSED : Q, OUT});
    if (a->shared) return PITH_NO_PART;
    (void)project(m, a, a->k, a->kv_heads, (const unsigned[3]){in, K, OUT});
    if (a->v_is_k) {
        pith_build_copy(m, K, V, a->kv_heads * a->dim);
        return PITH_NO_PART;
    }
    const uint32_t v = project(m, a, a->v, a->kv_heads, (const unsigned[3]){in, V, OUT});
    if (a->gated) pith_build_split_heads(m, 2, a->heads, a->dim, (const uint8_t[2]){Q, GATE});
    return v;
}

/* --- what is done to heads -------------------------------------------------------------------- */

static void norm_heads(struct pith_plan_maker *m, const struct pith_attention_spec *a, unsigned reg,
                       uint32_t heads, struct pith_head_norm norm)
{
    const bool together = norm.kind == PITH_HEADS_TOGETHER;
    struct pith_node n = {.kind = PITH_NODE_NORM, .in = (uint8_t)reg, .out = (uint8_t)reg};
    if (norm.kind == PITH_HEADS_PLAIN) return;
    n.u.norm.vector = norm.gain;
    n.u.norm.bias = PITH_NO_PART;
    n.u.norm.heads = together ? 1 : heads;
    n.u.norm.dim = together ? heads * a->dim : a->dim;
    n.u.norm.centred = n.u.norm.by_head = norm.kind == PITH_HEADS_CENTRED;
    n.u.norm.eps = m->shape->eps;
    pith_plan_node(m, n);
}

static void clip(struct pith_plan_maker *m, const struct pith_attention_spec *a, unsigned reg,
                 uint32_t heads)
{
    struct pith_node n = {.kind = PITH_NODE_CLAMP, .in = (uint8_t)reg, .out = (uint8_t)reg};
    if (a->clip == 0) return;
    n.u.clamp.limit = (float)a->clip;
    n.u.clamp.dim = heads * a->dim;
    pith_plan_node(m, n);
}

static void rotate(struct pith_plan_maker *m, const struct pith_attention_spec *a, unsigned reg,
                   uint32_t heads)
{
    struct pith_node n = {.kind = PITH_NODE_ROPE, .in = (uint8_t)reg, .out = (uint8_t)reg};
    if (a->rotary == 0) return;
    n.u.rope.heads = heads;
    n.u.rope.stride = a->dim;
    n.u.rope.dim = a->rotary;
    n.u.rope.table = a->rope_table;
    n.u.rope.adjacent = a->rope_adjacent;
    pith_plan_node(m, n);
}

static void grow(struct pith_plan_maker *m, const struct pith_attention_spec *a)
{
    struct pith_node n = {.kind = PITH_NODE_TEMPER, .in = Q, .out = Q};
    if (a->growth.beta == 0) return;
    n.u.temper.dim = a->heads * a->dim;
    n.u.temper.shift = a->growth.shift;
    n.u.temper.beta = a->growth.beta;
    n.u.temper.every = a->growth.every;
    pith_plan_node(m, n);
}

/* Queries, and keys and values where they are the layer's own, as attention takes them. */
static void prepare(struct pith_plan_maker *m, const struct pith_attention_spec *a)
{
    const bool own = !a->shared;
    norm_heads(m, a, Q, a->heads, a->q_norm);
    if (own) norm_heads(m, a, K, a->kv_heads, a->k_norm);
    if (own) norm_heads(m, a, V, a->kv_heads, a->v_norm);
    clip(m, a, Q, a->heads);
    if (own) clip(m, a, K, a->kv_heads);
    if (own) clip(m, a, V, a->kv_heads);
    rotate(m, a, Q, a->heads);
    if (own) rotate(m, a, K, a->kv_heads);
    grow(m, a);
}

/* --- attention -------------------------------------------------------------------------------- */

/* Later layers read these keys and values as well. */
static void leave(struct pith_plan_maker *m, const struct pith_attention_spec *a)
{
    const uint32_t width = a->kv_heads * a->dim;
    if (!a->leaves) return;
    pith_plan_carry(m, a->shared_k, width);
    pith_plan_carry(m, a->shared_v, width);
    pith_build_copy(m, K, a->shared_k, width);
    pith_build_copy(m, V, a->shared_v, width);
}

static void attend(struct pith_plan_maker *m, const struct pith_attention_spec *a)
{
    struct pith_node n = {.kind = PITH_NODE_ATTEND, .in = Q, .out = Q};
    n.u.attend.k = (uint8_t)(a->shared ? a->shared_k : K);
    n.u.attend.v = (uint8_t)(a->shared ? a->shared_v : V);
    n.u.attend.heads = a->heads;
    n.u.attend.window = a->window;
    n.u.attend.chunked = a->chunked;
    n.u.attend.scale = (float)a->scale;
    n.u.attend.cap = (float)a->cap;
    n.u.attend.sinks = a->sinks ? a->sink : PITH_NO_PART;
    pith_plan_node(m, n);
    m->plan->state = (struct pith_state_spec){
        .kind = PITH_STATE_KV, .heads = a->kv_heads, .key = a->dim, .value = a->dim};
    if (!a->shared) return;
    m->plan->state.kind = PITH_STATE_SHARED;
    m->plan->state.of = a->of;
    pith_plan_carry(m, a->shared_k, a->kv_heads * a->dim);
    pith_plan_carry(m, a->shared_v, a->kv_heads * a->dim);
}

/* What rescales the heads' result, channel by channel: the rows of the linear that values come
 * from, if nothing that is not linear stands between and no other layer reads them. */
static struct pith_fold fold_values(const struct pith_attention_spec *a, uint32_t v)
{
    const bool plain = a->clip == 0 && !a->gated && a->v_norm.kind == PITH_HEADS_PLAIN;
    if (v == PITH_NO_PART || !plain || a->leaves)
        return (struct pith_fold){0};
    return (struct pith_fold){
        .kind = PITH_FOLD_ROWS, .from = v, .repeat = a->heads / a->kv_heads, .block = a->dim};
}

void pith_build_attention(struct pith_plan_maker *m, const struct pith_branch *b,
                          const struct pith_attention_spec *a)
{
    const uint32_t site = pith_plan_site(m, "qkv", m->shape->hidden, b->fold);
    const uint32_t width = a->heads * a->dim;
    const uint32_t v = project_all(m, a, b->in);
    const unsigned heads = a->gated ? GATE : Q;
    prepare(m, a);
    leave(m, a);
    attend(m, a);
    if (a->gated) pith_build_times(m, GATE, Q, width, PITH_ACT_SIGMOID);
    (void)pith_plan_site(m, "o", width, fold_values(a, v));
    pith_build_out(m, a->o, a->o_bias, a->heads, (const unsigned[3]){heads, b->out, heads});
    pith_plan_module(m, site, b->out);
}
