/* GLM-4 of 2025: norms before and after both parts, half of each head rotated in neighbouring
 * pairs, gate and up in one linear. */
#include "model/family/family.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {.kv_heads = 2,
                                                         .head_dim = 128,
                                                         .max_position = 131072,
                                                         .partial = 0.5,
                                                         .eps_absent = 1.5625e-7};
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    return pith_config_bool(c, "attention_bias", &shape->qkv_bias, err);
}

static const struct pith_family family = {.before_attention = "input_layernorm",
                                          .after_attention = "post_self_attn_layernorm",
                                          .before_mlp = "post_attention_layernorm",
                                          .after_mlp = "post_mlp_layernorm",
                                          PITH_FAMILY_ATTENTION,
                                          .gate_up = "mlp.gate_up_proj",
                                          .down = "mlp.down_proj",
                                          .rope_adjacent = true};

const struct pith_arch pith_arch_glm4 = {
    .name = "Glm4ForCausalLM",
    .model_type = "glm4",
    .summary = "GLM-4 (0414): norms before and after",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "glm4", .qkv_bias_only = true, .features = 1u << PITH_GGUF_HAS_QKV_BIAS},
};
