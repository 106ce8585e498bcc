/* EXAONE 4: norms after the parts, on q and k; where there is a window, only layers with it rotate.
 */
#include "model/family/family.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {
        .kv_heads = 32, .max_position = 2048, .eps_absent = 1e-5};
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    shape->qk_norm = true;
    PITH_TRY(pith_family_read_pattern(c, 4096, 4, shape, err));
    for (uint32_t i = 0; shape->window && i < shape->layers; i++)
        if (!pith_layer_in(&shape->sliding, i)) pith_layer_put(&shape->unrotated, i);
    return PITH_OK;
}

static const struct pith_family family = {.after_attention = "post_attention_layernorm",
                                          .after_mlp = "post_feedforward_layernorm",
                                          PITH_FAMILY_ATTENTION,
                                          PITH_FAMILY_MLP,
                                          PITH_FAMILY_QK_NORM};

const struct pith_arch pith_arch_exaone4 = {
    .name = "Exaone4ForCausalLM",
    .model_type = "exaone4",
    .summary = "EXAONE 4: norms after the parts",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "exaone4"},
};
