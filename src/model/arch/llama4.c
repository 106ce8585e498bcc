/* Llama 4, its language model: layers that rotate see chunks and norm q and k, the others see all;
 * a router multiplies what its expert reads. */
#include "model/build/build.h"
#include "model/build/names.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

/* What rotates has its chunk; "layer_types", where given, can only say the same. */
static enum pith_status read_chunks(const struct pith_config *c, struct pith_shape *shape,
                                    struct pith_error *err)
{
    const bool given = pith_config_has(c, "layer_types");
    struct pith_layer_set listed = {0};
    PITH_TRY(pith_read_size(c, "attention_chunk_size", INT32_MAX, 8192, &shape->windows.size, err));
    PITH_TRY(pith_read_layer_types(c, shape, "chunked_attention", "full_attention", &listed, err));
    for (uint32_t i = 0; i < shape->layers; i++) {
        const bool chunk = given ? pith_layer_in(&listed, i)
                                 : !pith_layer_in(&shape->place.unrotated, i);
        if (chunk) pith_layer_put(&shape->windows.layers, i);
    }
    return PITH_OK;
}

/* What Llama 4 alone has: queries of layers that do not rotate grow, q and k of the others are
 * normalised without gains. */
struct llama4 {
    struct pith_growth growth;
    bool normed;
};
PITH_SHAPE_OWN_FITS(struct llama4);

static enum pith_status read_own(const struct pith_config *c, struct pith_shape *shape,
                                 struct pith_error *err)
{
    bool tuned = true;
    struct llama4 own = {.growth = {.beta = 0.1, .every = 8192, .shift = 1}, .normed = true};
    PITH_TRY(pith_config_bool(c, "attn_temperature_tuning", &tuned, err));
    PITH_TRY(pith_read_scale(c, "attn_scale", &own.growth.beta, err));
    PITH_TRY(pith_read_scale(c, "floor_scale", &own.growth.every, err));
    PITH_TRY(pith_config_bool(c, "use_qk_norm", &own.normed, err));
    if (!tuned) own.growth = (struct pith_growth){0};
    pith_shape_set_own(shape, &own, sizeof own);
    return PITH_OK;
}

/* Mixtures are the layers of "moe_layers", else each "interleave_moe_layer_step"th. */
static enum pith_status read_mixtures(const struct pith_config *c, struct pith_shape *shape,
                                      struct pith_error *err)
{
    const json_t *list = pith_config_get(c, "moe_layers"), *v;
    int64_t step = 1;
    size_t k;
    PITH_TRY(pith_config_int(c, "interleave_moe_layer_step", 1, INT32_MAX, &step, err));
    if (list && !json_is_null(list) && !json_is_array(list))
        return pith_fail(err, PITH_FORMAT, "%s: \"moe_layers\" is not a list", c->where);
    if (!json_is_array(list))
        for (int64_t i = step - 1; i < shape->layers; i += step)
            pith_layer_put(&shape->moe.layers, (uint32_t)i);
    json_array_foreach (list, k, v) {
        if (!json_is_integer(v) || json_integer_value(v) < 0 ||
            json_integer_value(v) >= (json_int_t)shape->layers)
            return pith_fail(err, PITH_FORMAT, "%s: \"moe_layers\" names no layer", c->where);
        pith_layer_put(&shape->moe.layers, (uint32_t)json_integer_value(v));
    }
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    static const struct pith_size_defaults defaults = {
        .kv_heads = 8, .head_dim = 128, .max_position = 4096 * 32, .theta = 500000};
    static const struct pith_moe absent = {
        .experts = 16, .taken = 1, .router = PITH_ROUTER_SIGMOID, .scales_input = true};
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_read_mixture(c, &pith_mixture_keys_local, &absent, shape, err));
    shape->moe.shared_ffn = shape->ffn;
    PITH_TRY(pith_read_size(c, "intermediate_size_mlp", PITH_MAX_WIDTH, 16384, &shape->ffn, err));
    PITH_TRY(read_mixtures(c, shape, err));
    PITH_TRY(pith_read_unrotated(c, 4, shape, err));
    PITH_TRY(read_chunks(c, shape, err));
    PITH_TRY(read_own(c, shape, err));
    return pith_read_attention_bias(c, false, shape, err);
}

static void layer(struct pith_plan_maker *m)
{
    static const struct pith_experts_spec experts = {
        .router = "feed_forward.router",
        .gate = "feed_forward.experts.%u.gate_proj",
        .up = "feed_forward.experts.%u.up_proj",
        .down = "feed_forward.experts.%u.down_proj",
        .shared = "feed_forward.shared_expert",
        .fused_gate_up = "feed_forward.experts.gate_up_proj",
        .fused_down = "feed_forward.experts.down_proj",
        .fused_transposed = true,
        .fused_only = true};
    static const struct pith_head_norm bare = {PITH_HEADS_EACH, PITH_NO_PART};
    struct llama4 own;
    const struct pith_norms norms = pith_build_norms(m);
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = {.gate = "feed_forward.gate_proj",
                                      .up = "feed_forward.up_proj",
                                      .down = "feed_forward.down_proj",
                                      .ffn = m->shape->ffn};
    pith_shape_own(m->shape, &own, sizeof own);
    attention.rope_adjacent = true;
    attention.chunked = attention.window != 0;
    if (attention.rotary == 0) attention.growth = own.growth;
    else if (own.normed) attention.q_norm = attention.k_norm = bare;
    pith_build_sequential(m, &norms, &attention, &mlp, &experts);
}

static const struct pith_gguf_name_row parts[] = {
    PITH_GGUF_NORMS,
    PITH_GGUF_ATTENTION,
    PITH_GGUF_PART("feed_forward.gate_proj", "ffn_gate"),
    PITH_GGUF_PART("feed_forward.up_proj", "ffn_up"),
    PITH_GGUF_PART("feed_forward.down_proj", "ffn_down"),
    PITH_GGUF_EXPERTS("feed_forward.router", "feed_forward.experts.%u.gate_proj",
                      "feed_forward.experts.%u.up_proj", "feed_forward.experts.%u.down_proj"),
    PITH_GGUF_SHARED("feed_forward.shared_expert"),
    {0}};

static const struct pith_own_field own_fields[] = {
    {"the growth of queries with their position", offsetof(struct llama4, growth.beta), true}, {0}};

const struct pith_arch pith_arch_llama4 = {
    .name = "Llama4ForCausalLM",
    .model_type = "llama4_text",
    .summary = "Llama 4: chunks, experts and a shared one",
    .read = read_shape,
    .layer = layer,
    .own = own_fields,
    .names = PITH_NAMES_LLAMA,
    .gguf = {.name = "llama4",
             .parts = parts,
             .experts = "num_local_experts",
             .expert_width = "intermediate_size",
             .ffn = "intermediate_size_mlp",
             .gating = 2,
             .stepped = true,
             .every = 4,
             .unrotated = 4,
             .chunk = 8192,
             .bare = 128,
             .features = 1u << PITH_GGUF_HAS_UNROTATED | 1u << PITH_GGUF_HAS_TEMPERED |
                         1u << PITH_GGUF_HAS_SHARED | 1u << PITH_GGUF_HAS_SCALES_INPUT},
};

const struct pith_arch pith_arch_llama4_vl = {
    .name = "Llama4ForConditionalGeneration",
    .model_type = "llama4",
    .summary = "Llama 4 that sees: its language model",
    .read = read_shape,
    .layer = layer,
    .own = own_fields,
    .wraps = true,
    .names = {PITH_NAMES_IN("language_model.model."), .head = "language_model.lm_head",
              .other = {"vision_model.", "multi_modal_projector."}},
};
