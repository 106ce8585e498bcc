/* Command R: one LayerNorm a layer, after which attention and feed-forward go side by side. */
#include "model/arch/family.h"

static enum pith_status read_shape(const json_t *config, const char *where,
                                   struct pith_shape *shape, struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {
        .max_position = 8192, .tied = true, .eps = "layer_norm_eps", .eps_absent = 1e-5};
    bool bias = false;
    PITH_TRY(pith_family_read(config, where, &defaults, shape, err));
    shape->logit_scale = 0.0625;
    PITH_TRY(pith_family_read_scale(config, where, "logit_scale", &shape->logit_scale, err));
    PITH_TRY(pith_json_get_bool(config, "use_qk_norm", &shape->qk_norm, where, err));
    PITH_TRY(pith_json_get_bool(config, "attention_bias", &bias, where, err));
    shape->qkv_bias = shape->o_bias = bias;
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
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
};
