/* model/gguf/parts.h: what llama.cpp's files call the parts of a layer, and how these lie there.
 *
 * Source: llama.cpp gguf-py/gguf/tensor_mapping.py. */
#ifndef PITH_MODEL_GGUF_PARTS_H
#define PITH_MODEL_GGUF_PARTS_H

#include "io/gguf/model.h"

/* A linear, a filter or a vector within a layer. */
struct pith_gguf_name_row {
    const char *hf, *gguf; /* NULL: the end of the list. "%u" in `hf` stands for an expert */
    bool whole;            /* both are a whole tensor's names */
    bool norm;             /* a gain, stored as 1 + w where the architecture's are */
    bool mixture;          /* there are such parts only where there are experts */
    struct pith_gguf_place place;
};

/* Llama's list, which others have too. */
extern const struct pith_gguf_name_row pith_gguf_llama[];

#define PITH_GGUF_PART(from, to)                                                                   \
    {                                                                                              \
        .hf = from, .gguf = to                                                                     \
    }
#define PITH_GGUF_NORM(from, to)                                                                   \
    {                                                                                              \
        .hf = from, .gguf = to, .norm = true                                                       \
    }
#define PITH_GGUF_NORMS                                                                            \
    PITH_GGUF_NORM("input_layernorm", "attn_norm"),                                                \
        PITH_GGUF_NORM("post_attention_layernorm", "ffn_norm")
/* The second norm's other name in llama.cpp. */
#define PITH_GGUF_NORMS_POST                                                                       \
    PITH_GGUF_NORM("input_layernorm", "attn_norm"),                                                \
        PITH_GGUF_NORM("post_attention_layernorm", "post_attention_norm")
#define PITH_GGUF_NORMS_AROUND                                                                     \
    PITH_GGUF_NORM("input_layernorm", "attn_norm"),                                                \
        PITH_GGUF_NORM("post_attention_layernorm", "post_attention_norm"),                         \
        PITH_GGUF_NORM("pre_feedforward_layernorm", "ffn_norm"),                                   \
        PITH_GGUF_NORM("post_feedforward_layernorm", "post_ffw_norm")
#define PITH_GGUF_NORMS_AFTER                                                                      \
    PITH_GGUF_NORM("post_attention_layernorm", "post_attention_norm"),                             \
        PITH_GGUF_NORM("post_feedforward_layernorm", "post_ffw_norm")
#define PITH_GGUF_Q(from)                                                                          \
    {                                                                                              \
        .hf = from, .gguf = "attn_q", .place = {.order = PITH_GGUF_Q_HEADS }                       \
    }
#define PITH_GGUF_K(from)                                                                          \
    {                                                                                              \
        .hf = from, .gguf = "attn_k", .place = {.order = PITH_GGUF_K_HEADS }                       \
    }
#define PITH_GGUF_ATTENTION_TO(o)                                                                  \
    PITH_GGUF_Q("self_attn.q_proj"), PITH_GGUF_K("self_attn.k_proj"),                              \
        PITH_GGUF_PART("self_attn.v_proj", "attn_v"), PITH_GGUF_PART(o, "attn_output")
#define PITH_GGUF_ATTENTION PITH_GGUF_ATTENTION_TO("self_attn.o_proj")
#define PITH_GGUF_QK_NORM                                                                          \
    PITH_GGUF_NORM("self_attn.q_norm", "attn_q_norm"),                                             \
        PITH_GGUF_NORM("self_attn.k_norm", "attn_k_norm")
#define PITH_GGUF_MLP                                                                              \
    PITH_GGUF_PART("mlp.gate_proj", "ffn_gate"), PITH_GGUF_PART("mlp.up_proj", "ffn_up"),          \
        PITH_GGUF_PART("mlp.down_proj", "ffn_down")

/* Of mixtures: routers, experts (all in one tensor), what all tokens share. */
#define PITH_GGUF_ROUTER(from)                                                                     \
    {                                                                                              \
        .hf = from, .gguf = "ffn_gate_inp", .mixture = true, .place = {.exact = true }             \
    }
#define PITH_GGUF_STACKED(from, to)                                                                \
    {                                                                                              \
        .hf = from, .gguf = to, .mixture = true, .place = {.stacked = true }                       \
    }
#define PITH_GGUF_EXPERTS(router, gate, up, down)                                                  \
    PITH_GGUF_ROUTER(router), PITH_GGUF_STACKED(gate, "ffn_gate_exps"),                            \
        PITH_GGUF_STACKED(up, "ffn_up_exps"), PITH_GGUF_STACKED(down, "ffn_down_exps")
#define PITH_GGUF_EXPERTS_QWEN                                                                     \
    PITH_GGUF_EXPERTS("mlp.gate", "mlp.experts.%u.gate_proj", "mlp.experts.%u.up_proj",            \
                      "mlp.experts.%u.down_proj")
#define PITH_GGUF_EXPERTS_MIXTRAL(router)                                                          \
    PITH_GGUF_EXPERTS(router, "block_sparse_moe.experts.%u.w1", "block_sparse_moe.experts.%u.w3",  \
                      "block_sparse_moe.experts.%u.w2")
#define PITH_GGUF_CORRECTION(from)                                                                 \
    {                                                                                              \
        .hf = from, .gguf = "exp_probs_b.bias", .whole = true, .mixture = true                     \
    }
#define PITH_GGUF_SHARED_PART(from, to)                                                            \
    {                                                                                              \
        .hf = from, .gguf = to, .mixture = true                                                    \
    }
#define PITH_GGUF_SHARED(from)                                                                     \
    PITH_GGUF_SHARED_PART(from ".gate_proj", "ffn_gate_shexp"),                                    \
        PITH_GGUF_SHARED_PART(from ".up_proj", "ffn_up_shexp"),                                    \
        PITH_GGUF_SHARED_PART(from ".down_proj", "ffn_down_shexp")
#define PITH_GGUF_SHARED_GATE(from)                                                                \
    {                                                                                              \
        .hf = from, .gguf = "ffn_gate_inp_shexp", .mixture = true, .place = {                      \
            .flat = true,                                                                          \
            .exact = true                                                                          \
        }                                                                                          \
    }

/* DeepSeek's latent attention. */
#define PITH_GGUF_LATENT                                                                           \
    PITH_GGUF_PART("self_attn.q_proj", "attn_q"),                                                  \
        PITH_GGUF_PART("self_attn.q_a_proj", "attn_q_a"),                                          \
        PITH_GGUF_PART("self_attn.q_a_layernorm", "attn_q_a_norm"),                                \
        PITH_GGUF_PART("self_attn.q_b_proj", "attn_q_b"),                                          \
        PITH_GGUF_PART("self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"),                           \
        PITH_GGUF_PART("self_attn.kv_a_layernorm", "attn_kv_a_norm"),                              \
    {                                                                                              \
        .hf = "self_attn.kv_b_proj", .gguf = "attn_k_b", .place = {                                \
            .order = PITH_GGUF_BY_LATENT,                                                          \
            .rest = "attn_v_b",                                                                    \
            .dense = true                                                                          \
        }                                                                                          \
    }

#endif
