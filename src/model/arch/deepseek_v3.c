/* DeepSeek V3 and R1, Kimi K2, Moonlight: latent attention, and experts chosen by groups. */
#include "model/family/family.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {.head_dim = 64, .max_position = 4096};
    static const struct pith_latent_shape latent = {
        .q_rank = 1536, .rank = 512, .nope = 128, .rope = 64, .value = 128, .adjacent = true};
    static const struct pith_moe absent = {.experts = 256,
                                           .taken = 8,
                                           .ffn = 2048,
                                           .router = PITH_ROUTER_SIGMOID,
                                           .renormalised = true,
                                           .correction = true,
                                           .scale = 2.5,
                                           .groups = 8,
                                           .groups_taken = 4,
                                           .group_best_two = true};
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(pith_family_read_latent(c, &latent, shape, err));
    PITH_TRY(pith_family_read_moe(c, &pith_family_moe_deepseek, &absent, shape, err));
    PITH_TRY(pith_family_read_shared(c, "n_shared_experts", 1, shape, err));
    PITH_TRY(pith_family_read_dense_first(c, 3, shape, err));
    PITH_TRY(pith_config_bool(c, "rope_interleave", &shape->latent.adjacent, err));
    return pith_config_bool(c, "attention_bias", &shape->o_bias, err);
}

const struct pith_family pith_family_deepseek = {
    PITH_FAMILY_NORMS, PITH_FAMILY_MLP, PITH_FAMILY_LATENT, .o = "self_attn.o_proj",
    .moe = {PITH_FAMILY_EXPERTS, PITH_FAMILY_FUSED, .shared = "mlp.shared_experts",
            .correction = "mlp.gate.e_score_correction_bias"}};

const struct pith_arch pith_arch_deepseek_v3 = {
    .name = "DeepseekV3ForCausalLM",
    .model_type = "deepseek_v3",
    .summary = "DeepSeek V3 and R1, Kimi K2, Moonlight: latent attention",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &pith_family_deepseek,
    .names = {PITH_FAMILY_NAMES_IN("model."), .head = "lm_head", .further = true},
    .gguf = {.name = "deepseek2",
             .experts = "n_routed_experts",
             .by_keys = true,
             .gating = 2,
             .features = 1u << PITH_GGUF_HAS_LATENT | 1u << PITH_GGUF_HAS_SHARED |
                         1u << PITH_GGUF_HAS_CORRECTION},
};
