/* OPT: LayerNorm with biases, before the parts or after the sums, learned positions, ReLU. */
#include "model/build/build.h"
#include "model/config/read.h"

/* What the smallest two models have otherwise: norms behind each addition and none before, norms
 * without gains and biases. */
struct opt {
    bool norms_last, bare;
};
PITH_SHAPE_OWN_FITS(struct opt);

static enum pith_status read_norms(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    bool before = true, affine = true, removed = false;
    uint32_t width = 0;
    PITH_TRY(pith_config_bool(c, "do_layer_norm_before", &before, err));
    PITH_TRY(pith_config_bool(c, "layer_norm_elementwise_affine", &affine, err));
    PITH_TRY(pith_config_bool(c, "_remove_final_layer_norm", &removed, err));
    PITH_TRY(pith_read_size(c, "word_embed_proj_dim", PITH_MAX_WIDTH, shape->hidden, &width, err));
    const struct opt own = {.norms_last = !before, .bare = !affine};
    pith_shape_set_own(shape, &own, sizeof own);
    if (!affine) shape->ends.last_norm = PITH_LAST_NORM_BARE;
    if (!before || removed) shape->ends.last_norm = PITH_LAST_NORM_NONE;
    if (width != shape->hidden) shape->ends.width = width;
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {
        .key = {.ffn = "ffn_dim", .act = "activation_function"},
        .plain_heads = true,
        .learned_positions = true,
        .max_position = 2048,
        .tied = true,
        .act = PITH_ACT_RELU,
        .eps_absent = 1e-5};
    bool bias = true;
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(read_norms(c, shape, err));
    PITH_TRY(pith_config_bool(c, "enable_bias", &bias, err));
    shape->biases.qkv = shape->biases.o = shape->biases.mlp = bias;
    shape->place.shift = 2;
    shape->place.learned = shape->max_position + 2;
    return PITH_OK;
}

static struct pith_norm norm_of(struct pith_plan_maker *m, const struct opt *own,
                                const char *module)
{
    return own->bare ? pith_build_norm_bare() : pith_build_norm(m, module);
}

/* x = norm(x + attention(x)), x = norm(x + mlp(x)). */
static void norms_last(struct pith_plan_maker *m, const struct pith_norms *norms,
                       const struct pith_attention_spec *attention, const struct pith_mlp_spec *mlp)
{
    const struct pith_branch stream = {.in = X, .out = OUT};
    pith_build_attention(m, &stream, attention);
    pith_build_add(m, OUT);
    pith_build_normed(m, norms->attention, X, X);
    pith_build_feed_forward(m, &stream, mlp, NULL);
    pith_build_add(m, OUT);
    pith_build_normed(m, norms->mlp, X, X);
}

static void layer(struct pith_plan_maker *m)
{
    struct opt own;
    pith_shape_own(m->shape, &own, sizeof own);
    pith_build_positions(m);
    struct pith_norms norms = {.attention = norm_of(m, &own, "self_attn_layer_norm")};
    norms.mlp = norm_of(m, &own, "final_layer_norm");
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = {
        .up = "fc1", .down = "fc2", .ffn = m->shape->ffn, .bias = m->shape->biases.mlp};
    attention.o = "self_attn.out_proj";
    if (own.norms_last) norms_last(m, &norms, &attention, &mlp);
    else pith_build_sequential(m, &norms, &attention, &mlp, NULL);
}

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
    .layer = layer,
    .norm = {.centred = true, .bias = true},
    .names = NAMES("decoder."),
};

const struct pith_arch pith_arch_opt = {
    .name = "OPTForCausalLM",
    .model_type = "opt",
    .summary = "OPT",
    .read = read_shape,
    .layer = layer,
    .norm = {.centred = true, .bias = true},
    .names = NAMES("model.decoder."),
    .renamed = &bare,
};
