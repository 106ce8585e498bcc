/* Command R: one LayerNorm a layer, after which attention and feed-forward go side by side. In its
 * second form (R7B, A) layers with a window rotate, and the others do not. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

static enum pith_status read_both(const struct pith_config *c, struct pith_shape *shape,
                                  struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {
        .max_position = 8192, .tied = true, .eps = "layer_norm_eps", .eps_absent = 1e-5};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    shape->ends.logit_scale = 0.0625;
    PITH_TRY(pith_read_scale(c, "logit_scale", &shape->ends.logit_scale, err));
    return pith_read_attention_bias(c, false, shape, err);
}

static enum pith_status read_first(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    bool normed = false;
    PITH_TRY(read_both(c, shape, err));
    PITH_TRY(pith_config_bool(c, "use_qk_norm", &normed, err));
    pith_shape_set_own(shape, &normed, sizeof normed);
    return PITH_OK;
}

static enum pith_status read_second(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    PITH_TRY(read_both(c, shape, err));
    PITH_TRY(pith_read_pattern(c, 4096, 4, shape, err));
    pith_layer_put_rest(&shape->place.unrotated, &shape->windows.layers, shape->layers);
    return PITH_OK;
}

static void layer(struct pith_plan_maker *m)
{
    bool normed;
    const struct pith_norm norm = pith_build_norm(m, "input_layernorm");
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = pith_mlp_of(m);
    attention.rope_adjacent = true;
    pith_shape_own(m->shape, &normed, sizeof normed);
    if (normed) pith_build_head_norms(m, &attention, PITH_HEADS_CENTRED);
    pith_build_parallel(m, norm, &attention, &mlp);
}

static const struct pith_gguf_name_row parts[] = {PITH_GGUF_NORM("input_layernorm", "attn_norm"),
                                                  PITH_GGUF_ATTENTION,
                                                  PITH_GGUF_QK_NORM,
                                                  PITH_GGUF_MLP,
                                                  {0}};

const struct pith_arch pith_arch_cohere = {
    .name = "CohereForCausalLM",
    .model_type = "cohere",
    .summary = "Command R",
    .read = read_first,
    .layer = layer,
    .norm = {.centred = true},
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "command-r",
             .parts = parts,
             .eps = "layer_norm_eps",
             .features = 1u << PITH_GGUF_HAS_LOGIT_SCALE},
};

const struct pith_arch pith_arch_cohere2 = {
    .name = "Cohere2ForCausalLM",
    .model_type = "cohere2",
    .summary = "Command R7B, Command A",
    .read = read_second,
    .layer = layer,
    .norm = {.centred = true},
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "cohere2",
             .parts = parts,
             .eps = "layer_norm_eps",
             .every = 4,
             .unrotated = 4,
             .features = 1u << PITH_GGUF_HAS_LOGIT_SCALE | 1u << PITH_GGUF_HAS_UNROTATED},
};
