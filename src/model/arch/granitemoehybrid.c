/* Granite 4: Granite's factors; layers of Mamba 2, some of attention; what all tokens share, with
 * experts or alone. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

#include <string.h>

/* Attention, the rest is Mamba's; older files have other words. */
static enum pith_status read_layers(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    const json_t *types = pith_config_get(c, "layer_types");
    const char *first = json_string_value(json_array_get(types, 0)), *position = "nope";
    const bool old = first && (strcmp(first, "mamba") == 0 || strcmp(first, "attention") == 0);
    const bool given = pith_config_has(c, "layer_types");
    PITH_TRY(pith_read_layer_types(c, shape, old ? "mamba" : "linear_attention",
                                   old ? "attention" : "full_attention", &shape->recurrent.layers,
                                   err));
    PITH_TRY(pith_config_str(c, "position_embedding_type", &position, err));
    for (uint32_t i = 0; i < shape->layers; i++) {
        if (!given) pith_layer_put(&shape->recurrent.layers, i);
        if (strcmp(position, "rope") != 0) pith_layer_put(&shape->place.unrotated, i);
    }
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_moe absent = {.experts = 8, .taken = 8, .router = PITH_ROUTER_TOP};
    uint32_t shared;
    int64_t experts = absent.experts;
    PITH_TRY(pith_read_granite(c, shape, err));
    PITH_TRY(pith_read_size(c, "shared_intermediate_size", PITH_MAX_WIDTH, 1024, &shared, err));
    PITH_TRY(pith_config_int(c, "num_local_experts", 0, PITH_MAX_EXPERTS, &experts, err));
    shape->biases.mlp = false;
    if (experts > 0) {
        PITH_TRY(pith_read_mixture(c, &pith_mixture_keys_local, &absent, shape, err));
        shape->moe.shared_ffn = shared;
        pith_layer_put_all(&shape->moe.layers, shape->layers);
    } else {
        shape->ffn = shared;
    }
    PITH_TRY(read_layers(c, shape, err));
    return pith_read_mamba(c, shape, err);
}

static void layer(struct pith_plan_maker *m)
{
    static const struct pith_experts_spec experts = {PITH_NAMES_GRANITE_EXPERTS,
                                                     .shared_gate_up = "shared_mlp.input_linear",
                                                     .shared_down = "shared_mlp.output_linear"};
    const struct pith_norms norms = pith_build_norms(m);
    const struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = {.gate_up = "shared_mlp.input_linear",
                                      .down = "shared_mlp.output_linear",
                                      .ffn = m->shape->ffn};
    const struct pith_branch first = pith_build_branch(m, norms.attention, OUT);
    if (pith_layer_in(&m->shape->recurrent.layers, m->layer)) pith_build_scan(m, &first);
    else pith_build_attention(m, &first, &attention);
    pith_build_rest(m, norms.mlp, &mlp, &experts);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORMS,
    PITH_GGUF_ATTENTION,
    {.hf = "shared_mlp.input_linear",
     .gguf = "ffn_gate_shexp",
     .mixture = true,
     .place = {.order = PITH_GGUF_HALVES, .rest = "ffn_up_shexp"}},
    PITH_GGUF_SHARED_PART("shared_mlp.output_linear", "ffn_down_shexp"),
    {.hf = "shared_mlp.input_linear",
     .gguf = "ffn_gate",
     .place = {.order = PITH_GGUF_HALVES, .rest = "ffn_up"}},
    PITH_GGUF_PART("shared_mlp.output_linear", "ffn_down"),
    PITH_GGUF_EXPERTS_MIXTRAL("block_sparse_moe.router.layer"),
    PITH_GGUF_PART("mamba.in_proj", "ssm_in"),
    {.hf = "mamba.conv1d", .gguf = "ssm_conv1d", .place = {.filter = true, .exact = true}},
    {.hf = "mamba.dt_bias", .gguf = "ssm_dt.bias", .whole = true},
    {.hf = "mamba.A_log",
     .gguf = "ssm_a",
     .whole = true,
     .place = {.column = true, .as = PITH_AS_MINUS_EXP}},
    {.hf = "mamba.D", .gguf = "ssm_d", .whole = true, .place = {.column = true}},
    {.hf = "mamba.norm", .gguf = "ssm_norm", .place = {.grouped = true}},
    PITH_GGUF_PART("mamba.out_proj", "ssm_out"),
    {0}};

const struct pith_arch pith_arch_granitemoehybrid = {
    .name = "GraniteMoeHybridForCausalLM",
    .model_type = "granitemoehybrid",
    .summary = "Granite 4: Mamba 2, some layers of attention, with and without experts",
    .read = read_shape,
    .layer = layer,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "granitehybrid",
             .parts = parts,
             .permuted = true,
             .factors = true,
             .either = true,
             .experts = "num_local_experts",
             .expert_width = "intermediate_size",
             .shared_width = "shared_intermediate_size",
             .renormalised = true,
             .all_sparse = true,
             .without_keys = "linear_attention",
             .rope_stated = true,
             .features = 1u << PITH_GGUF_HAS_SCORE_SCALE | 1u << PITH_GGUF_HAS_EMBED_SCALE |
                         1u << PITH_GGUF_HAS_BRANCH_SCALE | 1u << PITH_GGUF_HAS_LOGIT_SCALE |
                         1u << PITH_GGUF_HAS_UNROTATED | 1u << PITH_GGUF_HAS_DELTA |
                         1u << PITH_GGUF_HAS_SCAN | 1u << PITH_GGUF_HAS_CONV_BIAS |
                         1u << PITH_GGUF_HAS_SHARED},
};
