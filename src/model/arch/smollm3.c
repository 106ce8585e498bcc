/* SmolLM3: Llama in which every fourth layer does not rotate. */
#include "model/arch/family.h"

/* With a window in use the layers that do not rotate have it, unless "layer_types" says which. */
static enum pith_status read_windows(const json_t *config, const char *where,
                                     struct pith_shape *shape, struct pith_error *err)
{
    bool use = false, given;
    PITH_TRY(pith_json_get_bool(config, "use_sliding_window", &use, where, err));
    PITH_TRY(pith_family_read_window(config, where, 0, &shape->window, err));
    PITH_TRY(pith_family_read_layer_types(config, where, shape, "sliding_attention",
                                          "full_attention", &shape->sliding, &given, err));
    if (!given && use && shape->window) shape->sliding = shape->unrotated;
    return PITH_OK;
}

static enum pith_status read_shape(const json_t *config, const char *where,
                                   struct pith_shape *shape, struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {
        .kv_heads = 4, .max_position = 32768, .tied = true, .theta = 2e6};
    bool bias = false;
    PITH_TRY(pith_family_read(config, where, &defaults, shape, err));
    PITH_TRY(pith_family_read_unrotated(config, where, 4, shape, err));
    PITH_TRY(read_windows(config, where, shape, err));
    PITH_TRY(pith_json_get_bool(config, "attention_bias", &bias, where, err));
    PITH_TRY(pith_json_get_bool(config, "mlp_bias", &shape->mlp_bias, where, err));
    shape->qkv_bias = shape->o_bias = bias;
    return PITH_OK;
}

const struct pith_arch pith_arch_smollm3 = {
    .name = "SmolLM3ForCausalLM",
    .model_type = "smollm3",
    .summary = "SmolLM 3: every fourth layer without positions",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &pith_family_llama,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "smollm3",
             .turned = true,
             .unrotated = 4,
             .features = 1u << PITH_GGUF_HAS_UNROTATED},
};
