/* Granite 3 with experts: Granite's factors, a router that takes the softmax of the chosen logits;
 * one form has what all tokens share. */
#include "model/family/family.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_moe absent = {.experts = 8, .taken = 2, .router = PITH_ROUTER_TOP};
    PITH_TRY(pith_family_read_granite(c, shape, err));
    PITH_TRY(pith_family_read_moe(c, &pith_family_moe_local, &absent, shape, err));
    shape->mlp_bias = false;
    pith_layer_put_all(&shape->moe.layers, shape->layers);
    return PITH_OK;
}

static enum pith_status read_shared(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    PITH_TRY(read_shape(c, shape, err));
    return pith_family_read_size(c, "shared_intermediate_size", PITH_MAX_WIDTH, 1024,
                                 &shape->moe.shared_ffn, err);
}

static const struct pith_family family = {PITH_FAMILY_NORMS, PITH_FAMILY_ATTENTION,
                                          .moe = {PITH_FAMILY_GRANITE_EXPERTS}};
static const struct pith_family family_shared = {
    PITH_FAMILY_NORMS, PITH_FAMILY_ATTENTION,
    .moe = {PITH_FAMILY_GRANITE_EXPERTS, .shared_gate_up = "shared_mlp.input_linear",
            .shared_down = "shared_mlp.output_linear"}};

const struct pith_arch pith_arch_granitemoe = {
    .name = "GraniteMoeForCausalLM",
    .model_type = "granitemoe",
    .summary = "Granite 3 mixtures of experts",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "granitemoe",
             .turned = true,
             .factors = true,
             .experts = "num_local_experts",
             .expert_width = "intermediate_size",
             .renormalised = true,
             .all_sparse = true,
             .features = 1u << PITH_GGUF_HAS_SCORE_SCALE | 1u << PITH_GGUF_HAS_EMBED_SCALE |
                         1u << PITH_GGUF_HAS_BRANCH_SCALE | 1u << PITH_GGUF_HAS_LOGIT_SCALE},
};

const struct pith_arch pith_arch_granitemoeshared = {
    .name = "GraniteMoeSharedForCausalLM",
    .model_type = "granitemoeshared",
    .summary = "Granite 3 mixtures with a shared expert",
    .read = read_shared,
    .plan = pith_family_plan,
    .family = &family_shared,
    .names = PITH_FAMILY_NAMES,
};
