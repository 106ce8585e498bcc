/* LFM2: layers of a short convolution between two gates, some of attention; a dense feed-forward or
 * experts. */
#include "model/build/build.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

#include <math.h>

/* --- the convolution's layers ----------------------------------------------------------------- */

/* in_proj gives B, C and x, concatenated: C * conv(B * x). */
static void convolution(struct pith_plan_maker *m, const struct pith_branch *b)
{
    const struct pith_shape *s = m->shape;
    const struct pith_convolution_spec conv = {
        .name = "conv.conv", .reg = Q, .dim = s->hidden, .last = true};
    const uint32_t site = pith_plan_site(m, "in", s->hidden, b->fold);
    (void)pith_build_linear(m, "conv.in_proj", 3 * s->hidden, s->recurrent.conv_bias,
                            (const unsigned[3]){b->in, FUSED, OUT});
    pith_build_split(m, 3, (const uint32_t[]){s->hidden, s->hidden, s->hidden},
                     (const uint8_t[]){Q, K, V});
    pith_build_times(m, Q, V, s->hidden, PITH_ACT_NONE);
    (void)pith_build_convolution(m, &conv);
    pith_build_times(m, Q, K, s->hidden, PITH_ACT_NONE);
    (void)pith_plan_site(m, "out", s->hidden, (struct pith_fold){0});
    pith_build_out(m, "conv.out_proj", s->recurrent.conv_bias, 0,
                   (const unsigned[3]){Q, b->out, Q});
    pith_plan_module(m, site, b->out);
}

/* --- config.json ------------------------------------------------------------------------------ */

/* "layer_types"; older files list the layers of attention. */
static enum pith_status read_layers(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    const json_t *full = pith_config_get(c, "full_attn_idxs"), *item;
    const bool given = pith_config_has(c, "layer_types");
    size_t i;
    PITH_TRY(
        pith_read_layer_types(c, shape, "conv", "full_attention", &shape->recurrent.layers, err));
    PITH_TRY(pith_read_size(c, "conv_L_cache", PITH_CONV_TAPS, 3, &shape->recurrent.taps, err));
    PITH_TRY(pith_config_bool(c, "conv_bias", &shape->recurrent.conv_bias, err));
    if (given) return PITH_OK;
    if (full && !json_is_null(full) && !json_is_array(full))
        return pith_fail(err, PITH_FORMAT, "%s: \"full_attn_idxs\" is not a list", c->where);
    struct pith_layer_set attention = {0};
    json_array_foreach (full, i, item) {
        const json_int_t layer = json_is_integer(item) ? json_integer_value(item) : -1;
        if (layer < 0 || layer >= (json_int_t)shape->layers)
            return pith_fail(err, PITH_FORMAT, "%s: \"full_attn_idxs\"[%zu] is no layer", c->where,
                             i);
        pith_layer_put(&attention, (uint32_t)layer);
    }
    if (json_is_array(full))
        pith_layer_put_rest(&shape->recurrent.layers, &attention, shape->layers);
    return PITH_OK;
}

static enum pith_status read_common(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {
        .key = {.ffn = "block_ff_dim", .tied = "tie_embedding"},
        .kv_heads = 8,
        .max_position = 128000,
        .tied = true,
        .eps = "norm_eps",
        .eps_absent = 1e-5,
        .theta = 1e6};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    return read_layers(c, shape, err);
}

/* The width in the config is that of a feed-forward without a gate, unless the config says that it
 * is exact. */
static enum pith_status read_dense(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    bool adjust = true;
    uint32_t multiple = 256;
    double factor = 1;
    PITH_TRY(read_common(c, shape, err));
    PITH_TRY(pith_config_bool(c, "block_auto_adjust_ff_dim", &adjust, err));
    PITH_TRY(pith_read_size(c, "block_multiple_of", PITH_MAX_WIDTH, multiple, &multiple, err));
    PITH_TRY(pith_read_scale(c, "block_ffn_dim_multiplier", &factor, err));
    if (!adjust) return PITH_OK;
    const double width = floor(factor * floor(2.0 * shape->ffn / 3));
    const double whole = ceil(width / multiple) * multiple;
    if (!(whole >= 1 && whole <= PITH_MAX_WIDTH))
        return pith_fail(err, PITH_FORMAT, "%s: a feed-forward of width %g", c->where, whole);
    shape->ffn = (uint32_t)whole;
    return PITH_OK;
}

static enum pith_status read_moe(const struct pith_config *c, struct pith_shape *shape,
                                 struct pith_error *err)
{
    static const struct pith_mixture_keys keys = {.count = {"num_experts"},
                                                  .taken = {"num_experts_per_tok"},
                                                  .width = "moe_intermediate_size",
                                                  .renormalised = true,
                                                  .scale = true};
    static const struct pith_moe absent = {.experts = 32,
                                           .taken = 4,
                                           .ffn = 1792,
                                           .router = PITH_ROUTER_SIGMOID,
                                           .renormalised = true,
                                           .plus = 1e-6};
    bool correction = true;
    PITH_TRY(read_common(c, shape, err));
    PITH_TRY(pith_read_mixture(c, &keys, &absent, shape, err));
    PITH_TRY(pith_config_bool(c, "use_expert_bias", &correction, err));
    shape->moe.correction = correction;
    return pith_read_dense_first(c, "num_dense_layers", 2, shape, err);
}

/* --- rows ------------------------------------------------------------------------------------- */

static void norm_heads(struct pith_plan_maker *m, struct pith_attention_spec *a)
{
    a->q_norm = pith_build_head_norm(m, "self_attn.q_layernorm", PITH_HEADS_EACH, a->heads, a->dim);
    a->k_norm =
        pith_build_head_norm(m, "self_attn.k_layernorm", PITH_HEADS_EACH, a->kv_heads, a->dim);
}

static void layer(struct pith_plan_maker *m)
{
    const bool convolves = pith_layer_in(&m->shape->recurrent.layers, m->layer);
    struct pith_norms norms = {.attention = pith_build_norm(m, "operator_norm")};
    norms.mlp = pith_build_norm(m, "ffn_norm");
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = {.gate = "feed_forward.w1",
                                      .up = "feed_forward.w3",
                                      .down = "feed_forward.w2",
                                      .ffn = m->shape->ffn};
    struct pith_experts_spec experts = {.router = "feed_forward.gate",
                                        .gate = "feed_forward.experts.%u.w1",
                                        .up = "feed_forward.experts.%u.w3",
                                        .down = "feed_forward.experts.%u.w2"};
    attention.o = "self_attn.out_proj";
    if (!convolves) norm_heads(m, &attention);
    pith_build_correction(m, &experts, "feed_forward.expert_bias", false);
    const struct pith_branch first = pith_build_branch(m, norms.attention, OUT);
    if (convolves) convolution(m, &first);
    else pith_build_attention(m, &first, &attention);
    pith_build_rest(m, norms.mlp, &mlp, &experts);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORM("operator_norm", "attn_norm"),
    PITH_GGUF_NORM("ffn_norm", "ffn_norm"),
    PITH_GGUF_ATTENTION_TO("self_attn.out_proj"),
    PITH_GGUF_NORM("self_attn.q_layernorm", "attn_q_norm"),
    PITH_GGUF_NORM("self_attn.k_layernorm", "attn_k_norm"),
    PITH_GGUF_PART("feed_forward.w1", "ffn_gate"),
    PITH_GGUF_PART("feed_forward.w3", "ffn_up"),
    PITH_GGUF_PART("feed_forward.w2", "ffn_down"),
    PITH_GGUF_CORRECTION("feed_forward.expert_bias"),
    PITH_GGUF_EXPERTS("feed_forward.gate", "feed_forward.experts.%u.w1",
                      "feed_forward.experts.%u.w3", "feed_forward.experts.%u.w2"),
    PITH_GGUF_PART("conv.in_proj", "shortconv.in_proj"),
    {.hf = "conv.conv", .gguf = "shortconv.conv", .place = {.filter = true, .exact = true}},
    PITH_GGUF_PART("conv.out_proj", "shortconv.out_proj"),
    {0}};

#define NAMES                                                                                      \
    {                                                                                              \
        .layers = "model.layers.", .embed = "model.embed_tokens", .norm = "model.embedding_norm",  \
        .head = "lm_head"                                                                          \
    }

const struct pith_arch pith_arch_lfm2 = {
    .name = "Lfm2ForCausalLM",
    .model_type = "lfm2",
    .summary = "LFM2: short convolutions, some layers of attention",
    .read = read_dense,
    .layer = layer,
    .names = NAMES,
    .gguf = {.name = "lfm2",
             .parts = parts,
             .dense = true,
             .eps = "norm_eps",
             .last_norm = "token_embd_norm",
             .without_keys = "conv",
             .off = "block_auto_adjust_ff_dim",
             .features = 1u << PITH_GGUF_HAS_DELTA},
};

const struct pith_arch pith_arch_lfm2_moe = {
    .name = "Lfm2MoeForCausalLM",
    .model_type = "lfm2_moe",
    .summary = "LFM2 mixtures of experts",
    .read = read_moe,
    .layer = layer,
    .names = NAMES,
    .gguf = {.name = "lfm2moe",
             .parts = parts,
             .eps = "norm_eps",
             .last_norm = "token_embd_norm",
             .without_keys = "conv",
             .off = "block_auto_adjust_ff_dim",
             .by_keys = true,
             .renormalised = true,
             .features = 1u << PITH_GGUF_HAS_DELTA | 1u << PITH_GGUF_HAS_CORRECTION},
};
