/* Parts of a layer's plan that more than one of the family's files makes. */
#include "model/family/regs.h"

#include <stdio.h>

uint32_t pith_family_compute(struct pith_plan_maker *m, const char *name, uint32_t rows, bool bias,
                             const unsigned reg[3])
{
    const uint32_t linear = pith_plan_linear(m, name, rows, bias);
    pith_plan_compute(m, reg[0], reg[1], reg[2]);
    return linear;
}

static uint32_t add_part(struct pith_plan_maker *m, const char *module, const char *end,
                         uint32_t length)
{
    char name[PITH_PART_NAME];
    if (snprintf(name, sizeof name, "%s%s", module, end) >= (int)sizeof name) m->failed = true;
    return pith_plan_vector(m, name, length);
}

uint32_t pith_family_vector(struct pith_plan_maker *m, const char *module, uint32_t length)
{
    return add_part(m, module, ".weight", length);
}

uint32_t pith_family_convolve(struct pith_plan_maker *m, const struct pith_family_conv *c)
{
    const uint32_t taps = m->shape->taps, tail = (taps - 1) * c->dim;
    struct pith_node n = {.kind = PITH_NODE_CONV, .in = (uint8_t)c->reg, .out = (uint8_t)c->reg};
    n.u.conv.weight = add_part(m, c->name, ".weight", taps);
    n.u.conv.bias = m->shape->conv_bias ? add_part(m, c->name, ".bias", c->dim) : PITH_NO_PART;
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

void pith_family_split(struct pith_plan_maker *m, uint32_t parts, const uint32_t *dim,
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

void pith_family_times(struct pith_plan_maker *m, unsigned reg, unsigned by, uint32_t dim)
{
    struct pith_node n = {.kind = PITH_NODE_GATE, .in = (uint8_t)reg, .out = (uint8_t)reg};
    n.u.gate.up = (uint8_t)by;
    n.u.gate.other = true;
    n.u.gate.act = PITH_ACT_NONE;
    n.u.gate.dim = dim;
    pith_plan_node(m, n);
}
