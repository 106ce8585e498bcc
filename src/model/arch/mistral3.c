/* Ministral 3: Mistral whose queries grow with their position; and the models that see around it
 * and around Mistral. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"

#include <math.h>
#include <string.h>

static enum pith_status read_ministral(const struct pith_config *c, struct pith_shape *shape,
                                       struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {
        .kv_heads = 8, .head_dim = 128, .max_position = 262144, .theta = 1e6, .eps_absent = 1e-5};
    const struct pith_config rope =
        pith_config_part(c, pith_config_get(c, "rope_parameters"), PITH_CONFIG_ROPE);
    struct pith_growth growth = {0};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_all_windows(c, 0, shape, err));
    PITH_TRY(pith_config_real(&rope, "llama_4_scaling_beta", &growth.beta, err));
    if (!(growth.beta >= 0 && growth.beta < 1e6))
        return pith_fail(err, PITH_FORMAT, "%s: \"llama_4_scaling_beta\" is %g, outside 0..1e6",
                         c->where, growth.beta);
    if (growth.beta > 0) growth.every = (double)shape->place.rope.original_max;
    pith_shape_set_own(shape, &growth, sizeof growth);
    return PITH_OK;
}

static enum pith_status read_wrapped(const struct pith_config *c, struct pith_shape *shape,
                                     struct pith_error *err)
{
    const char *type = "mistral";
    PITH_TRY(pith_config_str(c, "model_type", &type, err));
    if (strcmp(type, "ministral3") == 0) return read_ministral(c, shape, err);
    if (strcmp(type, "mistral") == 0) return pith_arch_mistral.read(c, shape, err);
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: the language model \"%.60s\" in a Mistral 3 is not supported (mistral, "
                     "ministral3)",
                     c->where, type);
}

/* Llama's, whose queries may grow: Mistral's do not. */
static void layer(struct pith_plan_maker *m)
{
    const struct pith_norms norms = pith_build_norms(m);
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = pith_mlp_of(m);
    pith_shape_own(m->shape, &attention.growth, sizeof attention.growth);
    pith_build_sequential(m, &norms, &attention, &mlp, NULL);
}

static const struct pith_own_field own_fields[] = {
    {"the growth of queries with their position", offsetof(struct pith_growth, beta), true}, {0}};

const struct pith_arch pith_arch_ministral3 = {
    .name = "Ministral3ForCausalLM",
    .model_type = "ministral3",
    .summary = "Ministral 3: queries grow with their position",
    .read = read_ministral,
    .layer = layer,
    .own = own_fields,
    .names = PITH_NAMES_LLAMA,
};

const struct pith_arch pith_arch_mistral3_vl = {
    .name = "Mistral3ForConditionalGeneration",
    .model_type = "mistral3",
    .summary = "Mistral Small 3.1 and later, Ministral 3 that see: their language models",
    .read = read_wrapped,
    .layer = layer,
    .own = own_fields,
    .wraps = true,
    .wraps_tied = true,
    .names = {PITH_NAMES_IN("language_model.model."), .head = "language_model.lm_head",
              .other = {"vision_tower.", "multi_modal_projector."}},
};
