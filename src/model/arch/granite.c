/* Granite 3: Llama with factors on the embedding, the scores, what is added, and the logits. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

enum pith_status pith_read_granite(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.max_position = 2048};
    double logits = 1;
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    shape->ends.embed_scale = shape->scores.scale = shape->branch_scale = 1;
    PITH_TRY(pith_read_scale(c, "embedding_multiplier", &shape->ends.embed_scale, err));
    PITH_TRY(pith_read_scale(c, "attention_multiplier", &shape->scores.scale, err));
    PITH_TRY(pith_read_scale(c, "residual_multiplier", &shape->branch_scale, err));
    PITH_TRY(pith_read_scale(c, "logits_scaling", &logits, err));
    PITH_TRY(pith_read_attention_bias(c, false, shape, err));
    PITH_TRY(pith_config_bool(c, "mlp_bias", &shape->biases.mlp, err));
    shape->ends.logit_scale = 1 / logits;
    return PITH_OK;
}

const struct pith_arch pith_arch_granite = {
    .name = "GraniteForCausalLM",
    .model_type = "granite",
    .summary = "Granite 3: factors on embedding, scores, branches and logits",
    .read = pith_read_granite,
    .layer = pith_build_llama,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "granite",
             .parts = pith_gguf_llama,
             .permuted = true,
             .factors = true,
             .features = 1u << PITH_GGUF_HAS_SCORE_SCALE | 1u << PITH_GGUF_HAS_EMBED_SCALE |
                         1u << PITH_GGUF_HAS_BRANCH_SCALE | 1u << PITH_GGUF_HAS_LOGIT_SCALE},
};
