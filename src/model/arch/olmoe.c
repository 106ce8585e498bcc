/* OLMoE: norms over all heads of q and of k, which may be clamped together with v. */
#include "model/family/family.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {.max_position = 4096};
    static const struct pith_family_moe_keys keys = {.count = {"num_experts", "num_local_experts"},
                                                     .taken = {"num_experts_per_tok"},
                                                     .renormalised = true};
    static const struct pith_moe absent = {.experts = 64, .taken = 8};
    bool bias = false;
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(pith_family_read_moe(c, &keys, &absent, shape, err));
    PITH_TRY(pith_family_read_cap(c, "clip_qkv", &shape->qkv_clip, err));
    PITH_TRY(pith_config_bool(c, "attention_bias", &bias, err));
    pith_layer_put_all(&shape->moe.layers, shape->layers);
    shape->qkv_bias = shape->o_bias = bias;
    shape->qk_norm = true;
    return PITH_OK;
}

static const struct pith_family family = {PITH_FAMILY_NORMS, PITH_FAMILY_ATTENTION,
                                          PITH_FAMILY_QK_NORM, .qk_norm = PITH_QK_ROW,
                                          .moe = {PITH_FAMILY_EXPERTS, PITH_FAMILY_FUSED}};

const struct pith_arch pith_arch_olmoe = {
    .name = "OlmoeForCausalLM",
    .model_type = "olmoe",
    .summary = "OLMoE",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "olmoe", .expert_width = "intermediate_size", .all_sparse = true},
};
