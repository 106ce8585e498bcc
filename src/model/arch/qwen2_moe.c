/* Qwen2-MoE (Qwen 1.5 and 2): experts, and beside them one that all tokens share, behind a gate. */
#include "model/family/family.h"

/* The window is on even layers below "max_window_layers" unless "layer_types" says otherwise. */
static enum pith_status read_windows(const struct pith_config *c, struct pith_shape *shape,
                                     struct pith_error *err)
{
    bool use = false;
    const bool given = pith_config_has(c, "layer_types");
    int64_t most = 28;
    PITH_TRY(pith_config_bool(c, "use_sliding_window", &use, err));
    if (!use) return PITH_OK;
    PITH_TRY(pith_family_read_window(c, 4096, &shape->window, err));
    PITH_TRY(pith_config_int(c, "max_window_layers", 0, INT32_MAX, &most, err));
    PITH_TRY(pith_family_read_layer_types(c, shape, "sliding_attention", "full_attention",
                                          &shape->sliding, err));
    for (uint32_t i = 0; !given && i < shape->layers && i < most; i += 2)
        pith_layer_put(&shape->sliding, i);
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {.kv_heads = 16, .max_position = 32768};
    static const struct pith_moe absent = {
        .experts = 60, .taken = 4, .ffn = 1408, .shared_ffn = 5632, .shared_gate = true};
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(pith_family_read_moe(c, &pith_family_moe_qwen, &absent, shape, err));
    PITH_TRY(pith_family_read_size(c, "shared_expert_intermediate_size", PITH_MAX_WIDTH,
                                   absent.shared_ffn, &shape->moe.shared_ffn, err));
    PITH_TRY(pith_family_read_sparse_layers(c, shape, err));
    shape->qkv_bias = true;
    PITH_TRY(pith_config_bool(c, "qkv_bias", &shape->qkv_bias, err));
    return read_windows(c, shape, err);
}

static const struct pith_family family = {PITH_FAMILY_NORMS, PITH_FAMILY_ATTENTION, PITH_FAMILY_MLP,
                                          .moe = {PITH_FAMILY_EXPERTS, PITH_FAMILY_FUSED,
                                                  .shared = "mlp.shared_expert",
                                                  .shared_gate = "mlp.shared_expert_gate"}};

const struct pith_arch pith_arch_qwen2_moe = {
    .name = "Qwen2MoeForCausalLM",
    .model_type = "qwen2_moe",
    .summary = "Qwen 1.5 and 2 mixtures of experts",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "qwen2moe",
             .all_sparse = true,
             .biased = true,
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS | 1u << PITH_GGUF_HAS_SHARED},
};
