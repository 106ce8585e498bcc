/* GPT-2: LayerNorm with biases, learned positions, q, k and v in one linear; matrices are stored
 * with rows and columns exchanged. */
#include "model/build/build.h"
#include "model/config/read.h"
#include "model/gguf/parts.h"

/* Four times the stream where the file does not say: 0 where it does not say that either. */
static enum pith_status read_ffn(const struct pith_config *c, uint32_t *ffn, struct pith_error *err)
{
    int64_t hidden = 0;
    PITH_TRY(pith_config_int(c, "n_embd", 1, PITH_MAX_WIDTH, &hidden, err));
    if (hidden == 0) PITH_TRY(pith_config_int(c, "hidden_size", 1, PITH_MAX_WIDTH, &hidden, err));
    *ffn = hidden <= PITH_MAX_WIDTH / 4 ? 4 * (uint32_t)hidden : 0;
    return PITH_OK;
}

static enum pith_status read_shape(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err)
{
    struct pith_size_defaults defaults = {.key = {.hidden = "n_embd",
                                                  .heads = "n_head",
                                                  .layers = "n_layer",
                                                  .positions = "n_positions",
                                                  .ffn = "n_inner",
                                                  .act = "activation_function"},
                                          .plain_heads = true,
                                          .learned_positions = true,
                                          .max_position = 1024,
                                          .tied = true,
                                          .act = PITH_ACT_GELU_TANH,
                                          .eps = "layer_norm_epsilon",
                                          .eps_absent = 1e-5};
    bool scaled = true, crossed = false, by_layer = false;
    PITH_TRY(read_ffn(c, &defaults.ffn, err));
    PITH_TRY(pith_read_sizes(c, &defaults, shape, err));
    PITH_TRY(pith_config_bool(c, "scale_attn_weights", &scaled, err));
    PITH_TRY(pith_config_bool(c, "scale_attn_by_inverse_layer_idx", &by_layer, err));
    PITH_TRY(pith_config_bool(c, "add_cross_attention", &crossed, err));
    if (crossed)
        return pith_fail(err, PITH_UNSUPPORTED, "%s: \"add_cross_attention\" is not supported",
                         c->where);
    pith_shape_set_own(shape, &by_layer, sizeof by_layer);
    if (!scaled) shape->scores.scale = 1;
    shape->biases.qkv = shape->biases.o = shape->biases.mlp = true;
    return PITH_OK;
}

static void layer(struct pith_plan_maker *m)
{
    bool by_layer; /* scores are divided by the number of the layer */
    pith_build_positions(m);
    struct pith_norms norms = {.attention = pith_build_norm(m, "ln_1")};
    norms.mlp = pith_build_norm(m, "ln_2");
    struct pith_attention_spec attention = pith_attention_of(m);
    const struct pith_mlp_spec mlp = {
        .up = "mlp.c_fc", .down = "mlp.c_proj", .ffn = m->shape->ffn, .bias = true};
    attention.qkv = "attn.c_attn";
    attention.o = "attn.c_proj";
    pith_shape_own(m->shape, &by_layer, sizeof by_layer);
    if (by_layer) attention.scale = (float)attention.scale / (float)(m->layer + 1);
    pith_build_sequential(m, &norms, &attention, &mlp, NULL);
    pith_build_exchanged(m);
}

#define EXCHANGED(from, to)                                                                        \
    {                                                                                              \
        .hf = from, .gguf = to, .place = {.exchanged = true }                                      \
    }
static const struct pith_gguf_name_row parts[] = {PITH_GGUF_NORM("ln_1", "attn_norm"),
                                                  PITH_GGUF_NORM("ln_2", "ffn_norm"),
                                                  EXCHANGED("attn.c_proj", "attn_output"),
                                                  EXCHANGED("attn.c_attn", "attn_qkv"),
                                                  EXCHANGED("mlp.c_fc", "ffn_up"),
                                                  EXCHANGED("mlp.c_proj", "ffn_down"),
                                                  {0}};

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
        .name = "gpt2", .parts = parts, .act = PITH_ACT_GELU_TANH, .eps = "layer_norm_epsilon",    \
        .ffn = "n_inner", .unrotated = 1,                                                          \
        .features = 1u << PITH_GGUF_HAS_QKV_BIAS | 1u << PITH_GGUF_HAS_O_BIAS |                    \
                    1u << PITH_GGUF_HAS_MLP_BIAS | 1u << PITH_GGUF_HAS_POSITIONS |                 \
                    1u << PITH_GGUF_HAS_UNROTATED                                                  \
    }

/* The first published files. */
static const struct pith_arch bare = {
    .name = "GPT2LMHeadModel",
    .model_type = "gpt2",
    .read = read_shape,
    .layer = layer,
    .norm = {.centred = true, .bias = true},
    .names = NAMES(""),
    .gguf = GGUF,
};

const struct pith_arch pith_arch_gpt2 = {
    .name = "GPT2LMHeadModel",
    .model_type = "gpt2",
    .summary = "GPT-2",
    .read = read_shape,
    .layer = layer,
    .renamed = &bare,
    .norm = {.centred = true, .bias = true},
    .names = NAMES("transformer."),
    .gguf = GGUF,
};
