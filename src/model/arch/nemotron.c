/* Nemotron 3 and 4, Minitron: LayerNorm with gains of 1 + w, a feed-forward without a gate whose
 * activation is the square of ReLU, a part of each head rotated. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.ffn = 24576,
                                                       .heads = 48,
                                                       .vocab = 256000,
                                                       .max_position = 4096,
                                                       .act = PITH_ACT_RELU2,
                                                       .eps = "norm_eps",
                                                       .eps_absent = 1e-5,
                                                       .partial = 0.5};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_attention_bias(c, false, shape, err));
    return pith_config_bool(c, "mlp_bias", &shape->biases.mlp, err);
}

static void layer(struct pith_plan_maker *m)
{
    const struct pith_norms norms = pith_build_norms(m);
    const struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = {.up = "mlp.up_proj",
                                      .down = "mlp.down_proj",
                                      .ffn = m->shape->ffn,
                                      .bias = m->shape->biases.mlp};
    pith_build_sequential(m, &norms, &attention, &mlp, NULL);
}

static const struct pith_gguf_name_row parts[] = {PITH_GGUF_NORMS,
                                                  PITH_GGUF_ATTENTION,
                                                  PITH_GGUF_PART("mlp.up_proj", "ffn_up"),
                                                  PITH_GGUF_PART("mlp.down_proj", "ffn_down"),
                                                  {0}};

const struct pith_arch pith_arch_nemotron = {
    .name = "NemotronForCausalLM",
    .model_type = "nemotron",
    .summary = "Nemotron 3 and 4, Minitron",
    .read = read_shape,
    .layer = layer,
    .norm = {.centred = true, .bias = true, .plus = 1},
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "nemotron",
             .parts = parts,
             .eps = "norm_eps",
             .partial = true,
             .untied = true,
             .square = true,
             .act = PITH_ACT_RELU2,
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS | 1u << PITH_GGUF_HAS_O_BIAS |
                         1u << PITH_GGUF_HAS_MLP_BIAS},
};
