/* ERNIE 4.5: Llama with neighbouring pairs rotated, and one switch for all biases. */
#include "model/family/family.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {.kv_heads = 2,
                                                         .head_dim = 128,
                                                         .max_position = 131072,
                                                         .tied = true,
                                                         .theta = 5e5,
                                                         .eps_absent = 1e-5};
    bool bias = false;
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(pith_config_bool(c, "use_bias", &bias, err));
    shape->qkv_bias = shape->o_bias = shape->mlp_bias = bias;
    return PITH_OK;
}

static const struct pith_family family = {PITH_FAMILY_NORMS, PITH_FAMILY_ATTENTION, PITH_FAMILY_MLP,
                                          .rope_adjacent = true};

const struct pith_arch pith_arch_ernie4_5 = {
    .name = "Ernie4_5ForCausalLM",
    .model_type = "ernie4_5",
    .summary = "ERNIE 4.5 (dense)",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "ernie4_5"},
};
