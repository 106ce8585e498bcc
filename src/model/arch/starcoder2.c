/* StarCoder 2: LayerNorm with biases, biases on every linear, a feed-forward without a gate. */
#include "model/family/family.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {.ffn = 12288,
                                                         .heads = 24,
                                                         .vocab = 49152,
                                                         .kv_heads = 2,
                                                         .max_position = 4096,
                                                         .tied = true,
                                                         .act = PITH_ACT_GELU_TANH,
                                                         .eps = "norm_epsilon",
                                                         .eps_absent = 1e-5};
    bool bias = true;
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(pith_config_bool(c, "use_bias", &bias, err));
    PITH_TRY(pith_family_read_all_windows(c, 0, shape, err));
    shape->qkv_bias = shape->o_bias = shape->mlp_bias = bias;
    return PITH_OK;
}

static const struct pith_family family = {PITH_FAMILY_NORMS, PITH_FAMILY_ATTENTION,
                                          .up = "mlp.c_fc",  .down = "mlp.c_proj",
                                          .centred = true,   .norm_bias = true};

const struct pith_arch pith_arch_starcoder2 = {
    .name = "Starcoder2ForCausalLM",
    .model_type = "starcoder2",
    .summary = "StarCoder 2",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "starcoder2",
             .eps = "norm_epsilon",
             .bias = "use_bias",
             .all_biased = true,
             .square = true,
             .act = PITH_ACT_GELU_TANH,
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS | 1u << PITH_GGUF_HAS_O_BIAS |
                         1u << PITH_GGUF_HAS_MLP_BIAS},
};
