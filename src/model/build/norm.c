/* Norms of the stream, and the branches that read them. */
#include "model/build/build.h"

static struct pith_norm declare(struct pith_plan_maker *m, const char *module, bool of_stream)
{
    const struct pith_norm_kind *kind = &m->arch->norm;
    struct pith_norm n = {true, PITH_NO_PART, PITH_NO_PART};
    n.gain = pith_build_vector(m, module, m->shape->hidden);
    if (kind->bias) n.bias = pith_build_bias(m, module, m->shape->hidden);
    if (m->failed) return n;
    m->plan->vector[n.gain].of_stream = of_stream && !kind->centred;
    m->plan->vector[n.gain].plus = kind->plus;
    return n;
}

struct pith_norm pith_build_norm(struct pith_plan_maker *m, const char *module)
{
    return declare(m, module, true);
}

struct pith_norm pith_build_norm_after(struct pith_plan_maker *m, const char *module)
{
    return declare(m, module, false);
}

struct pith_norm pith_build_norm_bare(void)
{
    return (struct pith_norm){true, PITH_NO_PART, PITH_NO_PART};
}

void pith_build_normed(struct pith_plan_maker *m, struct pith_norm norm, unsigned in, unsigned out)
{
    struct pith_node n = {.kind = PITH_NODE_NORM, .in = (uint8_t)in, .out = (uint8_t)out};
    n.u.norm.vector = norm.gain;
    n.u.norm.bias = norm.bias;
    n.u.norm.heads = 1;
    n.u.norm.dim = m->shape->hidden;
    n.u.norm.centred = m->arch->norm.centred;
    n.u.norm.eps = m->shape->eps;
    pith_plan_reg(m, out, m->shape->hidden);
    pith_plan_node(m, n);
}

struct pith_fold pith_build_fold(struct pith_norm n)
{
    if (!n.there || n.gain == PITH_NO_PART || n.bias != PITH_NO_PART) return (struct pith_fold){0};
    return (struct pith_fold){.kind = PITH_FOLD_VECTOR, .from = n.gain};
}

struct pith_branch pith_build_branch(struct pith_plan_maker *m, struct pith_norm n, unsigned out)
{
    if (!n.there) return (struct pith_branch){.in = X, .out = out};
    pith_build_normed(m, n, X, NORMED);
    return (struct pith_branch){.in = NORMED, .out = out, .fold = pith_build_fold(n)};
}

void pith_build_add(struct pith_plan_maker *m, unsigned result)
{
    const double scale = m->shape->branch_scale;
    pith_plan_add(m, result, scale != 0 ? (float)scale : 1.0f);
}

void pith_build_add_normed(struct pith_plan_maker *m, unsigned result, struct pith_norm after)
{
    pith_build_normed(m, after, result, result);
    pith_build_add(m, result);
}
