/* Qwen3-MoE: Qwen3's attention, and experts instead of the feed-forward in all or some layers. */
#include "model/family/family.h"

static enum pith_status read_with(const struct pith_config *c, const struct pith_moe *absent,
                                  struct pith_shape *shape, struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {.kv_heads = 4, .max_position = 32768};
    bool attention_bias = false, use_window = false;
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(pith_family_read_moe(c, &pith_family_moe_qwen, absent, shape, err));
    PITH_TRY(pith_family_read_sparse_layers(c, shape, err));
    PITH_TRY(pith_config_bool(c, "attention_bias", &attention_bias, err));
    PITH_TRY(pith_config_bool(c, "use_sliding_window", &use_window, err));
    if (use_window) PITH_TRY(pith_family_read_all_windows(c, 4096, shape, err));
    shape->qkv_bias = shape->o_bias = attention_bias;
    shape->qk_norm = true;
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_moe absent = {.experts = 128, .taken = 8, .ffn = 768};
    return read_with(c, &absent, shape, err);
}

/* Of the one that sees: always over their sum. */
static enum pith_status read_seeing(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    static const struct pith_moe absent = {
        .experts = 60, .taken = 4, .ffn = 1408, .renormalised = true};
    PITH_TRY(read_with(c, &absent, shape, err));
    shape->moe.renormalised = true;
    return PITH_OK;
}

static const struct pith_family family = {PITH_FAMILY_NORMS, PITH_FAMILY_ATTENTION, PITH_FAMILY_MLP,
                                          PITH_FAMILY_QK_NORM,
                                          .moe = {PITH_FAMILY_EXPERTS, PITH_FAMILY_FUSED}};

const struct pith_arch pith_arch_qwen3_moe = {
    .name = "Qwen3MoeForCausalLM",
    .model_type = "qwen3_moe",
    .summary = "Qwen 3 mixtures of experts",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "qwen3moe", .renormalised = true, .all_sparse = true},
};

/* Its experts lie in x out as they were published, out x in as transformers 5 stores them. */
static const struct pith_family family_vl = {
    PITH_FAMILY_NORMS, PITH_FAMILY_ATTENTION, PITH_FAMILY_MLP, PITH_FAMILY_QK_NORM,
    .moe = {PITH_FAMILY_EXPERTS, PITH_FAMILY_FUSED, .fused_either = true}};

const struct pith_arch pith_arch_qwen3_vl_moe = {
    .name = "Qwen3VLMoeForConditionalGeneration",
    .model_type = "qwen3_vl_moe",
    .summary = "Qwen 3 VL mixtures of experts: their language model",
    .read = read_seeing,
    .plan = pith_family_plan,
    .family = &family_vl,
    .wraps = true,
    .names = {PITH_FAMILY_NAMES_IN("model.language_model."), .head = "lm_head",
              .beside = {"model.visual."}},
};
