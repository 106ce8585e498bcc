/* DeepSeek V2 and its Lite: latent attention, and experts by the softmax of all. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

#include <string.h>

/* "greedy" takes the best of all experts, "group_limited_greedy" those of the best groups. */
static enum pith_status read_method(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    const char *method = "greedy";
    PITH_TRY(pith_config_str(c, "topk_method", &method, err));
    if (strcmp(method, "greedy") == 0) shape->moe.groups = shape->moe.groups_taken = 0;
    else if (strcmp(method, "group_limited_greedy") != 0)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: \"topk_method\" \"%.40s\" is not supported (greedy, "
                         "group_limited_greedy)",
                         c->where, method);
    shape->moe.renormalised = false; /* "norm_topk_prob" has no effect there */
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.head_dim = 64, .max_position = 2048};
    static const struct pith_latent_shape latent = {
        .q_rank = 1536, .rank = 512, .nope = 128, .rope = 64, .value = 128, .adjacent = true};
    static const struct pith_mixture_keys keys = {.count = {"n_routed_experts", "num_experts"},
                                                  .taken = {"num_experts_per_tok"},
                                                  .width = "moe_intermediate_size",
                                                  .groups = true,
                                                  .renormalised = true,
                                                  .scale = true};
    static const struct pith_moe absent = {
        .experts = 64, .taken = 1, .ffn = 1407, .router = PITH_ROUTER_SOFTMAX};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_latent(c, &latent, shape, err));
    PITH_TRY(pith_read_mixture(c, &keys, &absent, shape, err));
    PITH_TRY(pith_read_shared(c, "n_shared_experts", 2, shape, err));
    PITH_TRY(pith_read_dense_first(c, "first_k_dense_replace", 0, shape, err));
    PITH_TRY(read_method(c, shape, err));
    PITH_TRY(pith_config_bool(c, "mlp_bias", &shape->biases.mlp, err));
    return pith_config_bool(c, "attention_bias", &shape->biases.o, err);
}

static const struct pith_gguf_name_row parts[] = {PITH_GGUF_NORMS,
                                                  PITH_GGUF_PART("self_attn.o_proj", "attn_output"),
                                                  PITH_GGUF_MLP,
                                                  PITH_GGUF_EXPERTS_QWEN,
                                                  PITH_GGUF_LATENT,
                                                  PITH_GGUF_SHARED("mlp.shared_experts"),
                                                  {0}};

const struct pith_arch pith_arch_deepseek_v2 = {
    .name = "DeepseekV2ForCausalLM",
    .model_type = "deepseek_v2",
    .summary = "DeepSeek V2: latent attention",
    .read = read_shape,
    .layer = pith_build_deepseek,
    .names = {PITH_NAMES_IN("model."), .head = "lm_head", .further = true},
    .gguf = {.name = "deepseek2",
             .parts = parts,
             .experts = "n_routed_experts",
             .by_keys = true,
             .gating = 1,
             .features = 1u << PITH_GGUF_HAS_LATENT | 1u << PITH_GGUF_HAS_SHARED},
};
