/* OLMo 2 and 3: what a part gives is normalised before it is added, and nothing before; q and k
 * over all heads at once. */
#include "model/family/family.h"

static enum pith_status read_common(const struct pith_config *c,
                                    const struct pith_family_defaults *defaults,
                                    struct pith_shape *shape, struct pith_error *err)
{
    bool bias = false;
    PITH_TRY(pith_family_read(c, defaults, shape, err));
    PITH_TRY(pith_config_bool(c, "attention_bias", &bias, err));
    shape->qkv_bias = shape->o_bias = bias;
    shape->qk_norm = true;
    return PITH_OK;
}

static enum pith_status read_two(const struct pith_config *c, struct pith_shape *shape,
                                 struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {.max_position = 2048, .eps_absent = 1e-5};
    return read_common(c, &defaults, shape, err);
}

/* Older files have one scaling, which is for the layers without a window alone. */
static enum pith_status read_three(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {
        .max_position = 2048, .eps_absent = 1e-5, .rope_kinds = true};
    PITH_TRY(read_common(c, &defaults, shape, err));
    if (!shape->rope_by_kind && shape->rope.type != PITH_ROPE_DEFAULT) {
        shape->rope_by_kind = true;
        shape->rope_sliding = shape->rope;
        shape->rope_sliding.type = PITH_ROPE_DEFAULT;
    }
    return pith_family_read_pattern(c, 4096, 4, shape, err);
}

static const struct pith_family family = {.after_attention = "post_attention_layernorm",
                                          .after_mlp = "post_feedforward_layernorm",
                                          PITH_FAMILY_ATTENTION,
                                          PITH_FAMILY_MLP,
                                          PITH_FAMILY_QK_NORM,
                                          .qk_norm = PITH_QK_ROW};

const struct pith_arch pith_arch_olmo2 = {
    .name = "Olmo2ForCausalLM",
    .model_type = "olmo2",
    .summary = "OLMo 2: norms after the parts",
    .read = read_two,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "olmo2"},
};

const struct pith_arch pith_arch_olmo3 = {
    .name = "Olmo3ForCausalLM",
    .model_type = "olmo3",
    .summary = "OLMo 3: OLMo 2 with windows",
    .read = read_three,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
};
