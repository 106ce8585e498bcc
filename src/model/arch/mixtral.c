/* Mixtral: Mistral's attention, experts in every layer. */
#include "model/family/family.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {.kv_heads = 8, .max_position = 4096 * 32};
    static const struct pith_moe absent = {.experts = 8, .taken = 2, .renormalised = true};
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(pith_family_read_moe(c, &pith_family_moe_local, &absent, shape, err));
    pith_layer_put_all(&shape->moe.layers, shape->layers);
    return pith_family_read_all_windows(c, 0, shape, err);
}

static const struct pith_family family = {PITH_FAMILY_NORMS, PITH_FAMILY_ATTENTION,
                                          .moe = {PITH_FAMILY_BLOCK_SPARSE}};

const struct pith_arch pith_arch_mixtral = {
    .name = "MixtralForCausalLM",
    .model_type = "mixtral",
    .summary = "Mixtral",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "llama",
             .turned = true,
             .large = true,
             .experts = "num_local_experts",
             .expert_width = "intermediate_size",
             .renormalised = true,
             .all_sparse = true},
};
