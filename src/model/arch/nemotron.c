/* Nemotron 3 and 4, Minitron: LayerNorm with gains of 1 + w, a feed-forward without a gate whose
 * activation is the square of ReLU, a part of each head rotated. */
#include "model/family/family.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {.ffn = 24576,
                                                         .heads = 48,
                                                         .vocab = 256000,
                                                         .max_position = 4096,
                                                         .act = PITH_ACT_RELU2,
                                                         .eps = "norm_eps",
                                                         .eps_absent = 1e-5,
                                                         .partial = 0.5};
    bool bias = false;
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(pith_config_bool(c, "attention_bias", &bias, err));
    PITH_TRY(pith_config_bool(c, "mlp_bias", &shape->mlp_bias, err));
    shape->qkv_bias = shape->o_bias = bias;
    return PITH_OK;
}

static const struct pith_family family = {
    PITH_FAMILY_NORMS, PITH_FAMILY_ATTENTION, .up = "mlp.up_proj", .down = "mlp.down_proj",
    .centred = true,   .norm_bias = true,     .plus_one = true};

const struct pith_arch pith_arch_nemotron = {
    .name = "NemotronForCausalLM",
    .model_type = "nemotron",
    .summary = "Nemotron 3 and 4, Minitron",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "nemotron",
             .eps = "norm_eps",
             .partial = true,
             .untied = true,
             .square = true,
             .act = PITH_ACT_RELU2,
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS | 1u << PITH_GGUF_HAS_O_BIAS |
                         1u << PITH_GGUF_HAS_MLP_BIAS},
};
