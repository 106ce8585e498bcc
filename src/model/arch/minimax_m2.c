/* MiniMax-M2: norms over all heads of q and of k, a part of a head is rotated, experts chosen by
 * sigmoid and correction. */
#include "model/family/family.h"

/* How many elements of a head are rotated stands in "rotary_dim" in published files. */
static enum pith_status read_rotary(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    int64_t n = shape->rotary;
    PITH_TRY(pith_config_int(c, "rotary_dim", 2, shape->head_dim, &n, err));
    if (n % 2 != 0)
        return pith_fail(err, PITH_FORMAT, "%s: \"rotary_dim\" %lld is odd", c->where,
                         (long long)n);
    shape->rotary = (uint32_t)n;
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {
        .kv_heads = 8, .head_dim = 128, .max_position = 196608, .partial = 1};
    static const struct pith_moe absent = {.experts = 256,
                                           .taken = 8,
                                           .router = PITH_ROUTER_SIGMOID,
                                           .renormalised = true,
                                           .correction = true};
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(read_rotary(c, shape, err));
    PITH_TRY(pith_family_read_moe(c, &pith_family_moe_local, &absent, shape, err));
    pith_layer_put_all(&shape->moe.layers, shape->layers);
    shape->qk_norm = true;
    return PITH_OK;
}

static const struct pith_family family = {
    PITH_FAMILY_NORMS, PITH_FAMILY_ATTENTION, PITH_FAMILY_QK_NORM, .qk_norm = PITH_QK_ROW,
    .moe = {PITH_FAMILY_BLOCK_SPARSE, .correction = "block_sparse_moe.e_score_correction_bias"}};

const struct pith_arch pith_arch_minimax_m2 = {
    .name = "MiniMaxM2ForCausalLM",
    .model_type = "minimax_m2",
    .summary = "MiniMax-M2",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "minimax-m2",
             .experts = "num_local_experts",
             .expert_width = "intermediate_size",
             .by_keys = true,
             .renormalised = true,
             .all_sparse = true,
             .features = 1u << PITH_GGUF_HAS_CORRECTION},
};
