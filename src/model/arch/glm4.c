/* GLM-4 of 2025: norms before and after both parts, half of each head rotated in neighbouring
 * pairs, gate and up in one linear. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.kv_heads = 2,
                                                       .head_dim = 128,
                                                       .max_position = 131072,
                                                       .partial = 0.5,
                                                       .eps_absent = 1.5625e-7};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    return pith_config_bool(c, "attention_bias", &shape->biases.qkv, err);
}

static void layer(struct pith_plan_maker *m)
{
    const struct pith_norms before = pith_build_norms(m);
    struct pith_norms after = {.attention = pith_build_norm_after(m, "post_self_attn_layernorm")};
    after.mlp = pith_build_norm_after(m, "post_mlp_layernorm");
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = {.gate_up = "mlp.gate_up_proj",
                                      .down = "mlp.down_proj",
                                      .ffn = m->shape->ffn,
                                      .bias = m->shape->biases.mlp};
    attention.rope_adjacent = true;
    pith_build_around(m, &before, &after, &attention, &mlp);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORM("input_layernorm", "attn_norm"),
    PITH_GGUF_NORM("post_self_attn_layernorm", "post_attention_norm"),
    PITH_GGUF_NORM("post_attention_layernorm", "ffn_norm"),
    PITH_GGUF_NORM("post_mlp_layernorm", "post_ffw_norm"),
    PITH_GGUF_ATTENTION,
    PITH_GGUF_PART("mlp.gate_up_proj", "ffn_up"),
    PITH_GGUF_PART("mlp.down_proj", "ffn_down"),
    {0}};

const struct pith_arch pith_arch_glm4 = {
    .name = "Glm4ForCausalLM",
    .model_type = "glm4",
    .summary = "GLM-4 (0414): norms before and after",
    .read = read_shape,
    .layer = layer,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "glm4",
             .parts = parts,
             .qkv_bias_only = true,
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS},
};
