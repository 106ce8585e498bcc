/* SmolLM3: Llama in which every fourth layer does not rotate. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

/* With a window in use the layers that do not rotate have it, unless "layer_types" says which. */
static enum pith_status read_windows(const struct pith_config *c, struct pith_shape *shape,
                                     struct pith_error *err)
{
    bool use = false;
    const bool given = pith_config_has(c, "layer_types");
    PITH_TRY(pith_config_bool(c, "use_sliding_window", &use, err));
    PITH_TRY(pith_read_window(c, 0, &shape->windows.size, err));
    PITH_TRY(pith_read_layer_types(c, shape, "sliding_attention", "full_attention",
                                   &shape->windows.layers, err));
    if (!given && use && shape->windows.size) shape->windows.layers = shape->place.unrotated;
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {
        .kv_heads = 4, .max_position = 32768, .tied = true, .theta = 2e6};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_unrotated(c, 4, shape, err));
    PITH_TRY(read_windows(c, shape, err));
    PITH_TRY(pith_read_attention_bias(c, false, shape, err));
    return pith_config_bool(c, "mlp_bias", &shape->biases.mlp, err);
}

const struct pith_arch pith_arch_smollm3 = {
    .name = "SmolLM3ForCausalLM",
    .model_type = "smollm3",
    .summary = "SmolLM 3: every fourth layer without positions",
    .read = read_shape,
    .layer = pith_build_llama,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "smollm3",
             .parts = pith_gguf_llama,
             .permuted = true,
             .unrotated = 4,
             .features = 1u << PITH_GGUF_HAS_UNROTATED},
};
