/* Nodes that keep a state of all tokens so far. */
#include "model/nodes/nodes.h"

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

struct pith_conv pith_conv_of(const struct pith_block *b, const struct pith_node *node)
{
    const uint32_t bias = node->u.conv.bias;
    return (struct pith_conv){.channels = node->u.conv.dim,
                              .taps = node->u.conv.taps,
                              .weight = b->vector[node->u.conv.weight],
                              .bias = bias == PITH_NO_PART ? NULL : b->vector[bias],
                              .silu = node->u.conv.silu};
}

static enum pith_status conv_span(struct pith_node_run *r, const struct pith_node *node,
                                  const struct pith_kv_span *span, size_t row,
                                  struct pith_error *err)
{
    const struct pith_pass *p = r->pass;
    struct pith_conv c = pith_conv_of(r->block, node);
    const struct pith_kv_state_part part = {
        .layer = p->kv_layer, .sequence = span->sequence, .floats = (c.taps - 1) * c.channels};
    PITH_TRY(pith_kv_state_check(p->kv, p->kv_layer, span, err));
    c.tail = pith_kv_state_take(p->kv, p->backend, &part);
    c.form = p->kv->format.states;
    c.x = r->reg[node->in] + row * c.channels;
    c.n = span->n;
    pith_conv(p->backend, &c);
    pith_kv_state_put(p->kv, p->backend, &part);
    if (node->u.conv.last) pith_kv_moved(p->kv, p->kv_layer, span);
    return PITH_OK;
}

enum pith_status pith_node_conv(struct pith_node_run *r, const struct pith_node *node,
                                struct pith_error *err)
{
    return each_span(r, node, conv_span, err);
}

struct pith_delta pith_delta_of(const struct pith_block *b, const struct pith_node *node)
{
    return (struct pith_delta){.a_log = b->vector[node->u.delta.a_log],
                               .dt_bias = b->vector[node->u.delta.dt_bias],
                               .key_heads = node->u.delta.key_heads,
                               .value_heads = node->u.delta.value_heads,
                               .key_dim = node->u.delta.key_dim,
                               .value_dim = node->u.delta.value_dim};
}

static enum pith_status delta_span(struct pith_node_run *r, const struct pith_node *node,
                                   const struct pith_kv_span *span, size_t row,
                                   struct pith_error *err)
{
    (void)err; /* the convolution before it has looked */
    const struct pith_pass *p = r->pass;
    struct pith_delta d = pith_delta_of(r->block, node);
    const size_t values = d.value_heads * d.value_dim;
    d.mixed = r->reg[node->in] + row * (2 * d.key_heads * d.key_dim + values);
    d.a = r->reg[node->u.delta.a] + row * d.value_heads;
    d.beta = r->reg[node->u.delta.beta] + row * d.value_heads;
    d.n = span->n;
    const struct pith_kv_state_part part = {
        .layer = p->kv_layer,
        .sequence = span->sequence,
        .offset = node->u.delta.offset,
        .floats = pith_delta_state(d.value_heads, d.key_dim, d.value_dim)};
    d.state = pith_kv_state_take(p->kv, p->backend, &part);
    d.form = p->kv->format.states;
    d.out = r->reg[node->out] + row * values;
    pith_delta(p->backend, &d);
    pith_kv_state_put(p->kv, p->backend, &part);
    pith_kv_moved(p->kv, p->kv_layer, span);
    return PITH_OK;
}

enum pith_status pith_node_delta(struct pith_node_run *r, const struct pith_node *node,
                                 struct pith_error *err)
{
    return each_span(r, node, delta_span, err);
}

struct pith_scan pith_scan_of(const struct pith_block *b, const struct pith_node *node)
{
    return (struct pith_scan){.a_log = b->vector[node->u.scan.a_log],
                              .dt_bias = b->vector[node->u.scan.dt_bias],
                              .skip = b->vector[node->u.scan.skip],
                              .heads = node->u.scan.heads,
                              .dim = node->u.scan.dim,
                              .groups = node->u.scan.groups,
                              .states = node->u.scan.state,
                              .least = node->u.scan.least,
                              .most = node->u.scan.most};
}

static enum pith_status scan_span(struct pith_node_run *r, const struct pith_node *node,
                                  const struct pith_kv_span *span, size_t row,
                                  struct pith_error *err)
{
    (void)err; /* the convolution before it has looked */
    const struct pith_pass *p = r->pass;
    struct pith_scan s = pith_scan_of(r->block, node);
    const size_t values = s.heads * s.dim;
    s.mixed = r->reg[node->in] + row * (values + 2 * s.groups * s.states);
    s.step = r->reg[node->u.scan.step] + row * s.heads;
    s.n = span->n;
    const struct pith_kv_state_part part = {.layer = p->kv_layer,
                                            .sequence = span->sequence,
                                            .offset = node->u.scan.offset,
                                            .floats = pith_scan_state(s.heads, s.dim, s.states)};
    s.state = pith_kv_state_take(p->kv, p->backend, &part);
    s.form = p->kv->format.states;
    s.out = r->reg[node->out] + row * values;
    pith_scan(p->backend, &s);
    pith_kv_state_put(p->kv, p->backend, &part);
    pith_kv_moved(p->kv, p->kv_layer, span);
    return PITH_OK;
}

enum pith_status pith_node_scan(struct pith_node_run *r, const struct pith_node *node,
                                struct pith_error *err)
{
    return each_span(r, node, scan_span, err);
}
