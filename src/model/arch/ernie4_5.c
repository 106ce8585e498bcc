/* ERNIE 4.5: Llama with neighbouring pairs rotated, and one switch for all biases. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.kv_heads = 2,
                                                       .head_dim = 128,
                                                       .max_position = 131072,
                                                       .tied = true,
                                                       .theta = 5e5,
                                                       .eps_absent = 1e-5};
    bool bias = false;
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_config_bool(c, "use_bias", &bias, err));
    shape->biases.qkv = shape->biases.o = shape->biases.mlp = bias;
    return PITH_OK;
}

static void layer(struct pith_plan_maker *m)
{
    const struct pith_norms norms = pith_build_norms(m);
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = pith_mlp_of(m);
    attention.rope_adjacent = true;
    pith_build_sequential(m, &norms, &attention, &mlp, NULL);
}

const struct pith_arch pith_arch_ernie4_5 = {
    .name = "Ernie4_5ForCausalLM",
    .model_type = "ernie4_5",
    .summary = "ERNIE 4.5 (dense)",
    .read = read_shape,
    .layer = layer,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "ernie4_5", .parts = pith_gguf_llama},
};
