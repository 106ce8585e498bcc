/* Mamba 2's layer (Dao and Gu 2024). */
#include "model/build/build.h"

/* The norm of each group of V's channels; what `out_proj` reads can be rescaled in its gain. */
static struct pith_fold norm_groups(struct pith_plan_maker *m, uint32_t width)
{
    const uint32_t groups = m->shape->scan.groups;
    struct pith_node n = {.kind = PITH_NODE_NORM, .in = V, .out = V};
    n.u.norm.vector = pith_build_vector(m, "mamba.norm", width);
    n.u.norm.bias = PITH_NO_PART;
    n.u.norm.heads = groups;
    n.u.norm.dim = width / groups;
    n.u.norm.by_head = groups > 1;
    n.u.norm.eps = m->shape->eps;
    pith_plan_node(m, n);
    return (struct pith_fold){.kind = PITH_FOLD_VECTOR, .from = n.u.norm.vector};
}

/* Into GATE; the layer's state is the convolution's newest inputs, `offset` floats, then the scan's
 * own. */
static void scan(struct pith_plan_maker *m, uint32_t offset)
{
    const struct pith_scan_shape *s = &m->shape->scan;
    struct pith_node n = {.kind = PITH_NODE_SCAN, .in = Q, .out = GATE};
    n.u.scan.step = K;
    n.u.scan.a_log = pith_plan_vector(m, "mamba.A_log", s->heads);
    n.u.scan.dt_bias = pith_plan_vector(m, "mamba.dt_bias", s->heads);
    n.u.scan.skip = pith_plan_vector(m, "mamba.D", s->heads);
    n.u.scan.heads = s->heads;
    n.u.scan.dim = s->dim;
    n.u.scan.groups = s->groups;
    n.u.scan.state = s->state;
    n.u.scan.offset = offset;
    n.u.scan.least = (float)s->least;
    n.u.scan.most = (float)s->most;
    pith_plan_reg(m, GATE, s->heads * s->dim);
    pith_plan_node(m, n);
    m->plan->state.floats += (uint32_t)pith_scan_state(s->heads, s->dim, s->state);
}

void pith_build_scan(struct pith_plan_maker *m, const struct pith_branch *b)
{
    const struct pith_scan_shape *s = &m->shape->scan;
    const uint32_t width = s->heads * s->dim, mixed = width + 2 * s->groups * s->state;
    const struct pith_convolution_spec conv = {
        .name = "mamba.conv1d", .reg = Q, .dim = mixed, .silu = true};
    const uint32_t site = pith_plan_site(m, "in", m->shape->hidden, b->fold);
    (void)pith_build_linear(m, "mamba.in_proj", width + mixed + s->heads, s->bias,
                            (const unsigned[3]){b->in, FUSED, OUT});
    pith_build_split(m, 3, (const uint32_t[3]){width, mixed, s->heads},
                     (const uint8_t[3]){V, Q, K});
    scan(m, pith_build_convolution(m, &conv));
    pith_build_times(m, V, GATE, width, PITH_ACT_SILU);
    (void)pith_plan_site(m, "out", width, norm_groups(m, width));
    pith_build_out(m, "mamba.out_proj", s->bias, s->heads, (const unsigned[3]){V, b->out, V});
    pith_plan_module(m, site, b->out);
}
