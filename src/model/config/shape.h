/* model/config/shape.h: the hyper-parameters of a model, read from either dialect of config.json.
 */
#ifndef PITH_MODEL_CONFIG_SHAPE_H
#define PITH_MODEL_CONFIG_SHAPE_H

#include "backend/layer.h"
#include "base/json.h"
#include "base/status.h"
#include "num/format.h"

#include <stdbool.h>
#include <stdint.h>

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
    bool shared_gate;        /* times sigmoid of a linear of its own */
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

struct pith_shape {
    uint32_t hidden, ffn, layers, vocab;
    uint32_t heads, kv_heads, head_dim;
    uint32_t max_position;
    uint32_t window;               /* sliding window, 0: none */
    struct pith_layer_set sliding; /* layers with the window */
    bool chunked; /* the window does not slide: positions see those of their own `window` tokens */
    struct pith_layer_set unrotated; /* layers that do not rotate q and k */
    double eps;
    struct pith_rope rope;
    bool rope_by_kind; /* sliding layers have rope_sliding */
    struct pith_rope rope_sliding;
    uint32_t rotary;         /* elements at a head's beginning that are rotated; head_dim: all */
    uint32_t rotary_sliding; /* in layers with the window, where that is another number; else 0 */
    /* Heads of layers without the window, where these are others (0: they are not). */
    uint32_t full_head_dim, full_kv_heads;
    bool k_is_v; /* there is no projection of values, which are keys before their norm */
    bool v_norm; /* each head of values is normalised, without a gain */
    /* 0: 1 / sqrt(head_dim); caps of scores and logits, 0: none; factors of the embedding, of what
     * is added to the stream, of the logits, 0: 1. */
    double score_scale, score_cap, logit_cap;
    bool score_by_layer; /* the scale of layer i is divided by i + 1 */
    uint32_t
        positions; /* rows of a learned table, that of position p is p + position_shift; 0: none */
    uint32_t position_shift;
    uint32_t embed_dim; /* of the embedding and the head, which matrices join to the stream's width;
                           0: that width */
    uint32_t told, told_vocab; /* width of what a layer is told of each token, 0: nothing; how many
                                  tokens there are rows for */
    uint32_t kv_shared;        /* the last so many layers attend to the keys and values of the last
                                  layer before them with a window like theirs */
    uint32_t kv_shared_ffn;    /* the width of their feed-forward part, where that is another */
    bool norms_after;          /* of the stream, behind each addition, none before the parts */
    bool norms_bare;           /* without gains and biases */
    bool no_last_norm;
    bool serial; /* branches go one after the other where the family has them side by side */
    /* q of position p is times 1 + tempered * ln(1 + floor((p + tempered_shift) / tempered_every));
     * 0: it is not. In the layers that rotate, or those that do not. */
    double tempered, tempered_every;
    uint32_t tempered_shift;
    bool tempered_unrotated;
    double embed_scale, branch_scale, logit_scale;
    enum pith_act act;
    float act_limit, act_alpha;
    struct pith_moe moe;
    struct pith_latent_shape latent; /* rank 0: attention is not latent */
    struct pith_layer_set recurrent; /* layers that keep a state in place of keys and values */
    uint32_t taps;                   /* of their short convolution */
    bool conv_bias;
    struct pith_delta_shape delta;
    struct pith_scan_shape scan;
    bool gated; /* q gives as much again, a sigmoid of which multiplies what attention gives */
    bool tied;  /* lm_head is embed_tokens */
    bool qkv_bias, o_bias, mlp_bias, head_bias;
    double qkv_clip;       /* q, k and v are kept within it, 0: not */
    bool qk_norm;          /* q and k are normalised before they are rotated */
    enum pith_dtype dtype; /* of the checkpoint's weights, "torch_dtype" or "dtype" */
};

struct pith_arch;

/* Reads the shape for the architecture that config names ("architectures"[0], else
 * "model_type"). PITH_UNSUPPORTED names an unknown architecture or feature (activation, rope
 * type); PITH_FORMAT a value that makes no sense. Every size is bounded, so that no product of
 * two of them overflows 64 bits. */
enum pith_status pith_shape_read(const json_t *config, const char *where,
                                 const struct pith_arch **arch, struct pith_shape *shape,
                                 struct pith_error *err);

/* The same; the keys that were asked for go to `log` (model/config/config.h), those before a
 * failure too. */
struct pith_config_log;
enum pith_status pith_shape_read_asked(const json_t *config, const char *where,
                                       struct pith_config_log *log, const struct pith_arch **arch,
                                       struct pith_shape *shape, struct pith_error *err);

/* Elements that the angles of a table are for: 1 is that of layers with the window. */
static inline uint32_t pith_shape_rotary(const struct pith_shape *s, unsigned table)
{
    return table == 1 && s->rotary_sliding ? s->rotary_sliding : s->rotary;
}
/* Elements of a row of the embedding, and of the head. */
static inline uint32_t pith_shape_embed(const struct pith_shape *s)
{
    return s->embed_dim ? s->embed_dim : s->hidden;
}
/* Whether the last norm has a gain. */
static inline bool pith_shape_has_last_gain(const struct pith_shape *s)
{
    return !s->no_last_norm && !s->norms_bare;
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
