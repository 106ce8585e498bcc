/* GLM-4.7-Flash: DeepSeek V3's layers, with a list of which are mixtures. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"

#include <string.h>

static enum pith_status read_layers(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    const json_t *types = pith_config_get(c, "mlp_layer_types");
    if (!types || json_is_null(types))
        return pith_read_dense_first(c, "first_k_dense_replace", 1, shape, err);
    if (!json_is_array(types) || json_array_size(types) < shape->layers)
        return pith_fail(err, PITH_FORMAT, "%s: \"mlp_layer_types\" is not a list of %u names",
                         c->where, shape->layers);
    for (uint32_t i = 0; i < shape->layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (!type || (strcmp(type, "sparse") != 0 && strcmp(type, "dense") != 0))
            return pith_fail(err, PITH_FORMAT,
                             "%s: \"mlp_layer_types\"[%u] is neither \"dense\" nor \"sparse\"",
                             c->where, i);
        if (strcmp(type, "sparse") == 0) pith_layer_put(&shape->moe.layers, i);
    }
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {
        .head_dim = 64, .max_position = 202752, .partial = 1};
    static const struct pith_latent_shape latent = {
        .q_rank = 768, .rank = 512, .nope = 192, .rope = 64, .value = 256, .adjacent = true};
    static const struct pith_moe absent = {.experts = 64,
                                           .taken = 4,
                                           .ffn = 1536,
                                           .router = PITH_ROUTER_SIGMOID,
                                           .renormalised = true,
                                           .correction = true,
                                           .scale = 1.8,
                                           .group_best_two = true};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_latent(c, &latent, shape, err));
    PITH_TRY(pith_read_mixture(c, &pith_mixture_keys_deepseek, &absent, shape, err));
    PITH_TRY(pith_read_shared(c, "n_shared_experts", 1, shape, err));
    PITH_TRY(read_layers(c, shape, err));
    PITH_TRY(pith_config_bool(c, "rope_interleave", &shape->latent.adjacent, err));
    return pith_config_bool(c, "attention_bias", &shape->biases.o, err);
}

const struct pith_arch pith_arch_glm4_moe_lite = {
    .name = "Glm4MoeLiteForCausalLM",
    .model_type = "glm4_moe_lite",
    .summary = "GLM-4.7-Flash: latent attention",
    .read = read_shape,
    .layer = pith_build_deepseek,
    .names = {PITH_NAMES_IN("model."), .head = "lm_head", .further = true},
};
