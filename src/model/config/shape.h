/* model/config/shape.h: the hyper-parameters of a model, read from either dialect of config.json.
 */
#ifndef PITH_MODEL_CONFIG_SHAPE_H
#define PITH_MODEL_CONFIG_SHAPE_H

#include "backend/layer.h"
#include "base/json.h"
#include "base/status.h"
#include "num/format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Bounds that no model comes near and every shape read keeps; the product of any two fits 64 bits
 * many times over. */
enum {
    PITH_MAX_WIDTH = 1 << 20, /* hidden, ffn, heads * head_dim */
    PITH_MAX_LAYERS = 16384,
    PITH_MAX_VOCAB = 1 << 24,
    PITH_MAX_HEADS = 1 << 14,
    PITH_MAX_HEAD_DIM = 1 << 14,
    PITH_MAX_EXPERTS = 4096
};

enum pith_rope_type {
    PITH_ROPE_DEFAULT,
    PITH_ROPE_LINEAR,
    PITH_ROPE_LLAMA3,
    PITH_ROPE_YARN,
    PITH_ROPE_LONG,
    PITH_ROPE_PROPORTIONAL /* the first pairs of a whole head, by its own frequencies */
};
enum { PITH_MAX_ROPE_FACTORS = 512 };

struct pith_rope {
    enum pith_rope_type type;
    double theta;
    double factor;
    double low_freq, high_freq;  /* llama3 */
    double beta_fast, beta_slow; /* yarn */
    double attention_factor;     /* yarn; 0: 0.1 ln(factor) + 1; long: the factor itself */
    bool truncate;               /* yarn: round the correction range to whole dimensions */
    int64_t original_max;        /* original_max_position_embeddings */
    /* long: what each pair's frequency is divided by, in contexts up to original_max (0) and in
     * longer ones (1) */
    double part; /* proportional: of the pairs, that are rotated */
    uint32_t factors;
    float divide[2][PITH_MAX_ROPE_FACTORS];
};

/* Some of the layers. */
struct pith_layer_set {
    uint32_t word[PITH_MAX_LAYERS / 32];
};
static inline bool pith_layer_in(const struct pith_layer_set *s, uint32_t layer)
{
    return layer < PITH_MAX_LAYERS && s->word[layer / 32] >> layer % 32 & 1;
}
static inline void pith_layer_put(struct pith_layer_set *s, uint32_t layer)
{
    s->word[layer / 32] |= 1u << layer % 32;
}
/* All of a model of so many. */
static inline void pith_layer_put_all(struct pith_layer_set *s, uint32_t layers)
{
    for (uint32_t i = 0; i < layers; i++) pith_layer_put(s, i);
}
/* Those of them that are not in `others`. */
static inline void pith_layer_put_rest(struct pith_layer_set *s,
                                       const struct pith_layer_set *others, uint32_t layers)
{
    for (uint32_t i = 0; i < layers; i++)
        if (!pith_layer_in(others, i)) pith_layer_put(s, i);
}
/* Whether one of the first so many is in the set. */
static inline bool pith_layer_any(const struct pith_layer_set *s, uint32_t layers)
{
    for (uint32_t i = 0; i < layers; i++)
        if (pith_layer_in(s, i)) return true;
    return false;
}

/* How a token chooses its experts, and what becomes of their results. With l the router's logits,
 * n experts of which k are taken:
 *   SOFTMAX   s = softmax(l)          SIGMOID   s = sigmoid(l)
 *   TOP       the k largest l, s = softmax over these
 * The k largest s + correction are taken (the lower index where two are equal), within the best
 * groups where there are any; their weights are s, over their sum where `renormalised`, times
 * `scale`. */
enum pith_router { PITH_ROUTER_SOFTMAX, PITH_ROUTER_SIGMOID, PITH_ROUTER_TOP };
struct pith_moe {
    uint32_t experts, taken; /* 0: no layer is a mixture */
    uint32_t ffn;            /* width of an expert */
    uint32_t shared_ffn;     /* of the shared one, 0: none */
    bool shared_gate;        /* times sigmoid of a separate linear */
    enum pith_router router;
    bool renormalised, router_bias, correction;
    bool scales_input; /* the weight multiplies what an expert reads, not what it gives */
    bool expert_bias;  /* of all three matrices of an expert */
    double floor;      /* of the sum that is divided by */
    double plus;       /* what is added to it, 0: as good as nothing */
    double scale;
    uint32_t groups, groups_taken; /* 0: no groups */
    bool group_best_two;           /* a group's score is the sum of its two best, else its best */
    struct pith_layer_set layers;  /* that are mixtures */
};

/* Latent attention (DeepSeek-AI 2024): queries of `nope` and `rope` elements a head, keys and
 * values from a latent of `rank`. */
struct pith_latent_shape {
    uint32_t q_rank; /* of the queries' own latent, 0: none */
    uint32_t rank, nope, rope, value;
    bool adjacent; /* rotated pairs are neighbours */
};

/* The heads of the gated delta rule. */
struct pith_delta_shape {
    uint32_t key_heads, value_heads, key_dim, value_dim;
};

/* Mamba 2's scan: heads of `dim`, groups of heads that share what is written and read. */
struct pith_scan_shape {
    uint32_t heads, dim, groups, state;
    bool bias;          /* of the projections */
    double least, most; /* of a step */
};

/* How layers know positions: rotated heads, or a learned table. */
struct pith_positions {
    struct pith_rope rope;
    bool by_kind; /* layers with the window have rope_window */
    struct pith_rope rope_window;
    uint32_t rotary;        /* elements at a head's beginning that are rotated; head_dim: all */
    uint32_t rotary_window; /* in layers with the window, where that is another number; else 0 */
    struct pith_layer_set unrotated; /* layers that do not rotate q and k */
    uint32_t learned; /* rows of a learned table, that of position p is p + shift; 0: none */
    uint32_t shift;
};

/* Layers that see no more than so many positions. */
struct pith_windows {
    uint32_t size; /* 0: none */
    struct pith_layer_set layers;
};

/* Before the layers and behind them. */
enum pith_last_norm { PITH_LAST_NORM, PITH_LAST_NORM_BARE, PITH_LAST_NORM_NONE };
struct pith_ends {
    bool tied, head_bias; /* lm_head is embed_tokens; it has a bias */
    /* Width of the embedding and the head, which matrices join to the stream's; 0: that width. */
    uint32_t width;
    enum pith_last_norm last_norm; /* BARE: without gain and bias */
    /* Factors of the embedding and of logits, 0: 1; what caps logits, 0: nothing. */
    double embed_scale, logit_scale, logit_cap;
};

struct pith_biases {
    bool qkv, o, mlp;
};
/* The activation of feed-forward parts; the last two of CLAMPED. */
struct pith_activation {
    enum pith_act kind;
    float limit, alpha;
};
/* Of attention: what scores are times, 0: 1 / sqrt(head_dim); what caps them, 0: nothing. */
struct pith_scores {
    double scale, cap;
};
/* q of position p is times 1 + beta * ln(1 + floor((p + shift) / every)); beta 0: it is not. */
struct pith_growth {
    double beta, every;
    uint32_t shift;
};
/* Layers that keep a state in place of keys and values: by a short convolution of `taps`, and the
 * delta rule or a scan. */
struct pith_recurrent {
    struct pith_layer_set layers;
    uint32_t taps;
    bool conv_bias;
};
/* Vectors that the model's tables have for each token and layer: their width, 0: none; how many
 * tokens there are rows for. */
struct pith_token_table {
    uint32_t width, vocab;
};

enum { PITH_SHAPE_OWN = 64 };
struct pith_shape {
    uint32_t hidden, ffn, layers, vocab;
    uint32_t heads, kv_heads, head_dim;
    uint32_t max_position;
    double eps;
    double branch_scale;   /* of what is added to the stream, 0: 1 */
    enum pith_dtype dtype; /* of the checkpoint's weights, "torch_dtype" or "dtype" */
    struct pith_positions place;
    struct pith_windows windows;
    struct pith_ends ends;
    struct pith_biases biases;
    struct pith_activation activation;
    struct pith_scores scores;
    struct pith_moe moe;
    struct pith_latent_shape latent; /* rank 0: attention is not latent */
    struct pith_recurrent recurrent;
    struct pith_delta_shape delta;
    struct pith_scan_shape scan;
    struct pith_token_table tokens;
    /* What one architecture alone has: a struct in its file, of which nobody else knows. */
    unsigned char own[PITH_SHAPE_OWN];
};
#define PITH_SHAPE_OWN_FITS(type)                                                                  \
    _Static_assert(sizeof(type) <= PITH_SHAPE_OWN, "a larger PITH_SHAPE_OWN")
static inline void pith_shape_set_own(struct pith_shape *s, const void *own, size_t size)
{
    memcpy(s->own, own, size);
}
static inline void pith_shape_own(const struct pith_shape *s, void *own, size_t size)
{
    memcpy(own, s->own, size);
}

struct pith_arch;

/* Reads the shape for the architecture that config names ("architectures"[0], else
 * "model_type"). PITH_UNSUPPORTED names an unknown architecture or feature (activation, rope
 * type); PITH_FORMAT a value that makes no sense. Every size is bounded, so that no product of
 * two of them overflows 64 bits. */
enum pith_status pith_shape_read(const json_t *config, const char *where,
                                 const struct pith_arch **arch, struct pith_shape *shape,
                                 struct pith_error *err);

/* The same; the keys that were read go to `log` (model/config/config.h), those before a failure
 * too. */
struct pith_config_log;
enum pith_status pith_shape_read_logged(const json_t *config, const char *where,
                                        struct pith_config_log *log, const struct pith_arch **arch,
                                        struct pith_shape *shape, struct pith_error *err);

/* Elements that the angles of a table are for: 1 is that of layers with the window. */
static inline uint32_t pith_shape_rotary(const struct pith_shape *s, unsigned table)
{
    return table == 1 && s->place.rotary_window ? s->place.rotary_window : s->place.rotary;
}
/* Elements of a row of the embedding, and of the head. */
static inline uint32_t pith_shape_embed(const struct pith_shape *s)
{
    return s->ends.width ? s->ends.width : s->hidden;
}
/* Whether the last norm has a gain. */
static inline bool pith_shape_has_last_gain(const struct pith_shape *s)
{
    return s->ends.last_norm == PITH_LAST_NORM;
}

/* Whether config states the dtype of the weights; without it pith_shape_read() reports F32. */
bool pith_shape_has_dtype(const json_t *config);

/* Inverse frequencies [head_dim / 2] with the scaling applied; *attention_factor multiplies cos
 * and sin. Computed in float32 steps like the reference implementation's, since models were
 * trained with those. */
void pith_rope_frequencies(const struct pith_rope *rope, uint32_t head_dim, double *inv_freq,
                           double *attention_factor);
/* The same in contexts of more than rope->original_max tokens, which differ for PITH_ROPE_LONG. */
void pith_rope_frequencies_far(const struct pith_rope *rope, uint32_t head_dim, double *inv_freq,
                               double *attention_factor);

#endif
