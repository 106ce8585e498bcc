/* Qwen3: q and k are normalised head by head before they are rotated. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {
        .kv_heads = 32, .head_dim = 128, .max_position = 32768};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_attention_bias(c, false, shape, err));
    return pith_read_qwen_window(c, shape, err);
}

static void layer(struct pith_plan_maker *m)
{
    pith_build_llama_with(m, PITH_HEADS_EACH, NULL);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORMS, PITH_GGUF_ATTENTION, PITH_GGUF_QK_NORM, PITH_GGUF_MLP, {0}};

const struct pith_arch pith_arch_qwen3 = {
    .name = "Qwen3ForCausalLM",
    .model_type = "qwen3",
    .summary = "Qwen 3 (dense): norms on q and k",
    .read = read_shape,
    .layer = layer,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "qwen3", .parts = parts},
};
