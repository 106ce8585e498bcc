/* The gated delta rule with its short convolution. */
#include "model/build/build.h"

/* Widths of a layer. */
struct widths {
    uint32_t keys, values; /* all heads */
    uint32_t mixed;        /* q, k and v */
    uint32_t shared;       /* value heads of a key head */
};

static struct widths widths_of(const struct pith_delta_shape *d)
{
    const uint32_t keys = d->key_heads * d->key_dim, values = d->value_heads * d->value_dim;
    return (struct widths){keys, values, 2 * keys + values, d->value_heads / d->key_heads};
}

/* What steers the state is as few rows as it is delicate: it stays in 16 bits. */
static void steer(struct pith_plan_maker *m, const char *name, uint32_t rows, unsigned in,
                  unsigned out)
{
    const uint32_t linear =
        pith_build_linear(m, name, rows, false, (const unsigned[3]){in, out, OUT});
    if (!m->failed) m->plan->linear[linear].stays = true;
}

/* q, k and values of each key head, concatenated, into Q, their gates into V. */
static void split_key_heads(struct pith_plan_maker *m)
{
    const struct pith_delta_shape *d = &m->shape->delta;
    const struct widths w = widths_of(d);
    const uint32_t values = w.shared * d->value_dim;
    const uint32_t dims[4] = {d->key_dim, d->key_dim, values, values};
    const uint32_t at[4] = {0, w.keys, 2 * w.keys, 0};
    struct pith_node n = {.kind = PITH_NODE_SPLIT, .in = FUSED, .out = FUSED};
    n.u.split.heads = d->key_heads;
    n.u.split.parts = 4;
    for (int i = 0; i < 4; i++) {
        n.u.split.dim[i] = dims[i];
        n.u.split.at[i] = at[i];
        n.u.split.to[i] = i < 3 ? Q : V;
        n.u.split.wide[i] = i < 3 ? w.mixed : 0;
    }
    pith_plan_node(m, n);
}

/* Of each key head q, k, its values, their gates; and beta and a of its value heads. */
static void project_by_heads(struct pith_plan_maker *m, const struct pith_delta_spec *names,
                             unsigned in)
{
    const struct pith_delta_shape *d = &m->shape->delta;
    const struct widths w = widths_of(d);
    (void)pith_build_linear(m, names->qkvz, w.mixed + w.values, false,
                            (const unsigned[3]){in, FUSED, OUT});
    steer(m, names->ba, 2 * d->value_heads, in, GATE);
    split_key_heads(m);
    struct pith_node two = {.kind = PITH_NODE_SPLIT, .in = GATE, .out = GATE};
    two.u.split.heads = d->key_heads;
    two.u.split.parts = 2;
    two.u.split.dim[0] = two.u.split.dim[1] = w.shared;
    two.u.split.to[0] = UP;
    two.u.split.to[1] = K;
    pith_plan_node(m, two);
}

/* q | k | v into Q, the gates into V, beta into UP and a into K. */
static void project(struct pith_plan_maker *m, const struct pith_delta_spec *names, unsigned in)
{
    const struct pith_delta_shape *d = &m->shape->delta;
    const struct widths w = widths_of(d);
    pith_plan_reg(m, Q, w.mixed);
    pith_plan_reg(m, V, w.values);
    pith_plan_reg(m, UP, d->value_heads);
    pith_plan_reg(m, K, d->value_heads);
    if (names->qkvz) {
        project_by_heads(m, names, in);
        return;
    }
    (void)pith_build_linear(m, names->qkv, w.mixed, false, (const unsigned[3]){in, Q, OUT});
    (void)pith_build_linear(m, names->z, w.values, false, (const unsigned[3]){in, V, OUT});
    steer(m, names->b, d->value_heads, in, UP);
    steer(m, names->a, d->value_heads, in, K);
}

/* Into GATE; the layer's state is the convolution's newest inputs, `offset` floats, then the rule's
 * own. */
static void recur(struct pith_plan_maker *m, const struct pith_delta_spec *names, uint32_t offset)
{
    const struct pith_delta_shape *d = &m->shape->delta;
    struct pith_node n = {.kind = PITH_NODE_DELTA, .in = Q, .out = GATE};
    n.u.delta.a = K;
    n.u.delta.beta = UP;
    n.u.delta.a_log = pith_plan_vector(m, names->a_log, d->value_heads);
    n.u.delta.dt_bias = pith_plan_vector(m, names->dt_bias, d->value_heads);
    n.u.delta.key_heads = d->key_heads;
    n.u.delta.value_heads = d->value_heads;
    n.u.delta.key_dim = d->key_dim;
    n.u.delta.value_dim = d->value_dim;
    n.u.delta.offset = offset;
    pith_plan_reg(m, GATE, widths_of(d).values);
    pith_plan_node(m, n);
    const size_t state = pith_delta_state(d->value_heads, d->key_dim, d->value_dim);
    m->plan->state.floats = offset + (uint32_t)state;
}

/* V becomes the norm of each head of GATE, times SiLU of what V holds. */
static void gate(struct pith_plan_maker *m, const char *norm)
{
    const struct pith_delta_shape *d = &m->shape->delta;
    struct pith_node n = {.kind = PITH_NODE_NORM, .in = GATE, .out = GATE};
    n.u.norm.vector = pith_build_vector(m, norm, d->value_dim);
    n.u.norm.bias = PITH_NO_PART;
    n.u.norm.heads = d->value_heads;
    n.u.norm.dim = d->value_dim;
    n.u.norm.eps = m->shape->eps;
    pith_plan_node(m, n);
    pith_build_times(m, V, GATE, d->value_heads * d->value_dim, PITH_ACT_SILU);
}

void pith_build_delta(struct pith_plan_maker *m, const struct pith_branch *b,
                      const struct pith_delta_spec *names)
{
    const struct pith_delta_shape *d = &m->shape->delta;
    const uint32_t site = pith_plan_site(m, "in", m->shape->hidden, b->fold);
    const struct pith_convolution_spec conv = {
        .name = names->conv, .reg = Q, .dim = widths_of(d).mixed, .silu = true};
    project(m, names, b->in);
    recur(m, names, pith_build_convolution(m, &conv));
    gate(m, names->norm);
    (void)pith_plan_site(m, "out", d->value_heads * d->value_dim, (struct pith_fold){0});
    pith_build_out(m, names->out, false, d->value_heads, (const unsigned[3]){V, b->out, V});
    pith_plan_module(m, site, b->out);
}
