/* Phi 1, 1.5 and 2: attention and feed-forward read one LayerNorm and are added at once; a part of
 * each head is rotated; biases everywhere, the head's included. */
#include "model/family/family.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {.ffn = 8192,
                                                         .heads = 32,
                                                         .vocab = 51200,
                                                         .max_position = 2048,
                                                         .act = PITH_ACT_GELU_TANH,
                                                         .eps = "layer_norm_eps",
                                                         .eps_absent = 1e-5,
                                                         .partial = 0.5};
    bool normed = false;
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(pith_config_bool(c, "qk_layernorm", &normed, err));
    if (normed) /* no published file has it */
        return pith_fail(err, PITH_UNSUPPORTED, "%s: \"qk_layernorm\" is not supported", c->where);
    shape->qkv_bias = shape->o_bias = shape->mlp_bias = shape->head_bias = true;
    return PITH_OK;
}

static const struct pith_family family = {.before_attention = "input_layernorm",
                                          .q = "self_attn.q_proj",
                                          .k = "self_attn.k_proj",
                                          .v = "self_attn.v_proj",
                                          .o = "self_attn.dense",
                                          .up = "mlp.fc1",
                                          .down = "mlp.fc2",
                                          .parallel = true,
                                          .centred = true,
                                          .norm_bias = true};

const struct pith_arch pith_arch_phi = {
    .name = "PhiForCausalLM",
    .model_type = "phi",
    .summary = "Phi 1, 1.5, 2",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = {.layers = "model.layers.",
              .embed = "model.embed_tokens",
              .norm = "model.final_layernorm",
              .head = "lm_head"},
    .gguf = {.name = "phi2",
             .eps = "layer_norm_eps",
             .partial = true,
             .untied = true,
             .square = true,
             .act = PITH_ACT_GELU_TANH,
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS | 1u << PITH_GGUF_HAS_O_BIAS |
                         1u << PITH_GGUF_HAS_MLP_BIAS | 1u << PITH_GGUF_HAS_HEAD_BIAS},
};
