/* ERNIE 4.5 with experts: pairs of neighbours are rotated; a softmax router with a correction; the
 * head may have a bias. */
#include "model/family/family.h"

/* Mixtures are every "moe_layer_interval"-th layer between two, the last of which may be -1. */
static enum pith_status read_layers(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    int64_t step = 1, first = 1, last = -1;
    PITH_TRY(pith_config_int(c, "moe_layer_interval", 1, INT32_MAX, &step, err));
    PITH_TRY(pith_config_int(c, "moe_layer_start_index", 0, INT32_MAX, &first, err));
    PITH_TRY(pith_config_int(c, "moe_layer_end_index", -1, INT32_MAX, &last, err));
    for (int64_t i = first; i < shape->layers && (last < 0 || i <= last); i++)
        if ((i + 1) % step == 0) pith_layer_put(&shape->moe.layers, (uint32_t)i);
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {
        .kv_heads = 4, .max_position = 131072, .tied = true};
    static const struct pith_family_moe_keys keys = {.count = {"moe_num_experts", "num_experts"},
                                                     .taken = {"moe_k", "num_experts_per_tok"},
                                                     .width = "moe_intermediate_size"};
    static const struct pith_moe absent = {.experts = 64,
                                           .taken = 6,
                                           .ffn = 1536,
                                           .renormalised = true,
                                           .correction = true,
                                           .floor = 1e-12};
    bool bias = false;
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(pith_family_read_moe(c, &keys, &absent, shape, err));
    PITH_TRY(pith_config_real(c, "moe_norm_min", &shape->moe.floor, err));
    if (!(shape->moe.floor > 0 && shape->moe.floor < 1))
        return pith_fail(err, PITH_FORMAT, "%s: \"moe_norm_min\" is %g, outside 0..1", c->where,
                         shape->moe.floor);
    PITH_TRY(pith_family_read_shared(c, "moe_num_shared_experts", 2, shape, err));
    PITH_TRY(pith_config_bool(c, "use_bias", &bias, err));
    shape->qkv_bias = shape->o_bias = shape->mlp_bias = shape->head_bias = bias;
    return read_layers(c, shape, err);
}

static const struct pith_family family = {
    PITH_FAMILY_NORMS, PITH_FAMILY_ATTENTION, PITH_FAMILY_MLP, .rope_adjacent = true,
    .moe = {PITH_FAMILY_EXPERTS, PITH_FAMILY_FUSED, .shared = "mlp.shared_experts",
            .correction = "mlp.moe_statics.e_score_correction_bias", .correction_row = true}};

const struct pith_arch pith_arch_ernie4_5_moe = {
    .name = "Ernie4_5_MoeForCausalLM",
    .model_type = "ernie4_5_moe",
    .summary = "ERNIE 4.5 mixtures of experts",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "ernie4_5-moe",
             .renormalised = true,
             .step = true,
             .features = 1u << PITH_GGUF_HAS_SHARED | 1u << PITH_GGUF_HAS_CORRECTION},
};
