/* model/config/read.h: what architectures read from a config in the same way: sizes, heads,
 * positions, windows, mixtures. An architecture's file reads the rest itself
 * (model/config/config.h). Functions fail with PITH_FORMAT for a value that makes no sense, and
 * with PITH_UNSUPPORTED for one that pith does not support. */
#ifndef PITH_MODEL_CONFIG_READ_H
#define PITH_MODEL_CONFIG_READ_H

#include "model/config/config.h"
#include "model/config/shape.h"

/* What an architecture calls its sizes, where that is another name; NULL: the usual one. */
struct pith_size_keys {
    const char *hidden, *ffn, *layers, *heads, *positions, *tied, *act;
};

/* Values for keys that are absent: those of the architecture's class in transformers. */
struct pith_size_defaults {
    struct pith_size_keys key;
    bool learned_positions;     /* layers do not rotate, and it has no keys for that */
    bool plain_heads;           /* it has no keys for heads of keys, nor for the size of a head */
    uint32_t ffn, heads, vocab; /* 0: the file must say */
    uint32_t kv_heads;          /* 0: as many as heads; so is null in the file */
    uint32_t head_dim;          /* 0: hidden / heads */
    uint32_t max_position;
    bool tied;
    enum pith_act act;
    const char *eps;   /* its key; NULL: "rms_norm_eps" */
    double eps_absent; /* 0: 1e-6 */
    double partial;    /* of "partial_rotary_factor"; 0: heads are always rotated whole */
    double theta;      /* of "rope_theta"; 0: 10000 */
    bool rope_kinds;   /* layers with a window may have separate rotary parameters */
};

/* Sizes, activation, eps, tying and rope; all else, the architecture's own part too, becomes 0. */
enum pith_status pith_read_sizes(const struct pith_config *c,
                                 const struct pith_size_defaults *defaults,
                                 struct pith_shape *shape, struct pith_error *err);

/* An integer in 1..hi; a missing key is an error when absent is 0. */
enum pith_status pith_read_size(const struct pith_config *c, const char *key, int64_t hi,
                                uint32_t absent, uint32_t *out, struct pith_error *err);

/* A positive number into *out, which is unchanged where the key is missing or null; of a cap null
 * is 0.
 */
enum pith_status pith_read_scale(const struct pith_config *c, const char *key, double *out,
                                 struct pith_error *err);
enum pith_status pith_read_cap(const struct pith_config *c, const char *key, double *out,
                               struct pith_error *err);

/* "attention_bias": whether q, k, v and o have biases; `absent` when it is missing. */
enum pith_status pith_read_attention_bias(const struct pith_config *c, bool absent,
                                          struct pith_shape *shape, struct pith_error *err);

/* "sliding_window": *window is 0 when it is null, `absent` when it is missing. */
enum pith_status pith_read_window(const struct pith_config *c, uint32_t absent, uint32_t *window,
                                  struct pith_error *err);

/* The same into the shape; where there is one, all layers have it. */
enum pith_status pith_read_all_windows(const struct pith_config *c, uint32_t absent,
                                       struct pith_shape *shape, struct pith_error *err);

/* "layer_types" into *set: the layers of the kind `name`; every other must be of the kind `other`.
 * What stands behind the last layer is not read: a model may be cut short, or list layers for
 * drafts. *set is unchanged where the key is missing or null. */
enum pith_status pith_read_layer_types(const struct pith_config *c, const struct pith_shape *shape,
                                       const char *name, const char *other,
                                       struct pith_layer_set *set, struct pith_error *err);

/* The window and the layers that have it: by "layer_types", else by "sliding_window_pattern"
 * (`every` where it is missing; a word needs "layer_types"), of which every n-th has none. */
enum pith_status pith_read_pattern(const struct pith_config *c, uint32_t absent, uint32_t every,
                                   struct pith_shape *shape, struct pith_error *err);

/* The window of even layers: by "layer_types", else layers 0, 2, 4, ... below `end` have it. */
enum pith_status pith_read_even_windows(const struct pith_config *c, uint32_t absent, int64_t end,
                                        struct pith_shape *shape, struct pith_error *err);

/* The layers that do not rotate: 0 in "no_rope_layers", without it every
 * "no_rope_layer_interval"-th (`every` where that is missing). */
enum pith_status pith_read_unrotated(const struct pith_config *c, uint32_t every,
                                     struct pith_shape *shape, struct pith_error *err);

/* What an architecture calls the numbers of its experts: how many there are and a token takes
 * (the first of the names that is there), how wide one is (NULL: "intermediate_size"); and which
 * rules it has keys for. */
struct pith_mixture_keys {
    const char *count[2], *taken[2], *width;
    bool groups;       /* "n_group", "topk_group" */
    bool renormalised; /* "norm_topk_prob" */
    bool scale;        /* "routed_scaling_factor" */
};
/* Of Qwen's, of DeepSeek's, and of those whose every layer is a mixture. */
extern const struct pith_mixture_keys pith_mixture_keys_qwen, pith_mixture_keys_deepseek,
    pith_mixture_keys_local;

/* These into shape->moe, which begins as `absent`; it does not set which layers are mixtures.
 * PITH_FORMAT when they do not go together. */
enum pith_status pith_read_mixture(const struct pith_config *c,
                                   const struct pith_mixture_keys *keys,
                                   const struct pith_moe *absent, struct pith_shape *shape,
                                   struct pith_error *err);
/* The width of what all tokens share: `key` times that of an expert, which is read before. */
enum pith_status pith_read_shared(const struct pith_config *c, const char *key, uint32_t absent,
                                  struct pith_shape *shape, struct pith_error *err);
/* Which layers are mixtures: all but the first ones, of which `key` has the number. */
enum pith_status pith_read_dense_first(const struct pith_config *c, const char *key,
                                       uint32_t absent, struct pith_shape *shape,
                                       struct pith_error *err);
/* Which layers are mixtures, by "decoder_sparse_step" and "mlp_only_layers". */
enum pith_status pith_read_sparse_layers(const struct pith_config *c, struct pith_shape *shape,
                                         struct pith_error *err);

/* Ranks and widths into shape->latent, which begins as `absent`, and with them the width of heads
 * and the scale of scores; after pith_read_sizes(). */
enum pith_status pith_read_latent(const struct pith_config *c,
                                  const struct pith_latent_shape *absent, struct pith_shape *shape,
                                  struct pith_error *err);
/* The heads of the delta rule, and which layers have it: by "layer_types", or all but every
 * "full_attention_interval"th. */
enum pith_status pith_read_delta(const struct pith_config *c, struct pith_shape *shape,
                                 struct pith_error *err);
/* Mamba 2's heads, groups and convolution ("mamba_n_heads" and so on); it does not set which layers
 * have them. */
enum pith_status pith_read_mamba(const struct pith_config *c, struct pith_shape *shape,
                                 struct pith_error *err);
/* Granite's whole shape, in all its forms but for experts. */
enum pith_status pith_read_granite(const struct pith_config *c, struct pith_shape *shape,
                                   struct pith_error *err);

/* The window rules of Qwen2 and Qwen3: "use_sliding_window", "sliding_window", and which layers by
 * "layer_types" or "max_window_layers". */
enum pith_status pith_read_qwen_window(const struct pith_config *c, struct pith_shape *shape,
                                       struct pith_error *err);

#endif
