/* Qwen3-Next and Qwen3.5: three layers of the gated delta rule, then one of gated attention; a
 * dense feed-forward or experts. */
#include "model/family/family.h"

static const struct pith_family_defaults defaults = {
    .kv_heads = 2, .head_dim = 256, .max_position = 32768, .partial = 0.25};

static enum pith_status read_attention(const struct pith_config *c, struct pith_shape *shape,
                                       struct pith_error *err)
{
    bool bias = false;
    PITH_TRY(pith_family_read_delta(c, shape, err));
    PITH_TRY(pith_config_bool(c, "attention_bias", &bias, err));
    shape->qkv_bias = shape->o_bias = bias;
    shape->qk_norm = shape->gated = true;
    return PITH_OK;
}

static enum pith_status read_experts(const struct pith_config *c, const struct pith_moe *absent,
                                     struct pith_shape *shape, struct pith_error *err)
{
    PITH_TRY(pith_family_read_moe(c, &pith_family_moe_qwen, absent, shape, err));
    PITH_TRY(pith_family_read_size(c, "shared_expert_intermediate_size", PITH_MAX_WIDTH,
                                   absent->shared_ffn, &shape->moe.shared_ffn, err));
    return pith_family_read_sparse_layers(c, shape, err);
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
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(read_attention(c, shape, err));
    return read_experts(c, &absent, shape, err);
}

static enum pith_status read_dense(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
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
    struct pith_family_defaults sparse = defaults;
    sparse.ffn = absent.ffn;
    PITH_TRY(pith_family_read(c, &sparse, shape, err));
    PITH_TRY(read_attention(c, shape, err));
    PITH_TRY(read_experts(c, &absent, shape, err));
    shape->moe.renormalised = true; /* always */
    return PITH_OK;
}

#define DELTA                                                                                      \
    .conv = "linear_attn.conv1d", .norm = "linear_attn.norm", .out = "linear_attn.out_proj",       \
    .a_log = "linear_attn.A_log", .dt_bias = "linear_attn.dt_bias"
#define FAMILY                                                                                     \
    PITH_FAMILY_NORMS, PITH_FAMILY_ATTENTION, PITH_FAMILY_MLP, PITH_FAMILY_QK_NORM,                \
        .plus_one = true, .recur = pith_family_delta,                                              \
        .moe = {PITH_FAMILY_EXPERTS, PITH_FAMILY_FUSED, .shared = "mlp.shared_expert",             \
                .shared_gate = "mlp.shared_expert_gate"}

static const struct pith_family next = {
    FAMILY, .delta = {DELTA, .qkvz = "linear_attn.in_proj_qkvz", .ba = "linear_attn.in_proj_ba"}};
static const struct pith_family later = {
    FAMILY, .delta = {DELTA, .qkv = "linear_attn.in_proj_qkv", .z = "linear_attn.in_proj_z",
                      .b = "linear_attn.in_proj_b", .a = "linear_attn.in_proj_a"}};

#define NAMES                                                                                      \
    {                                                                                              \
        PITH_FAMILY_NAMES_IN("model."), .head = "lm_head", .beside = { "mtp." }                    \
    }
#define NAMES_SEEING                                                                               \
    {                                                                                              \
        PITH_FAMILY_NAMES_IN("model.language_model."), .head = "lm_head", .beside = {              \
            "model.visual.",                                                                       \
            "mtp."                                                                                 \
        }                                                                                          \
    }

const struct pith_arch pith_arch_qwen3_next = {
    .name = "Qwen3NextForCausalLM",
    .model_type = "qwen3_next",
    .summary = "Qwen3-Next: gated delta rule, every fourth layer attention",
    .read = read_next,
    .plan = pith_family_plan,
    .family = &next,
    .names = NAMES,
    .gguf = {.name = "qwen3next",
             .renormalised = true,
             .all_sparse = true,
             .before_mlp = "post_attention_norm",
             .features = 1u << PITH_GGUF_HAS_DELTA | 1u << PITH_GGUF_HAS_GATED |
                         1u << PITH_GGUF_HAS_SHARED},
};

const struct pith_arch pith_arch_qwen3_5 = {
    .name = "Qwen3_5ForCausalLM",
    .model_type = "qwen3_5_text",
    .summary = "Qwen 3.5 (dense): gated delta rule, every fourth layer attention",
    .read = read_dense,
    .plan = pith_family_plan,
    .family = &later,
    .names = NAMES,
    .gguf = {.name = "qwen35",
             .dense = true,
             .before_mlp = "post_attention_norm",
             .sections = true,
             .features = 1u << PITH_GGUF_HAS_DELTA | 1u << PITH_GGUF_HAS_GATED},
};

const struct pith_arch pith_arch_qwen3_5_moe = {
    .name = "Qwen3_5MoeForCausalLM",
    .model_type = "qwen3_5_moe_text",
    .summary = "Qwen 3.5 mixtures of experts: gated delta rule, every fourth layer attention",
    .read = read_moe,
    .plan = pith_family_plan,
    .family = &later,
    .names = NAMES,
    .gguf = {.name = "qwen35moe",
             .renormalised = true,
             .all_sparse = true,
             .before_mlp = "post_attention_norm",
             .sections = true,
             .features = 1u << PITH_GGUF_HAS_DELTA | 1u << PITH_GGUF_HAS_GATED |
                         1u << PITH_GGUF_HAS_SHARED},
};

const struct pith_arch pith_arch_qwen3_5_vl = {
    .name = "Qwen3_5ForConditionalGeneration",
    .model_type = "qwen3_5",
    .summary = "Qwen 3.5 that sees: its language model",
    .read = read_dense,
    .plan = pith_family_plan,
    .family = &later,
    .wraps = true,
    .names = NAMES_SEEING,
};

const struct pith_arch pith_arch_qwen3_5_moe_vl = {
    .name = "Qwen3_5MoeForConditionalGeneration",
    .model_type = "qwen3_5_moe",
    .summary = "Qwen 3.5 mixtures of experts that see: their language model",
    .read = read_moe,
    .plan = pith_family_plan,
    .family = &later,
    .wraps = true,
    .names = NAMES_SEEING,
};
