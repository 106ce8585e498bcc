/* Gemma 4: Gemma 3's four norms with plain gains, norms on values too; layers without the window
 * with other heads, whose values may be their keys; a factor a layer; experts in parallel with the
 * feed-forward part, each with separate norms. In the small ones the last layers share keys and
 * values, and every layer has vectors of its tokens. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"

#include <math.h>
#include <string.h>

static enum pith_status refuse(const struct pith_config *c, struct pith_error *err)
{
    const json_t *both_ways = pith_config_get(c, "use_bidirectional_attention");
    const char *of = json_string_value(both_ways);
    const bool pictures = of && strcmp(of, "vision") == 0; /* which are not read */
    if (!both_ways || json_is_null(both_ways) || json_is_false(both_ways) || pictures)
        return PITH_OK;
    return pith_fail(err, PITH_UNSUPPORTED,
                     "%s: \"use_bidirectional_attention\" is not supported for Gemma 4", c->where);
}

/* What Gemma 4 alone has. */
struct gemma4 {
    /* Heads of layers without the window, whose values may be their keys before their norm. */
    uint32_t full_head_dim, full_kv_heads;
    bool v_is_k;
    /* The last so many layers attend to the keys and values of the last layer before them with a
     * window like theirs; the width of their feed-forward part, where that is another (else 0). */
    uint32_t kv_shared, kv_shared_ffn;
};
PITH_SHAPE_OWN_FITS(struct gemma4);

static struct gemma4 own_of(const struct pith_shape *s)
{
    struct gemma4 own;
    pith_shape_own(s, &own, sizeof own);
    return own;
}

/* Of the layers without the window: by separate keys, or the layer's. */
static enum pith_status read_full_heads(const struct pith_config *c, struct pith_shape *s,
                                        struct gemma4 *own, struct pith_error *err)
{
    const json_t *layers = pith_config_get(c, "per_layer_config"), *keys;
    const char *layer;
    PITH_TRY(pith_config_bool(c, "attention_k_eq_v", &own->v_is_k, err));
    own->full_head_dim = layers ? s->head_dim : 512;
    own->full_kv_heads = s->kv_heads;
    json_object_foreach ((json_t *)(uintptr_t)layers, layer, keys) {
        const struct pith_config part = pith_config_part(c, keys, PITH_CONFIG_MODEL);
        PITH_TRY(pith_read_size(&part, "head_dim", PITH_MAX_HEAD_DIM, own->full_head_dim,
                                &own->full_head_dim, err));
        PITH_TRY(pith_read_size(&part, "num_key_value_heads", PITH_MAX_HEADS, own->full_kv_heads,
                                &own->full_kv_heads, err));
    }
    PITH_TRY(pith_read_size(c, "global_head_dim", PITH_MAX_HEAD_DIM, own->full_head_dim,
                            &own->full_head_dim, err));
    if (own->v_is_k)
        PITH_TRY(pith_read_size(c, "num_global_key_value_heads", PITH_MAX_HEADS, own->full_kv_heads,
                                &own->full_kv_heads, err));
    if (own->full_head_dim % 2 != 0 || s->heads % own->full_kv_heads != 0 ||
        (uint64_t)s->heads * own->full_head_dim > PITH_MAX_WIDTH)
        return pith_fail(err, PITH_FORMAT,
                         "%s: %u heads, %u of keys, of %u in layers of full "
                         "attention",
                         c->where, s->heads, own->full_kv_heads, own->full_head_dim);
    s->place.rotary_window = s->place.rotary;
    s->place.rotary = own->full_head_dim;
    return PITH_OK;
}

/* Experts run in parallel with the feed-forward part of every layer. */
static enum pith_status read_experts(const struct pith_config *c, struct pith_shape *shape,
                                     struct pith_error *err)
{
    static const struct pith_mixture_keys keys = {
        .count = {"num_experts"}, .taken = {"top_k_experts"}, .width = "moe_intermediate_size"};
    static const struct pith_moe absent = {.router = PITH_ROUTER_SOFTMAX, .renormalised = true};
    bool experts = false;
    PITH_TRY(pith_config_bool(c, "enable_moe_block", &experts, err));
    if (!experts) return PITH_OK;
    PITH_TRY(pith_read_mixture(c, &keys, &absent, shape, err));
    pith_layer_put_all(&shape->moe.layers, shape->layers);
    return PITH_OK;
}

/* The layer whose keys and values one attends to: the last before those that share with a window
 * like its own. */
static uint32_t kv_source(const struct pith_shape *s, const struct gemma4 *g, uint32_t layer)
{
    const uint32_t own = s->layers - g->kv_shared;
    const bool window = pith_layer_in(&s->windows.layers, layer);
    uint32_t from = own;
    if (layer < own) return layer;
    while (from > 0 && pith_layer_in(&s->windows.layers, from - 1) != window) from--;
    return from > 0 ? from - 1 : layer;
}

/* Whether others read a layer's keys and values. */
static bool is_kv_source(const struct pith_shape *s, const struct gemma4 *g, uint32_t layer)
{
    for (uint32_t i = s->layers - g->kv_shared; i < s->layers; i++)
        if (i != layer && kv_source(s, g, i) == layer) return true;
    return false;
}

static enum pith_status read_shared(const struct pith_config *c, const struct pith_shape *shape,
                                    struct gemma4 *own, struct pith_error *err)
{
    int64_t shared = 0;
    bool wide = false;
    PITH_TRY(pith_config_int(c, "num_kv_shared_layers", 0, shape->layers, &shared, err));
    PITH_TRY(pith_config_bool(c, "use_double_wide_mlp", &wide, err));
    own->kv_shared = (uint32_t)shared;
    own->kv_shared_ffn = wide ? 2 * shape->ffn : 0;
    if (own->kv_shared_ffn > PITH_MAX_WIDTH)
        return pith_fail(err, PITH_FORMAT, "%s: \"intermediate_size\" %u twice", c->where,
                         shape->ffn);
    for (uint32_t i = shape->layers - own->kv_shared; i < shape->layers; i++)
        if (kv_source(shape, own, i) == i)
            return pith_fail(err, PITH_FORMAT,
                             "%s: \"num_kv_shared_layers\" %u leaves no layer whose keys and"
                             " values layer %u could share",
                             c->where, own->kv_shared, i);
    return PITH_OK;
}

static enum pith_status read_token_table(const struct pith_config *c, struct pith_shape *shape,
                                         struct pith_error *err)
{
    int64_t width = 256, vocab = 262144;
    PITH_TRY(pith_config_int(c, "hidden_size_per_layer_input", 0, PITH_MAX_WIDTH, &width, err));
    PITH_TRY(pith_config_int(c, "vocab_size_per_layer_input", 1, PITH_MAX_VOCAB, &vocab, err));
    if (width == 0) return PITH_OK;
    if ((uint64_t)width * shape->layers > PITH_MAX_WIDTH || (uint64_t)vocab < shape->vocab)
        return pith_fail(err, PITH_UNSUPPORTED,
                         "%s: %u layers read %lld numbers each, of %lld tokens of %u", c->where,
                         shape->layers, (long long)width, (long long)vocab, shape->vocab);
    shape->tokens.width = (uint32_t)width;
    shape->tokens.vocab = (uint32_t)vocab;
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {.key = {.act = "hidden_activation"},
                                                       .heads = 8,
                                                       .vocab = 262144,
                                                       .kv_heads = 4,
                                                       .head_dim = 256,
                                                       .max_position = 131072,
                                                       .tied = true,
                                                       .act = PITH_ACT_GELU_TANH,
                                                       .rope_kinds = true};
    struct gemma4 own = {0};
    PITH_TRY(refuse(c, err));
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    if (!shape->place.by_kind)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: no \"rope_parameters\" by kind of layer",
                         c->where);
    PITH_TRY(pith_read_cap(c, "final_logit_softcapping", &shape->ends.logit_cap, err));
    PITH_TRY(pith_read_attention_bias(c, false, shape, err));
    shape->scores.scale = 1;
    shape->ends.embed_scale = sqrt((double)shape->hidden);
    PITH_TRY(pith_read_pattern(c, 512, 6, shape, err));
    shape->windows.layers.word[(shape->layers - 1) / 32] &=
        ~(1u << (shape->layers - 1) % 32); /* never */
    PITH_TRY(read_shared(c, shape, &own, err));
    PITH_TRY(read_token_table(c, shape, err));
    PITH_TRY(read_experts(c, shape, err));
    PITH_TRY(read_full_heads(c, shape, &own, err));
    pith_shape_set_own(shape, &own, sizeof own);
    return PITH_OK;
}

/* --- the layer -------------------------------------------------------------------------------- */

static struct pith_attention_spec attention_of(const struct pith_plan_maker *m)
{
    const struct pith_shape *s = m->shape;
    const struct gemma4 own = own_of(s);
    const bool window = pith_layer_in(&s->windows.layers, m->layer);
    struct pith_attention_spec a = pith_attention_of(m);
    if (window) {
        a.rotary = pith_shape_rotary(s, 1);
    } else {
        a.dim = own.full_head_dim;
        a.kv_heads = own.full_kv_heads;
        a.v_is_k = own.v_is_k;
    }
    a.v_norm = (struct pith_head_norm){PITH_HEADS_EACH, PITH_NO_PART};
    a.of = kv_source(s, &own, m->layer);
    a.shared = a.of != m->layer;
    a.leaves = is_kv_source(s, &own, m->layer);
    a.shared_k = window ? SHARED_WINDOW_K : SHARED_K;
    a.shared_v = window ? SHARED_WINDOW_V : SHARED_V;
    return a;
}

static struct pith_mlp_spec mlp_of(const struct pith_plan_maker *m)
{
    const struct pith_shape *s = m->shape;
    const struct gemma4 own = own_of(s);
    struct pith_mlp_spec p = pith_mlp_of(m);
    if (m->layer >= s->layers - own.kv_shared && own.kv_shared_ffn) p.ffn = own.kv_shared_ffn;
    return p;
}

/* The router reads a norm of the stream whose gain is divided by the root of its width. */
static void route(struct pith_plan_maker *m, struct pith_norm norm)
{
    const struct pith_branch router = {.in = NORMED, .out = OUT};
    pith_build_normed(m, norm, X, NORMED);
    (void)pith_build_router(m, &router, "router.proj");
}

/* Router, experts and a feed-forward part for all tokens, each with separate norms. Experts first:
 * what comes before them is repeated for the tokens of each when it is calibrated. */
static void experts_and_dense(struct pith_plan_maker *m, struct pith_norm before_dense,
                              const struct pith_mlp_spec *dense)
{
    static const struct pith_experts_spec experts = {.gate = "experts.%u.gate_proj",
                                                     .up = "experts.%u.up_proj",
                                                     .down = "experts.%u.down_proj",
                                                     .fused_gate_up = "experts.gate_up_proj",
                                                     .fused_down = "experts.down_proj",
                                                     .fused_only = true,
                                                     .gains = "router.per_expert_scale",
                                                     .normed_after = true};
    const uint32_t hidden = m->shape->hidden;
    const struct pith_norm router = {true, pith_plan_vector(m, "router.scale", hidden),
                                     PITH_NO_PART};
    if (!m->failed) m->plan->vector[router.gain].times = (float)pow(hidden, -0.5);
    const struct pith_norm before = pith_build_norm(m, "pre_feedforward_layernorm_2");
    const struct pith_norm after = pith_build_norm_after(m, "post_feedforward_layernorm_2");
    const struct pith_norm dense_after = pith_build_norm_after(m, "post_feedforward_layernorm_1");
    route(m, router);
    struct pith_branch branch = pith_build_branch(m, before, BRANCH);
    branch.fold = (struct pith_fold){0};
    pith_build_experts_sum(m, &branch, &experts);
    pith_build_normed(m, after, BRANCH, BRANCH);
    const struct pith_branch other = pith_build_branch(m, before_dense, OUT);
    pith_build_feed_forward(m, &other, dense, NULL);
    pith_build_normed(m, dense_after, OUT, OUT);
    pith_build_mix(m, PITH_NO_PART);
}

/* A third branch: a gate of the stream times what the model's tables have for the token and layer.
 */
static void add_token_vectors(struct pith_plan_maker *m)
{
    const struct pith_shape *s = m->shape;
    struct pith_node n = {.kind = PITH_NODE_PER_LAYER, .in = TOKEN, .out = UP};
    const struct pith_norm after = pith_build_norm_after(m, "post_per_layer_input_norm");
    pith_plan_carry(m, TOKEN, 1);
    (void)pith_plan_site(m, "per_layer_gate", s->hidden, (struct pith_fold){0});
    const uint32_t gate = pith_build_linear(m, "per_layer_input_gate", s->tokens.width, false,
                                            (const unsigned[3]){X, GATE, OUT});
    n.u.per_layer.work = NORMED;
    n.u.per_layer.dim = s->tokens.width;
    pith_plan_reg(m, NORMED, s->hidden);
    pith_plan_reg(m, UP, s->tokens.width);
    pith_plan_node(m, n);
    pith_build_activate(m, GATE, false, s->tokens.width);
    (void)pith_plan_site(m, "per_layer", s->tokens.width, (struct pith_fold){0});
    const uint32_t project = pith_build_linear(m, "per_layer_projection", s->hidden, false,
                                               (const unsigned[3]){GATE, OUT, GATE});
    if (!m->failed) m->plan->linear[gate].whole = m->plan->linear[project].whole = true;
    pith_build_add_normed(m, OUT, after);
}

/* The stream as the layer leaves it, times one number. */
static void scale(struct pith_plan_maker *m, const char *tensor)
{
    struct pith_node n = {.kind = PITH_NODE_SCALE, .in = X, .out = X};
    n.u.scale.vector = pith_plan_vector(m, tensor, 1);
    pith_plan_node(m, n);
}

static void layer(struct pith_plan_maker *m)
{
    const struct pith_norms before = pith_build_norms_before(m), after = pith_build_norms_after(m);
    struct pith_attention_spec attention = attention_of(m);
    const struct pith_mlp_spec mlp = mlp_of(m);
    pith_build_head_norms(m, &attention, PITH_HEADS_EACH);
    const struct pith_branch first = pith_build_branch(m, before.attention, OUT);
    pith_build_attention(m, &first, &attention);
    pith_build_add_normed(m, OUT, after.attention);
    if (pith_layer_is_sparse(m)) {
        experts_and_dense(m, before.mlp, &mlp);
    } else {
        const struct pith_branch second = pith_build_branch(m, before.mlp, OUT);
        pith_build_feed_forward(m, &second, &mlp, NULL);
    }
    pith_build_add_normed(m, OUT, after.mlp);
    if (m->shape->tokens.width) add_token_vectors(m);
    scale(m, "layer_scalar");
}

static const struct pith_own_field own_fields[] = {
    {"elements of a head in layers of full attention", offsetof(struct gemma4, full_head_dim),
     false},
    {"heads of keys in layers of full attention", offsetof(struct gemma4, full_kv_heads), false},
    {"layers that share keys and values", offsetof(struct gemma4, kv_shared), false},
    {"their feed-forward part's width", offsetof(struct gemma4, kv_shared_ffn), false},
    {0}};

#define GEMMA4_PER_LAYER(prefix)                                                                   \
    .per_layer_embed = prefix "embed_tokens_per_layer",                                            \
    .per_layer_project = prefix "per_layer_model_projection",                                      \
    .per_layer_norm = prefix "per_layer_projection_norm"

const struct pith_arch pith_arch_gemma4 = {
    .name = "Gemma4ForCausalLM",
    .model_type = "gemma4_text",
    .summary = "Gemma 4, text",
    .read = read_shape,
    .layer = layer,
    .own = own_fields,
    .names = {PITH_NAMES_IN("model."), .head = "lm_head", GEMMA4_PER_LAYER("model.")},
};

const struct pith_arch pith_arch_gemma4_vl = {
    .name = "Gemma4ForConditionalGeneration",
    .model_type = "gemma4",
    .summary = "Gemma 4 that sees: its language model",
    .read = read_shape,
    .layer = layer,
    .own = own_fields,
    .wraps = true,
    .wraps_tied = true,
    .names = {PITH_NAMES_IN("model.language_model."), .head = "lm_head",
              GEMMA4_PER_LAYER("model.language_model."),
              .other = {"model.vision_tower.", "model.embed_vision.", "model.audio_tower.",
                        "model.embed_audio."}},
};
