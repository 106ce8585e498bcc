/* Granite 4: Granite's factors; layers of Mamba 2, some of attention; what all tokens
 * share, with experts beside it or alone. */
#include "model/family/family.h"

#include <string.h>

/* Attention, the rest is Mamba's; older files have other words. */
static enum pith_status read_layers(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    const json_t *types = pith_config_get(c, "layer_types");
    const char *first = json_string_value(json_array_get(types, 0)), *position = "nope";
    const bool old = first && (strcmp(first, "mamba") == 0 || strcmp(first, "attention") == 0);
    const bool given = pith_config_has(c, "layer_types");
    PITH_TRY(pith_family_read_layer_types(c, shape, old ? "mamba" : "linear_attention",
                                          old ? "attention" : "full_attention", &shape->recurrent,
                                          err));
    PITH_TRY(pith_config_str(c, "position_embedding_type", &position, err));
    for (uint32_t i = 0; i < shape->layers; i++) {
        if (!given) pith_layer_put(&shape->recurrent, i);
        if (strcmp(position, "rope") != 0) pith_layer_put(&shape->unrotated, i);
    }
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_moe absent = {.experts = 8, .taken = 8, .router = PITH_ROUTER_TOP};
    uint32_t shared;
    int64_t experts = absent.experts;
    PITH_TRY(pith_family_read_granite(c, shape, err));
    PITH_TRY(
        pith_family_read_size(c, "shared_intermediate_size", PITH_MAX_WIDTH, 1024, &shared, err));
    PITH_TRY(pith_config_int(c, "num_local_experts", 0, PITH_MAX_EXPERTS, &experts, err));
    shape->mlp_bias = false;
    if (experts > 0) {
        PITH_TRY(pith_family_read_moe(c, &pith_family_moe_local, &absent, shape, err));
        shape->moe.shared_ffn = shared;
        pith_layer_put_all(&shape->moe.layers, shape->layers);
    } else {
        shape->ffn = shared;
    }
    PITH_TRY(read_layers(c, shape, err));
    return pith_family_read_mamba(c, shape, err);
}

static const struct pith_family family = {PITH_FAMILY_NORMS,
                                          PITH_FAMILY_ATTENTION,
                                          .gate_up = "shared_mlp.input_linear",
                                          .down = "shared_mlp.output_linear",
                                          .moe = {PITH_FAMILY_GRANITE_EXPERTS,
                                                  .shared_gate_up = "shared_mlp.input_linear",
                                                  .shared_down = "shared_mlp.output_linear"},
                                          .recur = pith_family_mamba};

static const struct pith_gguf_more mamba[] = {
    {.hf = "mamba.in_proj", .gguf = "ssm_in"},
    {.hf = "mamba.conv1d", .gguf = "ssm_conv1d", .filter = true},
    {.hf = "mamba.dt_bias", .gguf = "ssm_dt.bias", .whole = true},
    {.hf = "mamba.A_log", .gguf = "ssm_a", .whole = true, .column = true, .minus_exp = true},
    {.hf = "mamba.D", .gguf = "ssm_d", .whole = true, .column = true},
    {.hf = "mamba.norm", .gguf = "ssm_norm", .grouped = true},
    {.hf = "mamba.out_proj", .gguf = "ssm_out"},
    {0}};

const struct pith_arch pith_arch_granitemoehybrid = {
    .name = "GraniteMoeHybridForCausalLM",
    .model_type = "granitemoehybrid",
    .summary = "Granite 4: Mamba 2, some layers of attention, with and without experts",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = PITH_FAMILY_NAMES,
    .gguf = {.name = "granitehybrid",
             .turned = true,
             .factors = true,
             .either = true,
             .experts = "num_local_experts",
             .expert_width = "intermediate_size",
             .shared_width = "shared_intermediate_size",
             .renormalised = true,
             .all_sparse = true,
             .apart = true,
             .more = mamba,
             .without_keys = "linear_attention",
             .rope_told = true,
             .features = 1u << PITH_GGUF_HAS_SCORE_SCALE | 1u << PITH_GGUF_HAS_EMBED_SCALE |
                         1u << PITH_GGUF_HAS_BRANCH_SCALE | 1u << PITH_GGUF_HAS_LOGIT_SCALE |
                         1u << PITH_GGUF_HAS_UNROTATED | 1u << PITH_GGUF_HAS_DELTA |
                         1u << PITH_GGUF_HAS_SCAN | 1u << PITH_GGUF_HAS_CONV_BIAS |
                         1u << PITH_GGUF_HAS_SHARED},
};
