/* GPT-2: LayerNorm with biases, learned positions, q, k and v in one linear; matrices are stored
 * with rows and columns exchanged. */
#include "model/arch/family.h"

#include "base/mem.h"

/* The keys under Llama's names; a new reference, NULL when memory is out. */
static json_t *renamed_of(const json_t *config)
{
    static const char *const keys[] = {
        "n_embd",  "hidden_size",       "n_head",      "num_attention_heads",
        "n_layer", "num_hidden_layers", "n_positions", "max_position_embeddings",
        "n_inner", "intermediate_size"};
    json_t *renamed = pith_family_renamed(config, keys, PITH_COUNT(keys) / 2);
    const json_t *inner = json_object_get(renamed, "intermediate_size");
    const json_t *width = json_object_get(renamed, "hidden_size");
    if ((inner && !json_is_null(inner)) || !json_is_integer(width)) return renamed;
    const json_int_t hidden = json_integer_value(width);
    const json_int_t ffn = hidden > 0 && hidden <= PITH_MAX_WIDTH ? 4 * hidden : 0;
    if (json_object_set_new(renamed, "intermediate_size", json_integer(ffn)) == 0) return renamed;
    json_decref(renamed);
    return NULL;
}

static enum pith_status read_shape(const json_t *config, const char *where,
                                   struct pith_shape *shape, struct pith_error *err)
{
    static const struct pith_family_defaults defaults = {.max_position = 1024,
                                                         .tied = true,
                                                         .act = PITH_ACT_GELU_TANH,
                                                         .eps = "layer_norm_epsilon",
                                                         .eps_absent = 1e-5};
    bool scaled = true, crossed = false;
    json_t *renamed = renamed_of(config);
    if (!renamed) return pith_fail_nomem(err, "a config");
    const enum pith_status s = pith_family_read(renamed, where, &defaults, shape, err);
    json_decref(renamed);
    if (s != PITH_OK) return s;
    PITH_TRY(pith_json_get_bool(config, "scale_attn_weights", &scaled, where, err));
    PITH_TRY(pith_json_get_bool(config, "scale_attn_by_inverse_layer_idx", &shape->score_by_layer,
                                where, err));
    PITH_TRY(pith_json_get_bool(config, "add_cross_attention", &crossed, where, err));
    if (crossed)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: \"add_cross_attention\" is not supported",
                         where);
    if (!scaled) shape->score_scale = 1;
    shape->qkv_bias = shape->o_bias = shape->mlp_bias = true;
    shape->positions = shape->max_position;
    for (uint32_t i = 0; i < shape->layers; i++) pith_layer_put(&shape->unrotated, i);
    return PITH_OK;
}

static const struct pith_family family = {.before_attention = "ln_1",
                                          .before_mlp = "ln_2",
                                          .qkv = "attn.c_attn",
                                          .o = "attn.c_proj",
                                          .up = "mlp.c_fc",
                                          .down = "mlp.c_proj",
                                          .centred = true,
                                          .norm_bias = true,
                                          .in_out = true};

#define NAMES(prefix)                                                                              \
    {                                                                                              \
        .layers = prefix "h.", .embed = prefix "wte", .norm = prefix "ln_f", .head = "lm_head",    \
        .positions = prefix "wpe", .buffer = {                                                     \
            "attn.bias",                                                                           \
            "attn.masked_bias"                                                                     \
        }                                                                                          \
    }

#define GGUF                                                                                       \
    {                                                                                              \
        .name = "gpt2", .act = PITH_ACT_GELU_TANH, .eps = "layer_norm_epsilon", .ffn = "n_inner",  \
        .unrotated = 1,                                                                            \
        .features = 1u << PITH_GGUF_HAS_QKV_BIAS | 1u << PITH_GGUF_HAS_O_BIAS |                    \
                    1u << PITH_GGUF_HAS_MLP_BIAS | 1u << PITH_GGUF_HAS_POSITIONS |                 \
                    1u << PITH_GGUF_HAS_UNROTATED                                                  \
    }

/* The first published files. */
static const struct pith_arch bare = {
    .name = "GPT2LMHeadModel",
    .model_type = "gpt2",
    .read = read_shape,
    .plan = pith_family_plan,
    .family = &family,
    .names = NAMES(""),
    .gguf = GGUF,
};

const struct pith_arch pith_arch_gpt2 = {
    .name = "GPT2LMHeadModel",
    .model_type = "gpt2",
    .summary = "GPT-2",
    .read = read_shape,
    .plan = pith_family_plan,
    .renamed = &bare,
    .family = &family,
    .names = NAMES("transformer."),
    .gguf = GGUF,
};
