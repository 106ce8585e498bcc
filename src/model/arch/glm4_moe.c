/* GLM-4.5, 4.6 and 4.7: experts chosen as DeepSeek V3 does, behind some dense layers; half of a
 * head is rotated. */
#include "model/family/family.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {
        .kv_heads = 8, .max_position = 131072, .partial = 0.5};
    static const struct pith_moe absent = {.experts = 128,
                                           .taken = 8,
                                           .ffn = 1408,
                                           .router = PITH_ROUTER_SIGMOID,
                                           .renormalised = true,
                                           .correction = true,
                                           .group_best_two = true};
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(pith_family_read_moe(c, &pith_family_moe_deepseek, &absent, shape, err));
    PITH_TRY(pith_family_read_shared(c, "n_shared_experts", 1, shape, err));
    PITH_TRY(pith_family_read_dense_first(c, 1, shape, err));
    PITH_TRY(pith_config_bool(c, "attention_bias", &shape->qkv_bias, err));
    return pith_config_bool(c, "use_qk_norm", &shape->qk_norm, err);
}

static const struct pith_family family = {
    PITH_FAMILY_NORMS, PITH_FAMILY_ATTENTION, PITH_FAMILY_MLP, PITH_FAMILY_QK_NORM,
    .moe = {PITH_FAMILY_EXPERTS, PITH_FAMILY_FUSED, .shared = "mlp.shared_experts",
            .correction = "mlp.gate.e_score_correction_bias"}};

const struct pith_arch pith_arch_glm4_moe = {
    .name = "Glm4MoeForCausalLM",
    .model_type = "glm4_moe",
    .summary = "GLM-4.5 to 4.7",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = {PITH_FAMILY_NAMES_IN("model."), .head = "lm_head", .further = true},
    .gguf = {.name = "glm4moe",
             .experts = "n_routed_experts",
             .by_keys = true,
             .qkv_bias_only = true,
             .before_mlp = "post_attention_norm",
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS | 1u << PITH_GGUF_HAS_SHARED |
                         1u << PITH_GGUF_HAS_CORRECTION},
};
