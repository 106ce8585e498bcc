/* gpt-oss: attention with sinks, experts with biases behind a clamped gate, a router that takes the
 * softmax of the chosen logits. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

/* What a config without rotary parameters means. */
static void default_rope(const struct pith_config *c, struct pith_rope *rope)
{
    static const char *const keys[] = {"rope_parameters", "rope_scaling"};
    for (int i = 0; i < 2; i++)
        if (json_is_object(pith_config_get(c, keys[i]))) return;
    if (!pith_config_get(c, "rope_theta")) rope->theta = 150000;
    rope->type = PITH_ROPE_YARN;
    rope->factor = 32;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    rope->truncate = false;
    rope->original_max = 4096;
}

static enum pith_status read_gate(const struct pith_config *c, struct pith_shape *shape,
                                  struct pith_error *err)
{
    double limit = 7, alpha = 1.702;
    PITH_TRY(pith_read_scale(c, "swiglu_limit", &limit, err));
    PITH_TRY(pith_read_scale(c, "swiglu_alpha", &alpha, err));
    shape->activation.kind = PITH_ACT_CLAMPED;
    shape->activation.limit = (float)limit;
    shape->activation.alpha = (float)alpha;
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {
        .kv_heads = 8, .head_dim = 64, .max_position = 131072};
    static const struct pith_moe absent = {.experts = 128,
                                           .taken = 4,
                                           .router = PITH_ROUTER_TOP,
                                           .router_bias = true,
                                           .expert_bias = true};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_mixture(c, &pith_mixture_keys_local, &absent, shape, err));
    PITH_TRY(pith_read_attention_bias(c, true, shape, err));
    pith_layer_put_all(&shape->moe.layers, shape->layers);
    default_rope(c, &shape->place.rope);
    PITH_TRY(read_gate(c, shape, err));
    return pith_read_even_windows(c, 128, shape->layers, shape, err);
}

static void layer(struct pith_plan_maker *m)
{
    static const struct pith_experts_spec experts = {
        .router = "mlp.router",
        .gate = "mlp.experts.%u.gate_proj",
        .up = "mlp.experts.%u.up_proj",
        .down = "mlp.experts.%u.down_proj",
        PITH_NAMES_FUSED,
        .fused_gate_up_bias = "mlp.experts.gate_up_proj_bias",
        .fused_down_bias = "mlp.experts.down_proj_bias",
        .fused_transposed = true,
        .fused_only = true,
        .fused_adjacent = true};
    const struct pith_norms norms = pith_build_norms(m);
    struct pith_attention_spec attention = pith_attention_of(m);
    attention.sinks = true;
    attention.sink = pith_plan_vector(m, "self_attn.sinks", attention.heads);
    pith_build_sequential(m, &norms, &attention, NULL, &experts);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORMS_POST,
    PITH_GGUF_ATTENTION,
    {.hf = "self_attn.sinks", .gguf = "attn_sinks.weight", .whole = true},
    PITH_GGUF_EXPERTS("mlp.router", "mlp.experts.%u.gate_proj", "mlp.experts.%u.up_proj",
                      "mlp.experts.%u.down_proj"),
    {0}};

const struct pith_arch pith_arch_gpt_oss = {
    .name = "GptOssForCausalLM",
    .model_type = "gpt_oss",
    .summary = "gpt-oss: sinks, experts with biases, clamped gates",
    .read = read_shape,
    .layer = layer,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "gpt-oss",
             .parts = parts,
             .act = PITH_ACT_CLAMPED,
             .experts = "num_local_experts",
             .expert_width = "intermediate_size",
             .all_sparse = true,
             .gating = 3,
             .every = 2,
             .untruncated = true,
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS | 1u << PITH_GGUF_HAS_O_BIAS |
                         1u << PITH_GGUF_HAS_EXPERT_BIAS | 1u << PITH_GGUF_HAS_ROUTER_BIAS},
};
