/* Seed-OSS: Llama with biases on q, k and v. */
#include "model/family/family.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {
        .kv_heads = 8, .head_dim = 128, .max_position = 524288};
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    shape->qkv_bias = true;
    PITH_TRY(pith_config_bool(c, "attention_bias", &shape->qkv_bias, err));
    PITH_TRY(pith_config_bool(c, "attention_out_bias", &shape->o_bias, err));
    return pith_config_bool(c, "mlp_bias", &shape->mlp_bias, err);
}

const struct pith_arch pith_arch_seed_oss = {
    .name = "SeedOssForCausalLM",
    .model_type = "seed_oss",
    .summary = "Seed-OSS: biases on q, k and v",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &pith_family_llama,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "seed_oss",
             .qkv_bias_only = true,
             .before_mlp = "post_attention_norm",
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS},
};
