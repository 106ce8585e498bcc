/* Layers of Mamba 2 (Dao and Gu 2024): their plan, and reading their sizes. */
#include "model/family/regs.h"

#include <math.h>
#include <string.h>

/* The norm of each group of V's channels; what `out_proj` reads can be rescaled in its gain. */
static struct pith_fold norm_groups(struct pith_plan_maker *m, uint32_t width)
{
    const uint32_t groups = m->shape->scan.groups;
    struct pith_node n = {.kind = PITH_NODE_NORM, .in = V, .out = V};
    n.u.norm.vector = pith_family_vector(m, "mamba.norm", width);
    n.u.norm.bias = PITH_NO_PART;
    n.u.norm.heads = groups;
    n.u.norm.dim = width / groups;
    n.u.norm.by_head = groups > 1;
    n.u.norm.eps = m->shape->eps;
    pith_plan_node(m, n);
    return (struct pith_fold){.kind = PITH_FOLD_VECTOR, .from = n.u.norm.vector};
}

/* Into GATE; what the layer keeps is the convolution's newest inputs, `offset` floats, then the
 * state. */
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

void pith_family_mamba(struct pith_plan_maker *m, const struct pith_family_branch *b)
{
    const struct pith_scan_shape *s = &m->shape->scan;
    const uint32_t width = s->heads * s->dim, mixed = width + 2 * s->groups * s->state;
    const struct pith_family_conv conv = {
        .name = "mamba.conv1d", .reg = Q, .dim = mixed, .silu = true};
    struct pith_node gate = {.kind = PITH_NODE_GATE, .in = V, .out = V};
    const uint32_t site = pith_plan_site(m, "in", m->shape->hidden, b->fold);
    (void)pith_family_compute(m, "mamba.in_proj", width + mixed + s->heads, s->bias,
                              (const unsigned[3]){b->in, FUSED, OUT});
    pith_family_split(m, 3, (const uint32_t[]){width, mixed, s->heads}, (const uint8_t[]){V, Q, K});
    scan(m, pith_family_convolve(m, &conv));
    gate.u.gate.up = GATE;
    gate.u.gate.other = true;
    gate.u.gate.act = PITH_ACT_SILU;
    gate.u.gate.dim = width;
    pith_plan_node(m, gate);
    (void)pith_plan_site(m, "out", width, norm_groups(m, width));
    const uint32_t out = pith_family_compute(m, "mamba.out_proj", m->shape->hidden, s->bias,
                                             (const unsigned[3]){V, b->out, V});
    if (!m->failed) m->plan->linear[out].by_cols = true;
    if (!m->failed) m->plan->linear[out].heads = s->heads;
    pith_plan_module(m, site, b->out);
}

/* --- config.json ------------------------------------------------------------------------------ */

/* A number, or an infinity as JSON cannot say it. */
static double number_of(const json_t *v)
{
    const char *text = json_string_value(json_object_get(v, "__float__"));
    return text && strcmp(text, "Infinity") == 0 ? INFINITY : pith_json_number(v);
}

enum pith_status pith_family_read_mamba(const struct pith_config *c, struct pith_shape *shape,
                                        struct pith_error *err)
{
    struct pith_scan_shape *s = &shape->scan;
    uint32_t expand = 2;
    const json_t *limit = pith_config_get(c, "time_step_limit");
    const json_t *head = pith_config_get(c, "mamba_d_head");
    shape->conv_bias = true;
    PITH_TRY(pith_family_read_size(c, "mamba_n_heads", PITH_MAX_HEADS, 128, &s->heads, err));
    PITH_TRY(pith_family_read_size(c, "mamba_n_groups", PITH_MAX_HEADS, 1, &s->groups, err));
    PITH_TRY(pith_family_read_size(c, "mamba_d_state", PITH_DELTA_DIM, 256, &s->state, err));
    PITH_TRY(pith_family_read_size(c, "mamba_d_conv", PITH_CONV_TAPS, 4, &shape->taps, err));
    PITH_TRY(pith_family_read_size(c, "mamba_expand", 64, expand, &expand, err));
    PITH_TRY(pith_config_bool(c, "mamba_conv_bias", &shape->conv_bias, err));
    PITH_TRY(pith_config_bool(c, "mamba_proj_bias", &s->bias, err));
    const uint64_t width = (uint64_t)expand * shape->hidden;
    s->dim = (uint32_t)(width / s->heads);
    if (json_is_integer(head))
        PITH_TRY(pith_family_read_size(c, "mamba_d_head", PITH_DELTA_DIM, 0, &s->dim, err));
    s->most = INFINITY;
    if (json_array_size(limit) == 2) {
        s->least = number_of(json_array_get(limit, 0));
        s->most = number_of(json_array_get(limit, 1));
    }
    if ((uint64_t)s->dim * s->heads != width || width > PITH_MAX_WIDTH || s->dim > PITH_DELTA_DIM ||
        s->heads % s->groups != 0 || (uint64_t)s->groups * s->state > PITH_MAX_WIDTH ||
        pith_scan_state(s->heads, s->dim, s->state) > 1 << 28 || !(s->least <= s->most))
        return pith_fail(
            err, PITH_FORMAT, "%s: %u heads of Mamba of %u in %u groups of %u, for a width of %llu",
            c->where, s->heads, s->dim, s->groups, s->state, (unsigned long long)width);
    return PITH_OK;
}
