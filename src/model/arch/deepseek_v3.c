/* DeepSeek V3 and R1, Kimi K2, Moonlight: latent attention, and experts chosen by groups. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.head_dim = 64, .max_position = 4096};
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
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_latent(c, &latent, shape, err));
    PITH_TRY(pith_read_mixture(c, &pith_mixture_keys_deepseek, &absent, shape, err));
    PITH_TRY(pith_read_shared(c, "n_shared_experts", 1, shape, err));
    PITH_TRY(pith_read_dense_first(c, "first_k_dense_replace", 3, shape, err));
    PITH_TRY(pith_config_bool(c, "rope_interleave", &shape->latent.adjacent, err));
    return pith_config_bool(c, "attention_bias", &shape->biases.o, err);
}

void pith_build_deepseek(struct pith_plan_maker *m)
{
    const struct pith_norms norms = pith_build_norms(m);
    const struct pith_latent_spec attention = {PITH_NAMES_LATENT, .bias = m->shape->biases.o};
    const struct pith_mlp_spec mlp = pith_mlp_of(m);
    struct pith_experts_spec experts = {PITH_NAMES_EXPERTS, PITH_NAMES_FUSED,
                                        .shared = "mlp.shared_experts",
                                        .shared_bias = m->shape->biases.mlp};
    pith_build_correction(m, &experts, "mlp.gate.e_score_correction_bias", false);
    const struct pith_branch first = pith_build_branch(m, norms.attention, OUT);
    pith_build_latent(m, &first, &attention);
    pith_build_rest(m, norms.mlp, &mlp, &experts);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORMS,
    PITH_GGUF_PART("self_attn.o_proj", "attn_output"),
    PITH_GGUF_MLP,
    PITH_GGUF_EXPERTS_QWEN,
    PITH_GGUF_CORRECTION("mlp.gate.e_score_correction_bias"),
    PITH_GGUF_LATENT,
    PITH_GGUF_SHARED("mlp.shared_experts"),
    {0}};

const struct pith_arch pith_arch_deepseek_v3 = {
    .name = "DeepseekV3ForCausalLM",
    .model_type = "deepseek_v3",
    .summary = "DeepSeek V3 and R1, Kimi K2, Moonlight: latent attention",
    .read = read_shape,
    .layer = pith_build_deepseek,
    .names = {PITH_NAMES_IN("model."), .head = "lm_head", .further = true},
    .gguf = {.name = "deepseek2",
             .parts = parts,
             .experts = "n_routed_experts",
             .by_keys = true,
             .gating = 2,
             .features = 1u << PITH_GGUF_HAS_LATENT | 1u << PITH_GGUF_HAS_SHARED |
                         1u << PITH_GGUF_HAS_CORRECTION},
};
