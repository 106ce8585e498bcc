/* Nodes that keep a state of all tokens so far. */
#include "model/nodes.h"

#include "backend/layer.h"

/* The layer's state as it is before these rows. A node behind another finds it as that left it. */
static enum pith_status state_of(const struct pith_node_run *r, float **state,
                                 struct pith_error *err)
{
    const struct pith_pass *p = r->pass;
    return pith_kv_state(p->kv, p->kv_layer, &r->block->plan->state, p->start, state, err);
}

static void moved_on(const struct pith_node_run *r)
{
    r->pass->kv->reached[r->pass->kv_layer] = r->pass->start + r->n;
}

enum pith_status pith_node_conv(struct pith_node_run *r, const struct pith_node *node,
                                struct pith_error *err)
{
    const uint32_t bias = node->u.conv.bias;
    float *state;
    PITH_TRY(state_of(r, &state, err));
    pith_conv(r->pass->backend,
              &(struct pith_conv){.x = r->reg[node->in],
                                  .tail = state,
                                  .n = r->n,
                                  .channels = node->u.conv.dim,
                                  .taps = node->u.conv.taps,
                                  .weight = r->block->vector[node->u.conv.weight],
                                  .bias = bias == PITH_NO_PART ? NULL : r->block->vector[bias],
                                  .silu = node->u.conv.silu});
    if (node->u.conv.last) moved_on(r);
    return PITH_OK;
}

enum pith_status pith_node_delta(struct pith_node_run *r, const struct pith_node *node,
                                 struct pith_error *err)
{
    const struct pith_pass *p = r->pass;
    float *state = p->kv->state + p->kv->state_at[p->kv_layer] + node->u.delta.offset;
    (void)err; /* the convolution before it has looked */
    pith_delta(p->backend, &(struct pith_delta){.mixed = r->reg[node->in],
                                                .a = r->reg[node->u.delta.a],
                                                .beta = r->reg[node->u.delta.beta],
                                                .a_log = r->block->vector[node->u.delta.a_log],
                                                .dt_bias = r->block->vector[node->u.delta.dt_bias],
                                                .n = r->n,
                                                .key_heads = node->u.delta.key_heads,
                                                .value_heads = node->u.delta.value_heads,
                                                .key_dim = node->u.delta.key_dim,
                                                .value_dim = node->u.delta.value_dim,
                                                .state = state,
                                                .out = r->reg[node->out]});
    moved_on(r);
    return PITH_OK;
}

enum pith_status pith_node_scan(struct pith_node_run *r, const struct pith_node *node,
                                struct pith_error *err)
{
    const struct pith_pass *p = r->pass;
    float *state = p->kv->state + p->kv->state_at[p->kv_layer] + node->u.scan.offset;
    (void)err; /* the convolution before it has looked */
    pith_scan(p->backend, &(struct pith_scan){.mixed = r->reg[node->in],
                                              .step = r->reg[node->u.scan.step],
                                              .a_log = r->block->vector[node->u.scan.a_log],
                                              .dt_bias = r->block->vector[node->u.scan.dt_bias],
                                              .skip = r->block->vector[node->u.scan.skip],
                                              .n = r->n,
                                              .heads = node->u.scan.heads,
                                              .dim = node->u.scan.dim,
                                              .groups = node->u.scan.groups,
                                              .states = node->u.scan.state,
                                              .least = node->u.scan.least,
                                              .most = node->u.scan.most,
                                              .state = state,
                                              .out = r->reg[node->out]});
    moved_on(r);
    return PITH_OK;
}
