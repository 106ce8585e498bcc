/* The gated delta rule with its short convolution: its plan, and reading its sizes. */
#include "model/family/regs.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

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

static uint32_t compute(struct pith_plan_maker *m, const char *name, uint32_t rows,
                        const unsigned reg[3])
{
    return pith_family_compute(m, name, rows, false, reg);
}

/* What steers the state is as few rows as it is delicate. */
static void steer(struct pith_plan_maker *m, const char *name, uint32_t rows, unsigned in,
                  unsigned out)
{
    const uint32_t linear = compute(m, name, rows, (const unsigned[3]){in, out, OUT});
    if (!m->failed) m->plan->linear[linear].stays = true;
}

/* Of each key head q, k, its values, their gates; and beta and a of its value heads. */
static void project_by_heads(struct pith_plan_maker *m, unsigned in)
{
    const struct pith_family_delta *f = &m->arch->family->delta;
    const struct pith_delta_shape *d = &m->shape->delta;
    const struct widths w = widths_of(d);
    struct pith_node n = {.kind = PITH_NODE_SPLIT, .in = FUSED, .out = FUSED};
    (void)compute(m, f->qkvz, w.mixed + w.values, (const unsigned[3]){in, FUSED, OUT});
    steer(m, f->ba, 2 * d->value_heads, in, GATE);
    const uint32_t dims[4] = {d->key_dim, d->key_dim, w.shared * d->value_dim,
                              w.shared * d->value_dim};
    const uint32_t at[4] = {0, w.keys, 2 * w.keys, 0};
    n.u.split.heads = d->key_heads;
    n.u.split.parts = 4;
    for (int i = 0; i < 4; i++) {
        n.u.split.dim[i] = dims[i];
        n.u.split.at[i] = at[i];
        n.u.split.to[i] = i < 3 ? Q : V;
        n.u.split.wide[i] = i < 3 ? w.mixed : 0;
    }
    pith_plan_node(m, n);
    struct pith_node two = {.kind = PITH_NODE_SPLIT, .in = GATE, .out = GATE};
    two.u.split.heads = d->key_heads;
    two.u.split.parts = 2;
    two.u.split.dim[0] = two.u.split.dim[1] = w.shared;
    two.u.split.to[0] = UP;
    two.u.split.to[1] = K;
    pith_plan_node(m, two);
}

/* q | k | v into Q, the gates into V, beta into UP and a into K. */
static void project(struct pith_plan_maker *m, unsigned in)
{
    const struct pith_family_delta *f = &m->arch->family->delta;
    const struct pith_delta_shape *d = &m->shape->delta;
    const struct widths w = widths_of(d);
    pith_plan_reg(m, Q, w.mixed);
    pith_plan_reg(m, V, w.values);
    pith_plan_reg(m, UP, d->value_heads);
    pith_plan_reg(m, K, d->value_heads);
    if (f->qkvz) {
        project_by_heads(m, in);
        return;
    }
    (void)compute(m, f->qkv, w.mixed, (const unsigned[3]){in, Q, OUT});
    (void)compute(m, f->z, w.values, (const unsigned[3]){in, V, OUT});
    steer(m, f->b, d->value_heads, in, UP);
    steer(m, f->a, d->value_heads, in, K);
}

/* Into GATE; what the layer keeps is the convolution's newest inputs, `offset` floats, then the
 * state. */
static void recur(struct pith_plan_maker *m, uint32_t offset)
{
    const struct pith_family_delta *f = &m->arch->family->delta;
    const struct pith_delta_shape *d = &m->shape->delta;
    const struct widths w = widths_of(d);
    struct pith_node n = {.kind = PITH_NODE_DELTA, .in = Q, .out = GATE};
    n.u.delta.a = K;
    n.u.delta.beta = UP;
    n.u.delta.a_log = pith_plan_vector(m, f->a_log, d->value_heads);
    n.u.delta.dt_bias = pith_plan_vector(m, f->dt_bias, d->value_heads);
    n.u.delta.key_heads = d->key_heads;
    n.u.delta.value_heads = d->value_heads;
    n.u.delta.key_dim = d->key_dim;
    n.u.delta.value_dim = d->value_dim;
    n.u.delta.offset = offset;
    pith_plan_reg(m, GATE, w.values);
    pith_plan_node(m, n);
    const size_t state = pith_delta_state(d->value_heads, d->key_dim, d->value_dim);
    m->plan->state = (struct pith_state_spec){.kind = PITH_STATE_RECURRENT,
                                              .floats = n.u.delta.offset + (uint32_t)state};
}

/* V becomes the norm of each head of GATE, times SiLU of what V holds. */
static void gate(struct pith_plan_maker *m)
{
    const struct pith_delta_shape *d = &m->shape->delta;
    struct pith_node n = {.kind = PITH_NODE_NORM, .in = GATE, .out = GATE};
    n.u.norm.vector = pith_family_vector(m, m->arch->family->delta.norm, d->value_dim);
    n.u.norm.bias = PITH_NO_PART;
    n.u.norm.heads = d->value_heads;
    n.u.norm.dim = d->value_dim;
    n.u.norm.eps = m->shape->eps;
    pith_plan_node(m, n);
    struct pith_node g = {.kind = PITH_NODE_GATE, .in = V, .out = V};
    g.u.gate.up = GATE;
    g.u.gate.other = true;
    g.u.gate.act = PITH_ACT_SILU;
    g.u.gate.dim = d->value_heads * d->value_dim;
    pith_plan_node(m, g);
}

void pith_family_delta(struct pith_plan_maker *m, const struct pith_family_branch *b)
{
    const struct pith_shape *s = m->shape;
    const uint32_t site = pith_plan_site(m, "in", s->hidden, b->fold);
    const struct pith_family_conv conv = {.name = m->arch->family->delta.conv,
                                          .reg = Q,
                                          .dim = widths_of(&s->delta).mixed,
                                          .silu = true};
    project(m, b->in);
    recur(m, pith_family_convolve(m, &conv));
    gate(m);
    (void)pith_plan_site(m, "out", s->delta.value_heads * s->delta.value_dim,
                         (struct pith_fold){0});
    const uint32_t out =
        compute(m, m->arch->family->delta.out, s->hidden, (const unsigned[3]){V, b->out, V});
    if (!m->failed) {
        m->plan->linear[out].by_cols = true;
        m->plan->linear[out].heads = s->delta.value_heads;
    }
    pith_plan_module(m, site, b->out);
}

/* --- config.json ------------------------------------------------------------------------------ */

static enum pith_status check(const struct pith_config *c, const struct pith_delta_shape *d,
                              struct pith_error *err)
{
    if (d->value_heads % d->key_heads != 0)
        return pith_fail(err, PITH_FORMAT,
                         "%s: \"linear_num_value_heads\" %u is not a multiple of "
                         "\"linear_num_key_heads\" %u",
                         c->where, d->value_heads, d->key_heads);
    const uint64_t keys = (uint64_t)d->key_heads * d->key_dim;
    const uint64_t values = (uint64_t)d->value_heads * d->value_dim;
    const size_t state = pith_delta_state(d->value_heads, d->key_dim, d->value_dim);
    if (2 * (keys + values) <= PITH_MAX_WIDTH && state <= 1 << 28) return PITH_OK;
    return pith_fail(err, PITH_FORMAT,
                     "%s: %u and %u heads of linear attention of %u and %u are "
                     "wider than %d",
                     c->where, d->key_heads, d->value_heads, d->key_dim, d->value_dim,
                     (int)PITH_MAX_WIDTH);
}

enum pith_status pith_family_read_delta(const struct pith_config *c, struct pith_shape *shape,
                                        struct pith_error *err)
{
    struct pith_delta_shape *d = &shape->delta;
    const struct {
        const char *key;
        int64_t hi;
        uint32_t absent, *to;
    } sizes[] = {{"linear_num_key_heads", PITH_MAX_HEADS, 16, &d->key_heads},
                 {"linear_num_value_heads", PITH_MAX_HEADS, 32, &d->value_heads},
                 {"linear_key_head_dim", PITH_DELTA_DIM, 128, &d->key_dim},
                 {"linear_value_head_dim", PITH_DELTA_DIM, 128, &d->value_dim},
                 {"linear_conv_kernel_dim", PITH_CONV_TAPS, 4, &shape->taps}};
    for (size_t i = 0; i < PITH_COUNT(sizes); i++)
        PITH_TRY(
            pith_family_read_size(c, sizes[i].key, sizes[i].hi, sizes[i].absent, sizes[i].to, err));
    const bool given = pith_config_has(c, "layer_types");
    int64_t every = 4;
    PITH_TRY(pith_family_read_layer_types(c, shape, "linear_attention", "full_attention",
                                          &shape->recurrent, err));
    PITH_TRY(pith_config_int(c, "full_attention_interval", 1, INT32_MAX, &every, err));
    for (uint32_t i = 0; !given && i < shape->layers; i++)
        if (((int64_t)i + 1) % every != 0) pith_layer_put(&shape->recurrent, i);
    return check(c, d, err);
}
