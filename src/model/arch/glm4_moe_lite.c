/* GLM-4.7-Flash: DeepSeek V3's layers, with a list of which are mixtures. */
#include "model/arch/family.h"

#include <string.h>

static enum pith_status read_layers(const json_t *config, const char *where,
                                    struct pith_shape *shape, struct pith_error *err)
{
    const json_t *types = json_object_get(config, "mlp_layer_types");
    if (!types || json_is_null(types))
        return pith_family_read_dense_first(config, where, 1, shape, err);
    if (!json_is_array(types) || json_array_size(types) < shape->layers)
        return pith_fail(err, PITH_FORMAT, "%s: \"mlp_layer_types\" is not a list of %u names",
                         where, shape->layers);
    for (uint32_t i = 0; i < shape->layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (!type || (strcmp(type, "sparse") != 0 && strcmp(type, "dense") != 0))
            return pith_fail(err, PITH_FORMAT,
                             "%s: \"mlp_layer_types\"[%u] is neither \"dense\" nor \"sparse\"",
                             where, i);
        if (strcmp(type, "sparse") == 0) pith_layer_put(&shape->moe.layers, i);
    }
    return PITH_OK;
}

static enum pith_status read_shape(const json_t *config, const char *where,
                                   struct pith_shape *shape, struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {
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
    PITH_TRY(pith_family_read(config, where, &defaults, shape, err));
    PITH_TRY(pith_family_read_latent(config, where, &latent, shape, err));
    PITH_TRY(pith_family_read_moe(config, where, &absent, shape, err));
    PITH_TRY(pith_family_read_shared(config, where, "n_shared_experts", 1, shape, err));
    PITH_TRY(read_layers(config, where, shape, err));
    PITH_TRY(pith_json_get_bool(config, "rope_interleave", &shape->latent.adjacent, where, err));
    return pith_json_get_bool(config, "attention_bias", &shape->o_bias, where, err);
}

const struct pith_arch pith_arch_glm4_moe_lite = {
    .name = "Glm4MoeLiteForCausalLM",
    .model_type = "glm4_moe_lite",
    .summary = "GLM-4.7-Flash: latent attention",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &pith_family_deepseek,
    .names = {PITH_FAMILY_NAMES_IN("model."), .head = "lm_head", .further = true},
};
