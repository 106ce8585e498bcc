/* The plan of a layer of the Llama family. */
#include "model/arch/family.h"

#include <math.h>

enum { X = PITH_REG_STREAM, NORMED, Q, K, V, GATE, UP, OUT };

static struct pith_fold into_vector(uint32_t vector)
{
    return (struct pith_fold){.kind = PITH_FOLD_VECTOR, .from = vector};
}

/* A gain of the stream's width; the order of all vectors is that of enum pith_norm. */
static uint32_t add_gain(struct pith_plan_maker *m, const char *name)
{
    const uint32_t vector = pith_plan_vector(m, name, m->shape->hidden);
    if (!m->failed) m->plan->vector[vector].of_stream = true;
    return vector;
}

static void norm(struct pith_plan_maker *m, uint32_t vector)
{
    struct pith_node n = {.kind = PITH_NODE_NORM, .in = X, .out = NORMED};
    n.u.norm.vector = vector;
    n.u.norm.heads = 1;
    n.u.norm.dim = m->shape->hidden;
    pith_plan_node(m, n);
}

/* A projection into heads that scores are made of, or values. */
static uint32_t project(struct pith_plan_maker *m, const char *name, uint32_t heads, unsigned out)
{
    const struct pith_shape *s = m->shape;
    const uint32_t linear = pith_plan_linear(m, name, heads * s->head_dim, s->qkv_bias);
    if (!m->failed) {
        m->plan->linear[linear].scores = out != V;
        m->plan->linear[linear].copied = out != Q;
        m->plan->linear[linear].heads = heads;
    }
    pith_plan_compute(m, NORMED, out, OUT);
    return linear;
}

/* A linear whose input is split between devices, and whose result is added to the stream. */
static void project_back(struct pith_plan_maker *m, const char *name, uint32_t heads, bool bias,
                         unsigned in)
{
    const uint32_t linear = pith_plan_linear(m, name, m->shape->hidden, bias);
    if (!m->failed) {
        m->plan->linear[linear].by_cols = true;
        m->plan->linear[linear].heads = heads;
    }
    pith_plan_compute(m, in, OUT, in);
}

static void place_heads(struct pith_plan_maker *m, unsigned reg, uint32_t heads, uint32_t gain)
{
    struct pith_node n = {.kind = PITH_NODE_NORM, .in = (uint8_t)reg, .out = (uint8_t)reg};
    n.u.norm.vector = gain;
    n.u.norm.heads = heads;
    n.u.norm.dim = m->shape->head_dim;
    if (m->shape->qk_norm) pith_plan_node(m, n);
    n = (struct pith_node){.kind = PITH_NODE_ROPE, .in = (uint8_t)reg, .out = (uint8_t)reg};
    n.u.rope.heads = heads;
    pith_plan_node(m, n);
}

static void attention(struct pith_plan_maker *m, uint32_t gain, uint32_t q_gain)
{
    const struct pith_shape *s = m->shape;
    norm(m, gain);
    const uint32_t site = pith_plan_site(m, "qkv", s->hidden, into_vector(gain));
    (void)project(m, "self_attn.q_proj", s->heads, Q);
    (void)project(m, "self_attn.k_proj", s->kv_heads, K);
    const uint32_t v = project(m, "self_attn.v_proj", s->kv_heads, V);
    place_heads(m, Q, s->heads, q_gain);
    place_heads(m, K, s->kv_heads, q_gain + 1);
    struct pith_node n = {.kind = PITH_NODE_ATTEND, .in = Q, .out = Q};
    n.u.attend.k = K;
    n.u.attend.v = V;
    n.u.attend.window = m->layer >= s->window_from_layer ? s->window : 0;
    n.u.attend.scale = (float)(1 / sqrt((double)s->head_dim));
    pith_plan_node(m, n);
    const struct pith_fold rows = {
        .kind = PITH_FOLD_ROWS, .from = v, .repeat = s->heads / s->kv_heads, .block = s->head_dim};
    (void)pith_plan_site(m, "o", s->heads * s->head_dim, rows);
    project_back(m, "self_attn.o_proj", s->heads, s->o_bias, Q);
    pith_plan_module(m, site, OUT);
    pith_plan_add(m, OUT);
}

static void feed_forward(struct pith_plan_maker *m, uint32_t gain)
{
    const struct pith_shape *s = m->shape;
    norm(m, gain);
    const uint32_t site = pith_plan_site(m, "gate_up", s->hidden, into_vector(gain));
    (void)pith_plan_linear(m, "mlp.gate_proj", s->ffn, s->mlp_bias);
    pith_plan_compute(m, NORMED, GATE, OUT);
    const uint32_t up = pith_plan_linear(m, "mlp.up_proj", s->ffn, s->mlp_bias);
    pith_plan_compute(m, NORMED, UP, OUT);
    struct pith_node n = {.kind = PITH_NODE_GATE, .in = GATE, .out = GATE};
    n.u.gate.up = UP;
    n.u.gate.dim = s->ffn;
    pith_plan_node(m, n);
    const struct pith_fold rows = {
        .kind = PITH_FOLD_ROWS, .from = up, .repeat = 1, .block = s->head_dim};
    (void)pith_plan_site(m, "down", s->ffn, rows);
    project_back(m, "mlp.down_proj", 0, s->mlp_bias, GATE);
    pith_plan_module(m, site, OUT);
    pith_plan_add(m, OUT);
}

enum pith_status pith_family_plan(struct pith_plan_maker *m, struct pith_error *err)
{
    const struct pith_shape *s = m->shape;
    (void)err;
    pith_plan_reg(m, X, s->hidden);
    pith_plan_reg(m, NORMED, s->hidden);
    const uint32_t before = add_gain(m, "input_layernorm.weight");
    const uint32_t after = add_gain(m, "post_attention_layernorm.weight");
    const uint32_t q_gain = m->plan->vectors;
    if (s->qk_norm) {
        (void)pith_plan_vector(m, "self_attn.q_norm.weight", s->head_dim);
        (void)pith_plan_vector(m, "self_attn.k_norm.weight", s->head_dim);
    }
    attention(m, before, q_gain);
    feed_forward(m, after);
    return PITH_OK;
}
