/* Mixtral: Mistral's attention, experts in every layer. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.kv_heads = 8, .max_position = 4096 * 32};
    static const struct pith_moe absent = {.experts = 8, .taken = 2, .renormalised = true};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_mixture(c, &pith_mixture_keys_local, &absent, shape, err));
    pith_layer_put_all(&shape->moe.layers, shape->layers);
    return pith_read_all_windows(c, 0, shape, err);
}

static void layer(struct pith_plan_maker *m)
{
    static const struct pith_experts_spec experts = {PITH_NAMES_BLOCK_SPARSE};
    pith_build_llama_with(m, PITH_HEADS_PLAIN, &experts);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORMS, PITH_GGUF_ATTENTION, PITH_GGUF_EXPERTS_MIXTRAL("block_sparse_moe.gate"), {0}};

const struct pith_arch pith_arch_mixtral = {
    .name = "MixtralForCausalLM",
    .model_type = "mixtral",
    .summary = "Mixtral",
    .read = read_shape,
    .layer = layer,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "llama",
             .parts = parts,
             .permuted = true,
             .large = true,
             .experts = "num_local_experts",
             .expert_width = "intermediate_size",
             .renormalised = true,
             .all_sparse = true},
};
