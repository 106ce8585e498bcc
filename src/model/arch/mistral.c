/* Mistral: Llama with a sliding window in all layers. */
#include "model/arch/family.h"

static enum pith_status read_shape(const json_t *config, const char *where,
                                   struct pith_shape *shape, struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {.kv_heads = 8, .max_position = 4096 * 32};
    bool given;
    uint32_t from;
    PITH_TRY(pith_family_read(config, where, &defaults, shape, err));
    PITH_TRY(pith_family_read_window(config, where, 4096, &shape->window, err));
    PITH_TRY(pith_family_read_layer_types(config, where, shape, &given, &from, err));
    /* Engines disagree on layer types here: only what means the same to all is taken. */
    if (given && from != (shape->window ? 0 : shape->layers))
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: \"layer_types\" that differ from what \"sliding_window\" says are "
                         "not supported",
                         where);
    return PITH_OK;
}

const struct pith_arch pith_arch_mistral = {
    .name = "MistralForCausalLM",
    .model_type = "mistral",
    .summary = "Mistral 7B, Nemo and others: a sliding window in all layers",
    .read = read_shape,
    .plan = pith_family_plan,
    .names = PITH_FAMILY_NAMES,
};
