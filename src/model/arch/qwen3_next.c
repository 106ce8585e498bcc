/* Qwen3-Next and Qwen3.5: three layers of the gated delta rule, then one of gated attention; a
 * dense feed-forward or experts. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static const struct pith_size_defaults defaults = {
    .kv_heads = 2, .head_dim = 256, .max_position = 32768, .partial = 0.25};

static enum pith_status read_attention(const struct pith_config *c, struct pith_shape *shape,
                                       struct pith_error *err)
{
    PITH_TRY(pith_read_delta(c, shape, err));
    return pith_read_attention_bias(c, false, shape, err);
}

static enum pith_status read_experts(const struct pith_config *c, const struct pith_moe *absent,
                                     struct pith_shape *shape, struct pith_error *err)
{
    PITH_TRY(pith_read_mixture(c, &pith_mixture_keys_qwen, absent, shape, err));
    PITH_TRY(pith_read_size(c, "shared_expert_intermediate_size", PITH_MAX_WIDTH,
                            absent->shared_ffn, &shape->moe.shared_ffn, err));
    return pith_read_sparse_layers(c, shape, err);
}

static enum pith_status read_next(const struct pith_config *c, struct pith_shape *shape,
                                  struct pith_error *err)
{
    static const struct pith_moe absent = {.experts = 512,
                                           .taken = 10,
                                           .ffn = 512,
                                           .shared_ffn = 512,
                                           .shared_gate = true,
                                           .renormalised = true};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(read_attention(c, shape, err));
    return read_experts(c, &absent, shape, err);
}

static enum pith_status read_dense(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    return read_attention(c, shape, err);
}

/* Every layer is a mixture: files have no other width. */
static enum pith_status read_moe(const struct pith_config *c, struct pith_shape *shape,
                                 struct pith_error *err)
{
    static const struct pith_moe absent = {.experts = 256,
                                           .taken = 8,
                                           .ffn = 512,
                                           .shared_ffn = 512,
                                           .shared_gate = true,
                                           .renormalised = true};
    struct pith_size_defaults sparse = defaults;
    sparse.ffn = absent.ffn;
    PITH_TRY(pith_read_sizes(c, &sparse, shape, err));
    PITH_TRY(read_attention(c, shape, err));
    PITH_TRY(read_experts(c, &absent, shape, err));
    shape->moe.renormalised = true; /* always */
    return PITH_OK;
}

static void layer_with(struct pith_plan_maker *m, const struct pith_delta_spec *delta)
{
    static const struct pith_experts_spec experts = {PITH_NAMES_EXPERTS, PITH_NAMES_FUSED,
                                                     .shared = "mlp.shared_expert",
                                                     .shared_gate = "mlp.shared_expert_gate"};
    const bool recurrent = pith_layer_in(&m->shape->recurrent.layers, m->layer);
    const struct pith_norms norms = pith_build_norms(m);
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = pith_mlp_of(m);
    attention.gated = true;
    if (!recurrent) pith_build_head_norms(m, &attention, PITH_HEADS_EACH);
    const struct pith_branch first = pith_build_branch(m, norms.attention, OUT);
    if (recurrent) pith_build_delta(m, &first, delta);
    else pith_build_attention(m, &first, &attention);
    pith_build_rest(m, norms.mlp, &mlp, &experts);
}

#define DELTA                                                                                      \
    .conv = "linear_attn.conv1d", .norm = "linear_attn.norm", .out = "linear_attn.out_proj",       \
    .a_log = "linear_attn.A_log", .dt_bias = "linear_attn.dt_bias"

static void layer_next(struct pith_plan_maker *m)
{
    static const struct pith_delta_spec delta = {DELTA, .qkvz = "linear_attn.in_proj_qkvz",
                                                 .ba = "linear_attn.in_proj_ba"};
    layer_with(m, &delta);
}

/* Qwen3.5 has the same linears apart. */
static void layer_apart(struct pith_plan_maker *m)
{
    static const struct pith_delta_spec delta = {
        DELTA, .qkv = "linear_attn.in_proj_qkv", .z = "linear_attn.in_proj_z",
        .b = "linear_attn.in_proj_b", .a = "linear_attn.in_proj_a"};
    layer_with(m, &delta);
}

#define PARTS_BEFORE                                                                               \
    PITH_GGUF_NORMS_POST, PITH_GGUF_ATTENTION, PITH_GGUF_QK_NORM, PITH_GGUF_MLP,                   \
        PITH_GGUF_EXPERTS_QWEN, PITH_GGUF_SHARED_GATE("mlp.shared_expert_gate")
#define PARTS_AFTER(by_value, values_last, values_across)                                          \
    {.hf = "linear_attn.conv1d",                                                                   \
     .gguf = "ssm_conv1d",                                                                         \
     .place = {.order = values_last, .filter = true, .exact = true}},                              \
        PITH_GGUF_PART("linear_attn.norm", "ssm_norm"),                                            \
        {.hf = "linear_attn.out_proj", .gguf = "ssm_out", .place = {.order = values_across}},      \
        {.hf = "linear_attn.A_log",                                                                \
         .gguf = "ssm_a",                                                                          \
         .whole = true,                                                                            \
         .place = {.order = by_value, .as = PITH_AS_MINUS_EXP}},                                   \
        {.hf = "linear_attn.dt_bias",                                                              \
         .gguf = "ssm_dt.bias",                                                                    \
         .whole = true,                                                                            \
         .place = {.order = by_value}},                                                            \
        PITH_GGUF_SHARED("mlp.shared_expert")
static const struct pith_gguf_name_row parts_next[] = {
    PARTS_BEFORE,
    {.hf = "linear_attn.in_proj_qkvz",
     .gguf = "attn_qkv",
     .place = {.order = PITH_GGUF_BY_DELTA, .rest = "attn_gate"}},
    PITH_GGUF_PART("linear_attn.in_proj_ba", "ssm_ba"),
    PARTS_AFTER(PITH_GGUF_STRAIGHT, PITH_GGUF_STRAIGHT, PITH_GGUF_STRAIGHT),
    {0}};
static const struct pith_gguf_name_row parts_apart[] = {
    PARTS_BEFORE,
    {.hf = "linear_attn.in_proj_qkv",
     .gguf = "attn_qkv",
     .place = {.order = PITH_GGUF_VALUES_LAST}},
    {.hf = "linear_attn.in_proj_z", .gguf = "attn_gate", .place = {.order = PITH_GGUF_BY_VALUE}},
    {.hf = "linear_attn.in_proj_b", .gguf = "ssm_beta", .place = {.order = PITH_GGUF_BY_VALUE}},
    {.hf = "linear_attn.in_proj_a", .gguf = "ssm_alpha", .place = {.order = PITH_GGUF_BY_VALUE}},
    PARTS_AFTER(PITH_GGUF_BY_VALUE, PITH_GGUF_VALUES_LAST, PITH_GGUF_VALUES_ACROSS),
    {0}};

#define NAMES                                                                                      \
    {                                                                                              \
        PITH_NAMES_IN("model."), .head = "lm_head", .other = { "mtp." }                            \
    }
#define NAMES_SEEING                                                                               \
    {                                                                                              \
        PITH_NAMES_IN("model.language_model."), .head = "lm_head", .other = {                      \
            "model.visual.",                                                                       \
            "mtp."                                                                                 \
        }                                                                                          \
    }

const struct pith_arch pith_arch_qwen3_next = {
    .name = "Qwen3NextForCausalLM",
    .model_type = "qwen3_next",
    .summary = "Qwen3-Next: gated delta rule, every fourth layer attention",
    .read = read_next,
    .layer = layer_next,
    .norm = {.plus = 1},
    .names = NAMES,
    .gguf = {.name = "qwen3next",
             .parts = parts_next,
             .renormalised = true,
             .all_sparse = true,
             .features = 1u << PITH_GGUF_HAS_DELTA | 1u << PITH_GGUF_HAS_SHARED},
};

const struct pith_arch pith_arch_qwen3_5 = {
    .name = "Qwen3_5ForCausalLM",
    .model_type = "qwen3_5_text",
    .summary = "Qwen 3.5 (dense): gated delta rule, every fourth layer attention",
    .read = read_dense,
    .layer = layer_apart,
    .norm = {.plus = 1},
    .names = NAMES,
    .gguf = {.name = "qwen35",
             .parts = parts_apart,
             .dense = true,
             .sections = true,
             .features = 1u << PITH_GGUF_HAS_DELTA},
};

const struct pith_arch pith_arch_qwen3_5_moe = {
    .name = "Qwen3_5MoeForCausalLM",
    .model_type = "qwen3_5_moe_text",
    .summary = "Qwen 3.5 mixtures of experts: gated delta rule, every fourth layer attention",
    .read = read_moe,
    .layer = layer_apart,
    .norm = {.plus = 1},
    .names = NAMES,
    .gguf = {.name = "qwen35moe",
             .parts = parts_apart,
             .renormalised = true,
             .all_sparse = true,
             .sections = true,
             .features = 1u << PITH_GGUF_HAS_DELTA | 1u << PITH_GGUF_HAS_SHARED},
};

const struct pith_arch pith_arch_qwen3_5_vl = {
    .name = "Qwen3_5ForConditionalGeneration",
    .model_type = "qwen3_5",
    .summary = "Qwen 3.5 that sees: its language model",
    .read = read_dense,
    .layer = layer_apart,
    .norm = {.plus = 1},
    .wraps = true,
    .names = NAMES_SEEING,
};

const struct pith_arch pith_arch_qwen3_5_moe_vl = {
    .name = "Qwen3_5MoeForConditionalGeneration",
    .model_type = "qwen3_5_moe",
    .summary = "Qwen 3.5 mixtures of experts that see: their language model",
    .read = read_moe,
    .layer = layer_apart,
    .norm = {.plus = 1},
    .wraps = true,
    .names = NAMES_SEEING,
};
