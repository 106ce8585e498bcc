/* Qwen2-MoE (Qwen 1.5 and 2): experts, and one that all tokens share, behind a gate. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

/* The window is on even layers below "max_window_layers" unless "layer_types" says otherwise. */
static enum pith_status read_windows(const struct pith_config *c, struct pith_shape *shape,
                                     struct pith_error *err)
{
    bool use = false;
    int64_t end = 28;
    (void)pith_config_get(c, "layer_types"); /* the model has the key, without a window too */
    PITH_TRY(pith_config_bool(c, "use_sliding_window", &use, err));
    if (!use) return PITH_OK;
    PITH_TRY(pith_config_int(c, "max_window_layers", 0, INT32_MAX, &end, err));
    return pith_read_even_windows(c, 4096, end, shape, err);
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.kv_heads = 16, .max_position = 32768};
    static const struct pith_moe absent = {
        .experts = 60, .taken = 4, .ffn = 1408, .shared_ffn = 5632, .shared_gate = true};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_mixture(c, &pith_mixture_keys_qwen, &absent, shape, err));
    PITH_TRY(pith_read_size(c, "shared_expert_intermediate_size", PITH_MAX_WIDTH, absent.shared_ffn,
                            &shape->moe.shared_ffn, err));
    PITH_TRY(pith_read_sparse_layers(c, shape, err));
    shape->biases.qkv = true;
    PITH_TRY(pith_config_bool(c, "qkv_bias", &shape->biases.qkv, err));
    return read_windows(c, shape, err);
}

static void layer(struct pith_plan_maker *m)
{
    static const struct pith_experts_spec experts = {PITH_NAMES_EXPERTS, PITH_NAMES_FUSED,
                                                     .shared = "mlp.shared_expert",
                                                     .shared_gate = "mlp.shared_expert_gate"};
    pith_build_llama_with(m, PITH_HEADS_PLAIN, &experts);
}

static const struct pith_gguf_name_row parts[] = {PITH_GGUF_NORMS,
                                                  PITH_GGUF_ATTENTION,
                                                  PITH_GGUF_MLP,
                                                  PITH_GGUF_EXPERTS_QWEN,
                                                  PITH_GGUF_SHARED_GATE("mlp.shared_expert_gate"),
                                                  PITH_GGUF_SHARED("mlp.shared_expert"),
                                                  {0}};

const struct pith_arch pith_arch_qwen2_moe = {
    .name = "Qwen2MoeForCausalLM",
    .model_type = "qwen2_moe",
    .summary = "Qwen 1.5 and 2 mixtures of experts",
    .read = read_shape,
    .layer = layer,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "qwen2moe",
             .parts = parts,
             .all_sparse = true,
             .biased = true,
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS | 1u << PITH_GGUF_HAS_SHARED},
};
