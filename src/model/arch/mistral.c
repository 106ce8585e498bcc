/* Mistral: Llama with a sliding window in all layers. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

#include <string.h>

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.kv_heads = 8, .max_position = 4096 * 32};
    const bool given = pith_config_has(c, "layer_types");
    struct pith_layer_set listed = {0};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_all_windows(c, 4096, shape, err));
    PITH_TRY(pith_read_layer_types(c, shape, "sliding_attention", "full_attention", &listed, err));
    /* Engines disagree on layer types here: only what means the same to all is taken. */
    if (given && memcmp(&listed, &shape->windows.layers, sizeof listed) != 0)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: \"layer_types\" that differ from what \"sliding_window\" says are "
                         "not supported",
                         c->where);
    return PITH_OK;
}

const struct pith_arch pith_arch_mistral = {
    .name = "MistralForCausalLM",
    .model_type = "mistral",
    .summary = "Mistral 7B, Nemo and others: a sliding window in all layers",
    .read = read_shape,
    .layer = pith_build_llama,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "llama", .parts = pith_gguf_llama, .permuted = true, .large = true},
};
