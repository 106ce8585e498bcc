/* Qwen3: q and k are normalised head by head before they are rotated. */
#include "model/family/family.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {
        .kv_heads = 32, .head_dim = 128, .max_position = 32768};
    bool attention_bias = false;
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(pith_config_bool(c, "attention_bias", &attention_bias, err));
    shape->qkv_bias = shape->o_bias = attention_bias;
    shape->qk_norm = true;
    return pith_family_read_qwen_window(c, shape, err);
}

const struct pith_arch pith_arch_qwen3 = {
    .name = "Qwen3ForCausalLM",
    .model_type = "qwen3",
    .summary = "Qwen 3 (dense): norms on q and k",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &pith_family_llama,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "qwen3"},
};
