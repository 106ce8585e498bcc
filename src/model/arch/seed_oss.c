/* Seed-OSS: Llama with biases on q, k and v. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {
        .kv_heads = 8, .head_dim = 128, .max_position = 524288};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    shape->biases.qkv = true;
    PITH_TRY(pith_config_bool(c, "attention_bias", &shape->biases.qkv, err));
    PITH_TRY(pith_config_bool(c, "attention_out_bias", &shape->biases.o, err));
    return pith_config_bool(c, "mlp_bias", &shape->biases.mlp, err);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORMS_POST, PITH_GGUF_ATTENTION, PITH_GGUF_MLP, {0}};

const struct pith_arch pith_arch_seed_oss = {
    .name = "SeedOssForCausalLM",
    .model_type = "seed_oss",
    .summary = "Seed-OSS: biases on q, k and v",
    .read = read_shape,
    .layer = pith_build_llama,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "seed_oss",
             .parts = parts,
             .qkv_bias_only = true,
             .features = 1u << PITH_GGUF_HAS_QKV_BIAS},
};
