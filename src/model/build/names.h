/* model/build/names.h: names of tensors that many architectures share. */
#ifndef PITH_MODEL_BUILD_NAMES_H
#define PITH_MODEL_BUILD_NAMES_H

/* Of struct pith_arch_names: Llama's; and Llama's within another model. */
#define PITH_NAMES_IN(prefix)                                                                      \
    .layers = prefix "layers.", .embed = prefix "embed_tokens", .norm = prefix "norm"
#define PITH_NAMES_LLAMA                                                                           \
    {                                                                                              \
        PITH_NAMES_IN("model."), .head = "lm_head"                                                 \
    }

/* Of struct pith_experts_spec: Qwen's, DeepSeek's and others'; what transformers 5 stores in their
 * place; Mixtral's; Granite's. */
#define PITH_NAMES_EXPERTS                                                                         \
    .router = "mlp.gate", .gate = "mlp.experts.%u.gate_proj", .up = "mlp.experts.%u.up_proj",      \
    .down = "mlp.experts.%u.down_proj"
#define PITH_NAMES_FUSED                                                                           \
    .fused_gate_up = "mlp.experts.gate_up_proj", .fused_down = "mlp.experts.down_proj"
#define PITH_NAMES_BLOCK_SPARSE                                                                    \
    .router = "block_sparse_moe.gate", .gate = "block_sparse_moe.experts.%u.w1",                   \
    .up = "block_sparse_moe.experts.%u.w3", .down = "block_sparse_moe.experts.%u.w2"
#define PITH_NAMES_GRANITE_EXPERTS                                                                 \
    .router = "block_sparse_moe.router.layer", .gate = "block_sparse_moe.experts.%u.w1",           \
    .up = "block_sparse_moe.experts.%u.w3", .down = "block_sparse_moe.experts.%u.w2",              \
    .fused_gate_up = "block_sparse_moe.input_linear.weight",                                       \
    .fused_down = "block_sparse_moe.output_linear.weight", .fused_only = true

/* Of struct pith_latent_spec: DeepSeek's. */
#define PITH_NAMES_LATENT                                                                          \
    .q = "self_attn.q_proj", .q_a = "self_attn.q_a_proj", .q_a_norm = "self_attn.q_a_layernorm",   \
    .q_b = "self_attn.q_b_proj", .kv_a = "self_attn.kv_a_proj_with_mqa",                           \
    .kv_a_norm = "self_attn.kv_a_layernorm", .kv_b = "self_attn.kv_b_proj",                        \
    .o = "self_attn.o_proj"

#endif
