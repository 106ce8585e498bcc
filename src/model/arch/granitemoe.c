/* Granite 3 with experts: Granite's factors, a router that takes the softmax of the chosen logits;
 * one form has what all tokens share. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_moe absent = {.experts = 8, .taken = 2, .router = PITH_ROUTER_TOP};
    PITH_TRY(pith_read_granite(c, shape, err));
    PITH_TRY(pith_read_mixture(c, &pith_mixture_keys_local, &absent, shape, err));
    shape->biases.mlp = false;
    pith_layer_put_all(&shape->moe.layers, shape->layers);
    return PITH_OK;
}

static enum pith_status read_shared(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    PITH_TRY(read_shape(c, shape, err));
    return pith_read_size(c, "shared_intermediate_size", PITH_MAX_WIDTH, 1024,
                          &shape->moe.shared_ffn, err);
}

static void layer(struct pith_plan_maker *m)
{
    static const struct pith_experts_spec experts = {PITH_NAMES_GRANITE_EXPERTS};
    pith_build_llama_with(m, PITH_HEADS_PLAIN, &experts);
}

static void layer_shared(struct pith_plan_maker *m)
{
    static const struct pith_experts_spec experts = {PITH_NAMES_GRANITE_EXPERTS,
                                                     .shared_gate_up = "shared_mlp.input_linear",
                                                     .shared_down = "shared_mlp.output_linear"};
    pith_build_llama_with(m, PITH_HEADS_PLAIN, &experts);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORMS,
    PITH_GGUF_ATTENTION,
    PITH_GGUF_EXPERTS_MIXTRAL("block_sparse_moe.router.layer"),
    {0}};

const struct pith_arch pith_arch_granitemoe = {
    .name = "GraniteMoeForCausalLM",
    .model_type = "granitemoe",
    .summary = "Granite 3 mixtures of experts",
    .read = read_shape,
    .layer = layer,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "granitemoe",
             .parts = parts,
             .permuted = true,
             .factors = true,
             .experts = "num_local_experts",
             .expert_width = "intermediate_size",
             .renormalised = true,
             .all_sparse = true,
             .features = 1u << PITH_GGUF_HAS_SCORE_SCALE | 1u << PITH_GGUF_HAS_EMBED_SCALE |
                         1u << PITH_GGUF_HAS_BRANCH_SCALE | 1u << PITH_GGUF_HAS_LOGIT_SCALE},
};

const struct pith_arch pith_arch_granitemoeshared = {
    .name = "GraniteMoeSharedForCausalLM",
    .model_type = "granitemoeshared",
    .summary = "Granite 3 mixtures with a shared expert",
    .read = read_shared,
    .layer = layer_shared,
    .names = PITH_NAMES_LLAMA,
};
