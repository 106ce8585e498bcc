/* GLM-4.5, 4.6 and 4.7: experts chosen as DeepSeek V3 does, behind some dense layers; half of a
 * head is rotated. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {
        .kv_heads = 8, .max_position = 131072, .partial = 0.5};
    static const struct pith_moe absent = {.experts = 128,
                                           .taken = 8,
                                           .ffn = 1408,
                                           .router = PITH_ROUTER_SIGMOID,
                                           .renormalised = true,
                                           .correction = true,
                                           .group_best_two = true};
    bool normed = false;
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_mixture(c, &pith_mixture_keys_deepseek, &absent, shape, err));
    PITH_TRY(pith_read_shared(c, "n_shared_experts", 1, shape, err));
    PITH_TRY(pith_read_dense_first(c, "first_k_dense_replace", 1, shape, err));
    PITH_TRY(pith_config_bool(c, "attention_bias", &shape->biases.qkv, err));
    PITH_TRY(pith_config_bool(c, "use_qk_norm", &normed, err));
    pith_shape_set_own(shape, &normed, sizeof normed);
    return PITH_OK;
}

static void layer(struct pith_plan_maker *m)
{
    bool normed;
    const struct pith_norms norms = pith_build_norms(m);
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = pith_mlp_of(m);
    struct pith_experts_spec experts = {PITH_NAMES_EXPERTS, PITH_NAMES_FUSED,
                                        .shared = "mlp.shared_experts"};
    pith_shape_own(m->shape, &normed, sizeof normed);
    if (normed) pith_build_head_norms(m, &attention, PITH_HEADS_EACH);
    pith_build_correction(m, &experts, "mlp.gate.e_score_correction_bias", false);
    pith_build_sequential(m, &norms, &attention, &mlp, &experts);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORMS_POST,
    PITH_GGUF_ATTENTION,
    PITH_GGUF_QK_NORM,
    PITH_GGUF_MLP,
    PITH_GGUF_EXPERTS_QWEN,
    PITH_GGUF_CORRECTION("mlp.gate.e_score_correction_bias"),
    PITH_GGUF_SHARED("mlp.shared_experts"),
    {0}};

const struct pith_arch pith_arch_glm4_moe = {
    .name = "Glm4MoeForCausalLM",
    .model_type = "glm4_moe",
    .summary = "GLM-4.5 to 4.7",
    .read = read_shape,
    .layer = layer,
    .names = {PITH_NAMES_IN("model."), .head = "lm_head", .further = true},
    .gguf = {.name = "glm4moe",
             .parts = parts,
             .experts = "n_routed_experts",
             .by_keys = true,
             .qkv_bias_only = true,
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS | 1u << PITH_GGUF_HAS_SHARED |
                         1u << PITH_GGUF_HAS_CORRECTION},
};
