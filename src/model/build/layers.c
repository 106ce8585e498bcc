/* Layers that many architectures have. */
#include "model/build/build.h"

struct pith_norms pith_build_norms(struct pith_plan_maker *m)
{
    struct pith_norms n = {.attention = pith_build_norm(m, "input_layernorm")};
    n.mlp = pith_build_norm(m, "post_attention_layernorm");
    return n;
}

struct pith_norms pith_build_norms_before(struct pith_plan_maker *m)
{
    struct pith_norms n = {.attention = pith_build_norm(m, "input_layernorm")};
    n.mlp = pith_build_norm(m, "pre_feedforward_layernorm");
    return n;
}

struct pith_norms pith_build_norms_after(struct pith_plan_maker *m)
{
    struct pith_norms n = {.attention = pith_build_norm_after(m, "post_attention_layernorm")};
    n.mlp = pith_build_norm_after(m, "post_feedforward_layernorm");
    return n;
}

void pith_build_feed_forward(struct pith_plan_maker *m, const struct pith_branch *b,
                             const struct pith_mlp_spec *p, const struct pith_experts_spec *x)
{
    if (x && pith_layer_is_sparse(m)) pith_build_experts(m, b, x);
    else pith_plan_module(m, pith_build_mlp(m, b, p), b->out);
}

void pith_build_rest(struct pith_plan_maker *m, struct pith_norm before,
                     const struct pith_mlp_spec *p, const struct pith_experts_spec *x)
{
    pith_build_add(m, OUT);
    const struct pith_branch branch = pith_build_branch(m, before, OUT);
    pith_build_feed_forward(m, &branch, p, x);
    pith_build_add(m, OUT);
}

void pith_build_sequential(struct pith_plan_maker *m, const struct pith_norms *before,
                           const struct pith_attention_spec *a, const struct pith_mlp_spec *p,
                           const struct pith_experts_spec *x)
{
    const struct pith_branch first = pith_build_branch(m, before->attention, OUT);
    pith_build_attention(m, &first, a);
    pith_build_rest(m, before->mlp, p, x);
}

void pith_build_around(struct pith_plan_maker *m, const struct pith_norms *before,
                       const struct pith_norms *after, const struct pith_attention_spec *a,
                       const struct pith_mlp_spec *p)
{
    const struct pith_branch first = pith_build_branch(m, before->attention, OUT);
    pith_build_attention(m, &first, a);
    pith_build_add_normed(m, OUT, after->attention);
    const struct pith_branch second = pith_build_branch(m, before->mlp, OUT);
    pith_build_feed_forward(m, &second, p, NULL);
    pith_build_add_normed(m, OUT, after->mlp);
}

void pith_build_parallel(struct pith_plan_maker *m, struct pith_norm norm,
                         const struct pith_attention_spec *a, const struct pith_mlp_spec *p)
{
    struct pith_branch branch = pith_build_branch(m, norm, BRANCH);
    pith_build_attention(m, &branch, a);
    branch.out = OUT;
    pith_build_feed_forward(m, &branch, p, NULL);
    pith_build_add(m, BRANCH);
    pith_build_add(m, OUT);
}

void pith_build_llama_with(struct pith_plan_maker *m, enum pith_head_norm_kind kind,
                           const struct pith_experts_spec *x)
{
    const struct pith_norms norms = pith_build_norms(m);
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = pith_mlp_of(m);
    if (kind != PITH_HEADS_PLAIN) pith_build_head_norms(m, &attention, kind);
    pith_build_sequential(m, &norms, &attention, &mlp, x);
}

void pith_build_llama(struct pith_plan_maker *m)
{
    pith_build_llama_with(m, PITH_HEADS_PLAIN, NULL);
}

void pith_build_olmo(struct pith_plan_maker *m, enum pith_head_norm_kind kind)
{
    const struct pith_norms none = {0};
    const struct pith_norms after = pith_build_norms_after(m);
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = pith_mlp_of(m);
    pith_build_head_norms(m, &attention, kind);
    pith_build_around(m, &none, &after, &attention, &mlp);
}
