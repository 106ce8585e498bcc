/* Small parts that several builders are made of. */
#include "model/build/build.h"

#include <stdio.h>

uint32_t pith_build_linear(struct pith_plan_maker *m, const char *name, uint32_t rows, bool bias,
                           const unsigned reg[3])
{
    const uint32_t linear = pith_plan_linear(m, name, rows, bias);
    pith_plan_compute(m, reg[0], reg[1], reg[2]);
    return linear;
}

void pith_build_out(struct pith_plan_maker *m, const char *name, bool bias, uint32_t heads,
                    const unsigned reg[3])
{
    const uint32_t linear = pith_build_linear(m, name, m->shape->hidden, bias, reg);
    if (m->failed) return;
    m->plan->linear[linear].by_cols = true;
    m->plan->linear[linear].heads = heads;
}

static uint32_t add_vector(struct pith_plan_maker *m, const char *module, const char *end,
                           uint32_t length)
{
    char name[PITH_PART_NAME];
    if (snprintf(name, sizeof name, "%s%s", module, end) >= (int)sizeof name) m->failed = true;
    return pith_plan_vector(m, name, length);
}

uint32_t pith_build_vector(struct pith_plan_maker *m, const char *module, uint32_t length)
{
    return add_vector(m, module, ".weight", length);
}

uint32_t pith_build_bias(struct pith_plan_maker *m, const char *module, uint32_t length)
{
    return add_vector(m, module, ".bias", length);
}

uint32_t pith_build_convolution(struct pith_plan_maker *m, const struct pith_convolution_spec *c)
{
    const uint32_t taps = m->shape->recurrent.taps, tail = (taps - 1) * c->dim;
    struct pith_node n = {.kind = PITH_NODE_CONV, .in = (uint8_t)c->reg, .out = (uint8_t)c->reg};
    n.u.conv.weight = pith_build_vector(m, c->name, taps);
    n.u.conv.bias = m->shape->recurrent.conv_bias ? pith_build_bias(m, c->name, c->dim)
                                                  : PITH_NO_PART;
    n.u.conv.dim = c->dim;
    n.u.conv.taps = taps;
    n.u.conv.silu = c->silu;
    n.u.conv.last = c->last;
    if (!m->failed) {
        m->plan->vector[n.u.conv.weight].rows = c->dim;
        m->plan->vector[n.u.conv.weight].filter = true;
    }
    pith_plan_node(m, n);
    m->plan->state = (struct pith_state_spec){.kind = PITH_STATE_RECURRENT, .floats = tail};
    return tail;
}

void pith_build_split(struct pith_plan_maker *m, uint32_t parts, const uint32_t *dim,
                      const uint8_t *to)
{
    struct pith_node n = {.kind = PITH_NODE_SPLIT, .in = FUSED, .out = FUSED};
    n.u.split.parts = parts;
    for (uint32_t i = 0; i < parts; i++) {
        n.u.split.dim[i] = dim[i];
        n.u.split.to[i] = to[i];
        pith_plan_reg(m, to[i], dim[i]);
    }
    pith_plan_node(m, n);
}

void pith_build_split_heads(struct pith_plan_maker *m, uint32_t parts, uint32_t heads, uint32_t dim,
                            const uint8_t *to)
{
    struct pith_node n = {.kind = PITH_NODE_SPLIT, .in = FUSED, .out = FUSED};
    n.u.split.parts = parts;
    n.u.split.heads = heads;
    for (uint32_t i = 0; i < parts; i++) {
        n.u.split.dim[i] = dim;
        n.u.split.to[i] = to[i];
        pith_plan_reg(m, to[i], heads * dim);
    }
    pith_plan_node(m, n);
}

void pith_build_copy(struct pith_plan_maker *m, unsigned from, unsigned to, uint32_t dim)
{
    struct pith_node n = {.kind = PITH_NODE_SPLIT, .in = (uint8_t)from, .out = (uint8_t)from};
    n.u.split.parts = 1;
    n.u.split.dim[0] = dim;
    n.u.split.to[0] = (uint8_t)to;
    pith_plan_reg(m, to, dim);
    pith_plan_node(m, n);
}

void pith_build_activate(struct pith_plan_maker *m, unsigned gate, bool alone, uint32_t dim)
{
    struct pith_node n = {.kind = PITH_NODE_GATE, .in = (uint8_t)gate, .out = (uint8_t)gate};
    n.u.gate.up = UP;
    n.u.gate.alone = alone;
    n.u.gate.dim = dim;
    pith_plan_node(m, n);
}

void pith_build_times(struct pith_plan_maker *m, unsigned reg, unsigned by, uint32_t dim,
                      enum pith_act act)
{
    struct pith_node n = {.kind = PITH_NODE_GATE, .in = (uint8_t)reg, .out = (uint8_t)reg};
    n.u.gate.up = (uint8_t)by;
    n.u.gate.other = true;
    n.u.gate.act = act;
    n.u.gate.dim = dim;
    pith_plan_node(m, n);
}

void pith_build_mix(struct pith_plan_maker *m, uint32_t gate)
{
    struct pith_node n = {.kind = PITH_NODE_MIX, .in = BRANCH, .out = OUT};
    n.u.mix.gate = gate;
    pith_plan_node(m, n);
}

void pith_build_positions(struct pith_plan_maker *m)
{
    struct pith_node n = {.kind = PITH_NODE_PLACE, .in = X, .out = X};
    if (m->layer != 0) return;
    n.u.place.shift = m->shape->place.shift;
    pith_plan_node(m, n);
}

void pith_build_exchanged(struct pith_plan_maker *m)
{
    for (uint32_t i = 0; !m->failed && i < m->plan->linears; i++) {
        struct pith_fused_spec spec = {
            .first = i, .each = 1, .experts = 1, .parts = 1, .transposed = true, .alone = true};
        if (snprintf(spec.name, sizeof spec.name, "%s.weight", m->plan->linear[i].name) >=
            (int)sizeof spec.name)
            m->failed = true;
        pith_plan_fused(m, &spec);
    }
}
