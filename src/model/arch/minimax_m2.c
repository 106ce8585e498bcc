/* MiniMax-M2: norms over all heads of q and of k, a part of a head is rotated, experts chosen by
 * sigmoid and correction. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

/* How many elements of a head are rotated stands in "rotary_dim" in published files. */
static enum pith_status read_rotary(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    int64_t n = shape->place.rotary;
    PITH_TRY(pith_config_int(c, "rotary_dim", 2, shape->head_dim, &n, err));
    if (n % 2 != 0)
        return pith_fail(err, PITH_FORMAT, "%s: \"rotary_dim\" %lld is odd", c->where,
                         (long long)n);
    shape->place.rotary = (uint32_t)n;
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {
        .kv_heads = 8, .head_dim = 128, .max_position = 196608, .partial = 1};
    static const struct pith_moe absent = {.experts = 256,
                                           .taken = 8,
                                           .router = PITH_ROUTER_SIGMOID,
                                           .renormalised = true,
                                           .correction = true};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(read_rotary(c, shape, err));
    PITH_TRY(pith_read_mixture(c, &pith_mixture_keys_local, &absent, shape, err));
    pith_layer_put_all(&shape->moe.layers, shape->layers);
    return PITH_OK;
}

static void layer(struct pith_plan_maker *m)
{
    const struct pith_norms norms = pith_build_norms(m);
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = pith_mlp_of(m);
    struct pith_experts_spec experts = {PITH_NAMES_BLOCK_SPARSE};
    pith_build_head_norms(m, &attention, PITH_HEADS_TOGETHER);
    pith_build_correction(m, &experts, "block_sparse_moe.e_score_correction_bias", false);
    pith_build_sequential(m, &norms, &attention, &mlp, &experts);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORMS,
    PITH_GGUF_ATTENTION,
    PITH_GGUF_QK_NORM,
    PITH_GGUF_CORRECTION("block_sparse_moe.e_score_correction_bias"),
    PITH_GGUF_EXPERTS_MIXTRAL("block_sparse_moe.gate"),
    {0}};

const struct pith_arch pith_arch_minimax_m2 = {
    .name = "MiniMaxM2ForCausalLM",
    .model_type = "minimax_m2",
    .summary = "MiniMax-M2",
    .read = read_shape,
    .layer = layer,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "minimax-m2",
             .parts = parts,
             .experts = "num_local_experts",
             .expert_width = "intermediate_size",
             .by_keys = true,
             .renormalised = true,
             .all_sparse = true,
             .features = 1u << PITH_GGUF_HAS_CORRECTION},
};
