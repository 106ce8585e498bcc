/* OPT: LayerNorm with biases, before the parts or after the sums, learned positions, ReLU. */
#include "model/family/family.h"

/* What the smallest two models have otherwise. */
static enum pith_status read_norms(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    bool before = true, affine = true, removed = false;
    uint32_t width = 0;
    PITH_TRY(pith_config_bool(c, "do_layer_norm_before", &before, err));
    PITH_TRY(pith_config_bool(c, "layer_norm_elementwise_affine", &affine, err));
    PITH_TRY(pith_config_bool(c, "_remove_final_layer_norm", &removed, err));
    PITH_TRY(pith_family_read_size(c, "word_embed_proj_dim", PITH_MAX_WIDTH, shape->hidden, &width,
                                   err));
    shape->norms_after = !before;
    shape->norms_bare = !affine;
    shape->no_last_norm = !before || removed;
    if (width != shape->hidden) shape->embed_dim = width;
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {
        .key = {.ffn = "ffn_dim", .act = "activation_function"},
        .plain_heads = true,
        .learned_positions = true,
        .max_position = 2048,
        .tied = true,
        .act = PITH_ACT_RELU,
        .eps_absent = 1e-5};
    bool bias = true;
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    PITH_TRY(read_norms(c, shape, err));
    PITH_TRY(pith_config_bool(c, "enable_bias", &bias, err));
    shape->qkv_bias = shape->o_bias = shape->mlp_bias = bias;
    shape->position_shift = 2;
    shape->positions = shape->max_position + 2;
    return PITH_OK;
}

static const struct pith_family family = {.before_attention = "self_attn_layer_norm",
                                          .before_mlp = "final_layer_norm",
                                          .q = "self_attn.q_proj",
                                          .k = "self_attn.k_proj",
                                          .v = "self_attn.v_proj",
                                          .o = "self_attn.out_proj",
                                          .up = "fc1",
                                          .down = "fc2",
                                          .centred = true,
                                          .norm_bias = true};

#define NAMES(prefix)                                                                              \
    {                                                                                              \
        .layers = prefix "layers.", .embed = prefix "embed_tokens",                                \
        .norm = prefix "final_layer_norm", .head = "lm_head",                                      \
        .positions = prefix "embed_positions", .project_in = prefix "project_in",                  \
        .project_out = prefix "project_out"                                                        \
    }

/* The first published files. */
static const struct pith_arch bare = {
    .name = "OPTForCausalLM",
    .model_type = "opt",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = NAMES("decoder."),
};

const struct pith_arch pith_arch_opt = {
    .name = "OPTForCausalLM",
    .model_type = "opt",
    .summary = "OPT",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = NAMES("model.decoder."),
    .renamed = &bare,
};
