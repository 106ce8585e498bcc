/* OLMoE: norms over all heads of q and of k, which may be clamped together with v. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.max_position = 4096};
    static const struct pith_mixture_keys keys = {.count = {"num_experts", "num_local_experts"},
                                                  .taken = {"num_experts_per_tok"},
                                                  .renormalised = true};
    static const struct pith_moe absent = {.experts = 64, .taken = 8};
    double clip = 0;
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_mixture(c, &keys, &absent, shape, err));
    PITH_TRY(pith_read_cap(c, "clip_qkv", &clip, err));
    PITH_TRY(pith_read_attention_bias(c, false, shape, err));
    pith_shape_set_own(shape, &clip, sizeof clip);
    pith_layer_put_all(&shape->moe.layers, shape->layers);
    return PITH_OK;
}

static void layer(struct pith_plan_maker *m)
{
    static const struct pith_experts_spec experts = {PITH_NAMES_EXPERTS, PITH_NAMES_FUSED};
    const struct pith_norms norms = pith_build_norms(m);
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = pith_mlp_of(m);
    pith_shape_own(m->shape, &attention.clip, sizeof attention.clip);
    pith_build_head_norms(m, &attention, PITH_HEADS_TOGETHER);
    pith_build_sequential(m, &norms, &attention, &mlp, &experts);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORMS, PITH_GGUF_ATTENTION, PITH_GGUF_QK_NORM, PITH_GGUF_EXPERTS_QWEN, {0}};

static const struct pith_own_field own_fields[] = {{"clip_qkv", 0, true}, {0}};

const struct pith_arch pith_arch_olmoe = {
    .name = "OlmoeForCausalLM",
    .model_type = "olmoe",
    .summary = "OLMoE",
    .read = read_shape,
    .layer = layer,
    .own = own_fields,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "olmoe",
             .parts = parts,
             .expert_width = "intermediate_size",
             .all_sparse = true},
};
