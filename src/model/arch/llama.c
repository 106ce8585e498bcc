/* Llama 2, 3 and everything that took their shape. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.max_position = 2048};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_attention_bias(c, false, shape, err));
    return pith_config_bool(c, "mlp_bias", &shape->biases.mlp, err);
}

const struct pith_gguf_name_row pith_gguf_llama[] = {
    PITH_GGUF_NORMS, PITH_GGUF_ATTENTION, PITH_GGUF_MLP, {0}};

const struct pith_arch pith_arch_llama = {
    .name = "LlamaForCausalLM",
    .model_type = "llama",
    .summary = "Llama 2 and 3 and their kin",
    .read = read_shape,
    .layer = pith_build_llama,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "llama",
             .parts = pith_gguf_llama,
             .permuted = true,
             .large = true,
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS | 1u << PITH_GGUF_HAS_O_BIAS |
                         1u << PITH_GGUF_HAS_MLP_BIAS},
};
