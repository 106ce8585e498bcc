/* Nodes that keep a state of all tokens so far. */
#include "model/nodes.h"

#include "backend/layer.h"

/* Does a node's work for a span, whose first row is `row`. */
typedef enum pith_status span_fn(struct pith_node_run *r, const struct pith_node *node,
                                 const struct pith_kv_span *span, size_t row,
                                 struct pith_error *err);

static enum pith_status each_span(struct pith_node_run *r, const struct pith_node *node,
                                  span_fn *work, struct pith_error *err)
{
    for (size_t i = 0, row = 0; i < r->spans; row += r->span[i++].n)
        PITH_TRY(work(r, node, &r->span[i], row, err));
    return PITH_OK;
}

static enum pith_status conv_span(struct pith_node_run *r, const struct pith_node *node,
                                  const struct pith_kv_span *span, size_t row,
                                  struct pith_error *err)
{
    const struct pith_pass *p = r->pass;
    const uint32_t bias = node->u.conv.bias;
    float *state;
    PITH_TRY(pith_kv_state(p->kv, p->kv_layer, &r->block->plan->state, span, &state, err));
    pith_conv(p->backend,
              &(struct pith_conv){.x = r->reg[node->in] + row * node->u.conv.dim,
                                  .tail = state,
                                  .n = span->n,
                                  .channels = node->u.conv.dim,
                                  .taps = node->u.conv.taps,
                                  .weight = r->block->vector[node->u.conv.weight],
                                  .bias = bias == PITH_NO_PART ? NULL : r->block->vector[bias],
                                  .silu = node->u.conv.silu});
    if (node->u.conv.last) pith_kv_moved(p->kv, p->kv_layer, span);
    return PITH_OK;
}

enum pith_status pith_node_conv(struct pith_node_run *r, const struct pith_node *node,
                                struct pith_error *err)
{
    return each_span(r, node, conv_span, err);
}

static enum pith_status delta_span(struct pith_node_run *r, const struct pith_node *node,
                                   const struct pith_kv_span *span, size_t row,
                                   struct pith_error *err)
{
    (void)err; /* the convolution before it has looked */
    const struct pith_pass *p = r->pass;
    const size_t keys = node->u.delta.key_heads, key = node->u.delta.key_dim;
    const size_t heads = node->u.delta.value_heads, value = node->u.delta.value_dim;
    pith_delta(p->backend, &(struct pith_delta){
                               .mixed = r->reg[node->in] + row * (2 * keys * key + heads * value),
                               .a = r->reg[node->u.delta.a] + row * heads,
                               .beta = r->reg[node->u.delta.beta] + row * heads,
                               .a_log = r->block->vector[node->u.delta.a_log],
                               .dt_bias = r->block->vector[node->u.delta.dt_bias],
                               .n = span->n,
                               .key_heads = keys,
                               .value_heads = heads,
                               .key_dim = key,
                               .value_dim = value,
                               .state = pith_kv_state_of(p->kv, p->kv_layer, span->sequence) +
                                        node->u.delta.offset,
                               .out = r->reg[node->out] + row * heads * value});
    pith_kv_moved(p->kv, p->kv_layer, span);
    return PITH_OK;
}

enum pith_status pith_node_delta(struct pith_node_run *r, const struct pith_node *node,
                                 struct pith_error *err)
{
    return each_span(r, node, delta_span, err);
}

static enum pith_status scan_span(struct pith_node_run *r, const struct pith_node *node,
                                  const struct pith_kv_span *span, size_t row,
                                  struct pith_error *err)
{
    (void)err; /* the convolution before it has looked */
    const struct pith_pass *p = r->pass;
    const size_t heads = node->u.scan.heads, dim = node->u.scan.dim;
    const size_t mixed = heads * dim + 2 * (size_t)node->u.scan.groups * node->u.scan.state;
    pith_scan(p->backend,
              &(struct pith_scan){.mixed = r->reg[node->in] + row * mixed,
                                  .step = r->reg[node->u.scan.step] + row * heads,
                                  .a_log = r->block->vector[node->u.scan.a_log],
                                  .dt_bias = r->block->vector[node->u.scan.dt_bias],
                                  .skip = r->block->vector[node->u.scan.skip],
                                  .n = span->n,
                                  .heads = heads,
                                  .dim = dim,
                                  .groups = node->u.scan.groups,
                                  .states = node->u.scan.state,
                                  .least = node->u.scan.least,
                                  .most = node->u.scan.most,
                                  .state = pith_kv_state_of(p->kv, p->kv_layer, span->sequence) +
                                           node->u.scan.offset,
                                  .out = r->reg[node->out] + row * heads * dim});
    pith_kv_moved(p->kv, p->kv_layer, span);
    return PITH_OK;
}

enum pith_status pith_node_scan(struct pith_node_run *r, const struct pith_node *node,
                                struct pith_error *err)
{
    return each_span(r, node, scan_span, err);
}
