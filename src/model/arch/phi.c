/* Phi 1, 1.5 and 2: attention and feed-forward read one LayerNorm and are added at once; a part of
 * each head is rotated; biases everywhere, the head's included. */
#include "model/build/build.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.ffn = 8192,
                                                       .heads = 32,
                                                       .vocab = 51200,
                                                       .max_position = 2048,
                                                       .act = PITH_ACT_GELU_TANH,
                                                       .eps = "layer_norm_eps",
                                                       .eps_absent = 1e-5,
                                                       .partial = 0.5};
    bool normed = false;
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_config_bool(c, "qk_layernorm", &normed, err));
    if (normed) /* no published file has it */
        return pith_fail(err, PITH_UNSUPPORTED, "%s: \"qk_layernorm\" is not supported", c->where);
    shape->biases.qkv = shape->biases.o = shape->biases.mlp = shape->ends.head_bias = true;
    return PITH_OK;
}

static void layer(struct pith_plan_maker *m)
{
    const struct pith_norm norm = pith_build_norm(m, "input_layernorm");
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = {
        .up = "mlp.fc1", .down = "mlp.fc2", .ffn = m->shape->ffn, .bias = true};
    attention.o = "self_attn.dense";
    pith_build_parallel(m, norm, &attention, &mlp);
}

static const struct pith_gguf_name_row parts[] = {PITH_GGUF_NORM("input_layernorm", "attn_norm"),
                                                  PITH_GGUF_ATTENTION_TO("self_attn.dense"),
                                                  PITH_GGUF_PART("mlp.fc1", "ffn_up"),
                                                  PITH_GGUF_PART("mlp.fc2", "ffn_down"),
                                                  {0}};

const struct pith_arch pith_arch_phi = {
    .name = "PhiForCausalLM",
    .model_type = "phi",
    .summary = "Phi 1, 1.5, 2",
    .read = read_shape,
    .layer = layer,
    .norm = {.centred = true, .bias = true},
    .names = {.layers = "model.layers.",
              .embed = "model.embed_tokens",
              .norm = "model.final_layernorm",
              .head = "lm_head"},
    .gguf = {.name = "phi2",
             .parts = parts,
             .eps = "layer_norm_eps",
             .partial = true,
             .untied = true,
             .square = true,
             .act = PITH_ACT_GELU_TANH,
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS | 1u << PITH_GGUF_HAS_O_BIAS |
                         1u << PITH_GGUF_HAS_MLP_BIAS | 1u << PITH_GGUF_HAS_HEAD_BIAS},
};
