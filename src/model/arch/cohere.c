/* Command R: one LayerNorm a layer, after which attention and feed-forward go side by side. In its
 * second form (R7B, A) layers with a window rotate, and the others do not. */
#include "model/family/family.h"

static enum pith_status read_both(const struct pith_config *c, struct pith_shape *shape,
                                  struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {
        .max_position = 8192, .tied = true, .eps = "layer_norm_eps", .eps_absent = 1e-5};
    bool bias = false;
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    shape->logit_scale = 0.0625;
    PITH_TRY(pith_family_read_scale(c, "logit_scale", &shape->logit_scale, err));
    PITH_TRY(pith_config_bool(c, "attention_bias", &bias, err));
    shape->qkv_bias = shape->o_bias = bias;
    return PITH_OK;
}

static enum pith_status read_first(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    PITH_TRY(read_both(c, shape, err));
    return pith_config_bool(c, "use_qk_norm", &shape->qk_norm, err);
}

static enum pith_status read_second(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    PITH_TRY(read_both(c, shape, err));
    PITH_TRY(pith_family_read_pattern(c, 4096, 4, shape, err));
    for (uint32_t i = 0; i < shape->layers; i++)
        if (!pith_layer_in(&shape->sliding, i)) pith_layer_put(&shape->unrotated, i);
    return PITH_OK;
}

static const struct pith_family family = {.before_attention = "input_layernorm",
                                          PITH_FAMILY_ATTENTION,
                                          PITH_FAMILY_MLP,
                                          PITH_FAMILY_QK_NORM,
                                          .qk_norm = PITH_QK_CENTRED,
                                          .parallel = true,
                                          .centred = true,
                                          .rope_adjacent = true};

const struct pith_arch pith_arch_cohere = {
    .name = "CohereForCausalLM",
    .model_type = "cohere",
    .summary = "Command R",
    .read = read_first,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "command-r",
             .eps = "layer_norm_eps",
             .features = 1u << PITH_GGUF_HAS_LOGIT_SCALE},
};

const struct pith_arch pith_arch_cohere2 = {
    .name = "Cohere2ForCausalLM",
    .model_type = "cohere2",
    .summary = "Command R7B, Command A",
    .read = read_second,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "cohere2",
             .eps = "layer_norm_eps",
             .every = 4,
             .unrotated = 4,
             .features = 1u << PITH_GGUF_HAS_LOGIT_SCALE | 1u << PITH_GGUF_HAS_UNROTATED},
};
