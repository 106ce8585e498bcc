/* ERNIE 4.5 with experts: pairs of neighbours are rotated; a softmax router with a correction; the
 * head may have a bias. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

/* Mixtures are every "moe_layer_interval"-th layer between two, the last of which may be -1. */
static enum pith_status read_layers(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    int64_t step = 1, first = 1, last = -1;
    PITH_TRY(pith_config_int(c, "moe_layer_interval", 1, INT32_MAX, &step, err));
    PITH_TRY(pith_config_int(c, "moe_layer_start_index", 0, INT32_MAX, &first, err));
    PITH_TRY(pith_config_int(c, "moe_layer_end_index", -1, INT32_MAX, &last, err));
    for (int64_t i = first; i < shape->layers && (last < 0 || i <= last); i++)
        if ((i + 1) % step == 0) pith_layer_put(&shape->moe.layers, (uint32_t)i);
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {
        .kv_heads = 4, .max_position = 131072, .tied = true};
    static const struct pith_mixture_keys keys = {.count = {"moe_num_experts", "num_experts"},
                                                  .taken = {"moe_k", "num_experts_per_tok"},
                                                  .width = "moe_intermediate_size"};
    static const struct pith_moe absent = {.experts = 64,
                                           .taken = 6,
                                           .ffn = 1536,
                                           .renormalised = true,
                                           .correction = true,
                                           .floor = 1e-12};
    bool bias = false;
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_mixture(c, &keys, &absent, shape, err));
    PITH_TRY(pith_config_real(c, "moe_norm_min", &shape->moe.floor, err));
    if (!(shape->moe.floor > 0 && shape->moe.floor < 1))
        return pith_fail(err, PITH_FORMAT, "%s: \"moe_norm_min\" is %g, outside 0..1", c->where,
                         shape->moe.floor);
    PITH_TRY(pith_read_shared(c, "moe_num_shared_experts", 2, shape, err));
    PITH_TRY(pith_config_bool(c, "use_bias", &bias, err));
    shape->biases.qkv = shape->biases.o = shape->biases.mlp = shape->ends.head_bias = bias;
    return read_layers(c, shape, err);
}

static void layer(struct pith_plan_maker *m)
{
    const struct pith_norms norms = pith_build_norms(m);
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = pith_mlp_of(m);
    struct pith_experts_spec experts = {PITH_NAMES_EXPERTS, PITH_NAMES_FUSED,
                                        .shared = "mlp.shared_experts",
                                        .shared_bias = m->shape->biases.mlp};
    attention.rope_adjacent = true;
    pith_build_correction(m, &experts, "mlp.moe_statics.e_score_correction_bias", true);
    pith_build_sequential(m, &norms, &attention, &mlp, &experts);
}

static const struct pith_gguf_name_row parts[] = {PITH_GGUF_NORMS,
                                                  PITH_GGUF_ATTENTION,
                                                  PITH_GGUF_MLP,
                                                  PITH_GGUF_EXPERTS_QWEN,
                                                  {.hf = "mlp.moe_statics.e_score_correction_bias",
                                                   .gguf = "exp_probs_b.bias",
                                                   .whole = true,
                                                   .mixture = true,
                                                   .place = {.flat = true}},
                                                  PITH_GGUF_SHARED("mlp.shared_experts"),
                                                  {0}};

const struct pith_arch pith_arch_ernie4_5_moe = {
    .name = "Ernie4_5_MoeForCausalLM",
    .model_type = "ernie4_5_moe",
    .summary = "ERNIE 4.5 mixtures of experts",
    .read = read_shape,
    .layer = layer,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "ernie4_5-moe",
             .parts = parts,
             .renormalised = true,
             .step = true,
             .features = 1u << PITH_GGUF_HAS_SHARED | 1u << PITH_GGUF_HAS_CORRECTION},
};
