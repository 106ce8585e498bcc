/* StarCoder 2: LayerNorm with biases, biases on every linear, a feed-forward without a gate. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.ffn = 12288,
                                                       .heads = 24,
                                                       .vocab = 49152,
                                                       .kv_heads = 2,
                                                       .max_position = 4096,
                                                       .tied = true,
                                                       .act = PITH_ACT_GELU_TANH,
                                                       .eps = "norm_epsilon",
                                                       .eps_absent = 1e-5};
    bool bias = true;
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_config_bool(c, "use_bias", &bias, err));
    PITH_TRY(pith_read_all_windows(c, 0, shape, err));
    shape->biases.qkv = shape->biases.o = shape->biases.mlp = bias;
    return PITH_OK;
}

static void layer(struct pith_plan_maker *m)
{
    const struct pith_norms norms = pith_build_norms(m);
    const struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = {
        .up = "mlp.c_fc", .down = "mlp.c_proj", .ffn = m->shape->ffn, .bias = m->shape->biases.mlp};
    pith_build_sequential(m, &norms, &attention, &mlp, NULL);
}

static const struct pith_gguf_name_row parts[] = {PITH_GGUF_NORMS,
                                                  PITH_GGUF_ATTENTION,
                                                  PITH_GGUF_PART("mlp.c_fc", "ffn_up"),
                                                  PITH_GGUF_PART("mlp.c_proj", "ffn_down"),
                                                  {0}};

const struct pith_arch pith_arch_starcoder2 = {
    .name = "Starcoder2ForCausalLM",
    .model_type = "starcoder2",
    .summary = "StarCoder 2",
    .read = read_shape,
    .layer = layer,
    .norm = {.centred = true, .bias = true},
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "starcoder2",
             .parts = parts,
             .eps = "norm_epsilon",
             .bias = "use_bias",
             .all_biased = true,
             .square = true,
             .act = PITH_ACT_GELU_TANH,
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS | 1u << PITH_GGUF_HAS_O_BIAS |
                         1u << PITH_GGUF_HAS_MLP_BIAS},
};
