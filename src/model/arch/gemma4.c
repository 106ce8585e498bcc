/* Gemma 4: Gemma 3's four norms with plain gains, norms on values too, layers without the window
 * with heads of their own whose values may be their keys, a factor a layer; experts beside the
 * feed-forward part, each with norms of its own. In the small ones the last layers share keys and
 * values, and every layer is told of its tokens. */
#include "model/family/family.h"

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

/* Of the layers without the window: by keys of their own, or the layer's. */
static enum pith_status read_full_heads(const struct pith_config *c, struct pith_shape *s,
                                        struct pith_error *err)
{
    const json_t *layers = pith_config_get(c, "per_layer_config"), *own;
    const char *layer;
    PITH_TRY(pith_config_bool(c, "attention_k_eq_v", &s->k_is_v, err));
    s->full_head_dim = layers ? s->head_dim : 512;
    s->full_kv_heads = s->kv_heads;
    json_object_foreach ((json_t *)(uintptr_t)layers, layer, own) {
        const struct pith_config part = pith_config_part(c, own, PITH_CONFIG_MODEL);
        PITH_TRY(pith_family_read_size(&part, "head_dim", PITH_MAX_HEAD_DIM, s->full_head_dim,
                                       &s->full_head_dim, err));
        PITH_TRY(pith_family_read_size(&part, "num_key_value_heads", PITH_MAX_HEADS,
                                       s->full_kv_heads, &s->full_kv_heads, err));
    }
    PITH_TRY(pith_family_read_size(c, "global_head_dim", PITH_MAX_HEAD_DIM, s->full_head_dim,
                                   &s->full_head_dim, err));
    if (s->k_is_v)
        PITH_TRY(pith_family_read_size(c, "num_global_key_value_heads", PITH_MAX_HEADS,
                                       s->full_kv_heads, &s->full_kv_heads, err));
    if (s->full_head_dim % 2 != 0 || s->heads % s->full_kv_heads != 0 ||
        (uint64_t)s->heads * s->full_head_dim > PITH_MAX_WIDTH)
        return pith_fail(err, PITH_FORMAT,
                         "%s: %u heads, %u of keys, of %u in layers of full "
                         "attention",
                         c->where, s->heads, s->full_kv_heads, s->full_head_dim);
    s->rotary_sliding = s->rotary;
    s->rotary = s->full_head_dim;
    return PITH_OK;
}

/* Experts stand beside the feed-forward part of every layer. */
static enum pith_status read_experts(const struct pith_config *c, struct pith_shape *shape,
                                     struct pith_error *err)
{
    static const struct pith_family_moe_keys keys = {
        .count = {"num_experts"}, .taken = {"top_k_experts"}, .width = "moe_intermediate_size"};
    static const struct pith_moe absent = {.router = PITH_ROUTER_SOFTMAX, .renormalised = true};
    bool experts = false;
    PITH_TRY(pith_config_bool(c, "enable_moe_block", &experts, err));
    if (!experts) return PITH_OK;
    PITH_TRY(pith_family_read_moe(c, &keys, &absent, shape, err));
    pith_layer_put_all(&shape->moe.layers, shape->layers);
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {.key = {.act = "hidden_activation"},
                                                         .heads = 8,
                                                         .vocab = 262144,
                                                         .kv_heads = 4,
                                                         .head_dim = 256,
                                                         .max_position = 131072,
                                                         .tied = true,
                                                         .act = PITH_ACT_GELU_TANH,
                                                         .rope_kinds = true};
    bool bias = false;
    PITH_TRY(refuse(c, err));
    PITH_TRY(pith_family_read(c, &defaults, shape, err));
    if (!shape->rope_by_kind)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: no \"rope_parameters\" by kind of layer",
                         c->where);
    PITH_TRY(pith_family_read_cap(c, "final_logit_softcapping", &shape->logit_cap, err));
    PITH_TRY(pith_config_bool(c, "attention_bias", &bias, err));
    shape->qkv_bias = shape->o_bias = bias;
    shape->qk_norm = shape->v_norm = true;
    shape->score_scale = 1;
    shape->embed_scale = sqrt((double)shape->hidden);
    PITH_TRY(pith_family_read_pattern(c, 512, 6, shape, err));
    shape->sliding.word[(shape->layers - 1) / 32] &= ~(1u << (shape->layers - 1) % 32); /* never */
    PITH_TRY(pith_family_read_small(c, 256, shape, err));
    PITH_TRY(read_experts(c, shape, err));
    return read_full_heads(c, shape, err);
}

/* The family's plan of a layer with the heads of its kind. */
static enum pith_status plan(struct pith_plan_maker *m, struct pith_error *err)
{
    const struct pith_shape *all = m->shape;
    struct pith_shape own = *all;
    if (pith_layer_in(&all->sliding, m->layer)) {
        own.k_is_v = false;
        own.rotary = pith_shape_rotary(all, 1);
    } else if (all->full_head_dim) {
        own.head_dim = all->full_head_dim;
        own.kv_heads = all->full_kv_heads;
    }
    if (m->layer >= all->layers - all->kv_shared && all->kv_shared_ffn)
        own.ffn = all->kv_shared_ffn;
    m->shape = &own;
    const enum pith_status s = pith_family_plan(m, err);
    m->shape = all;
    return s;
}

static const struct pith_family family = {PITH_FAMILY_NORMS_AROUND,
                                          PITH_FAMILY_ATTENTION,
                                          PITH_FAMILY_MLP,
                                          PITH_FAMILY_QK_NORM,
                                          .scalar = "layer_scalar",
                                          .told_gate = "per_layer_input_gate",
                                          .told_project = "per_layer_projection",
                                          .told_after = "post_per_layer_input_norm",
                                          .moe = {.router = "router.proj",
                                                  .gate = "experts.%u.gate_proj",
                                                  .up = "experts.%u.up_proj",
                                                  .down = "experts.%u.down_proj",
                                                  .fused_gate_up = "experts.gate_up_proj",
                                                  .fused_down = "experts.down_proj",
                                                  .fused_only = true,
                                                  .experts_before = "pre_feedforward_layernorm_2",
                                                  .experts_after = "post_feedforward_layernorm_2",
                                                  .dense_after = "post_feedforward_layernorm_1",
                                                  .router_gain = "router.scale",
                                                  .gains = "router.per_expert_scale"}};

#define GEMMA4_TOLD(prefix)                                                                        \
    .told_embed = prefix "embed_tokens_per_layer",                                                 \
    .told_project = prefix "per_layer_model_projection",                                           \
    .told_norm = prefix "per_layer_projection_norm"

const struct pith_arch pith_arch_gemma4 = {
    .name = "Gemma4ForCausalLM",
    .model_type = "gemma4_text",
    .summary = "Gemma 4, text",
    .read = read_shape,
    .plan = plan,
    .family = &family,
    .names = {PITH_FAMILY_NAMES_IN("model."), .head = "lm_head", GEMMA4_TOLD("model.")},
};

const struct pith_arch pith_arch_gemma4_vl = {
    .name = "Gemma4ForConditionalGeneration",
    .model_type = "gemma4",
    .summary = "Gemma 4 that sees: its language model",
    .read = read_shape,
    .plan = plan,
    .family = &family,
    .wraps = true,
    .wraps_tied = true,
    .names = {PITH_FAMILY_NAMES_IN("model.language_model."), .head = "lm_head",
              GEMMA4_TOLD("model.language_model."),
              .beside = {"model.vision_tower.", "model.embed_vision.", "model.audio_tower.",
                         "model.embed_audio."}},
};
