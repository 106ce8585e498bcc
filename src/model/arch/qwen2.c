/* Qwen2 and 2.5: biases on q, k and v, and a window in the upper layers when it is switched on. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.kv_heads = 32, .max_position = 32768};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    shape->biases.qkv = true;
    return pith_read_qwen_window(c, shape, err);
}

const struct pith_arch pith_arch_qwen2 = {
    .name = "Qwen2ForCausalLM",
    .model_type = "qwen2",
    .summary = "Qwen 2 and 2.5: biases on q, k and v",
    .read = read_shape,
    .layer = pith_build_llama,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "qwen2",
             .parts = pith_gguf_llama,
             .biased = true,
             .large = true,
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS},
};
