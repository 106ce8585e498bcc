/* Qwen3-MoE: Qwen3's attention, and experts instead of the feed-forward in all or some layers. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_with(const struct pith_config *c, const struct pith_moe *absent,
                                  struct pith_shape *shape, struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.kv_heads = 4, .max_position = 32768};
    bool use_window = false;
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_mixture(c, &pith_mixture_keys_qwen, absent, shape, err));
    PITH_TRY(pith_read_sparse_layers(c, shape, err));
    PITH_TRY(pith_read_attention_bias(c, false, shape, err));
    PITH_TRY(pith_config_bool(c, "use_sliding_window", &use_window, err));
    if (use_window) PITH_TRY(pith_read_all_windows(c, 4096, shape, err));
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

static void layer(struct pith_plan_maker *m)
{
    static const struct pith_experts_spec experts = {PITH_NAMES_EXPERTS, PITH_NAMES_FUSED};
    pith_build_llama_with(m, PITH_HEADS_EACH, &experts);
}

static const struct pith_gguf_name_row parts[] = {PITH_GGUF_NORMS,        PITH_GGUF_ATTENTION,
                                                  PITH_GGUF_QK_NORM,      PITH_GGUF_MLP,
                                                  PITH_GGUF_EXPERTS_QWEN, {0}};

const struct pith_arch pith_arch_qwen3_moe = {
    .name = "Qwen3MoeForCausalLM",
    .model_type = "qwen3_moe",
    .summary = "Qwen 3 mixtures of experts",
    .read = read_shape,
    .layer = layer,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "qwen3moe", .parts = parts, .renormalised = true, .all_sparse = true},
};

/* Its experts lie in x out as they were published, out x in as transformers 5 stores them. */
static void layer_either(struct pith_plan_maker *m)
{
    static const struct pith_experts_spec experts = {PITH_NAMES_EXPERTS, PITH_NAMES_FUSED,
                                                     .fused_either = true};
    pith_build_llama_with(m, PITH_HEADS_EACH, &experts);
}

const struct pith_arch pith_arch_qwen3_vl_moe = {
    .name = "Qwen3VLMoeForConditionalGeneration",
    .model_type = "qwen3_vl_moe",
    .summary = "Qwen 3 VL mixtures of experts: their language model",
    .read = read_seeing,
    .layer = layer_either,
    .wraps = true,
    .names = {PITH_NAMES_IN("model.language_model."), .head = "lm_head",
              .other = {"model.visual."}},
};
