/* model/shape.h: the hyper-parameters of a model, read from either dialect of config.json. */
#ifndef PITH_MODEL_SHAPE_H
#define PITH_MODEL_SHAPE_H

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
    PITH_MAX_HEAD_DIM = 1 << 14
};

enum pith_rope_type { PITH_ROPE_DEFAULT, PITH_ROPE_LINEAR, PITH_ROPE_LLAMA3, PITH_ROPE_YARN };

struct pith_rope {
    enum pith_rope_type type;
    double theta;
    double factor;
    double low_freq, high_freq;  /* llama3 */
    double beta_fast, beta_slow; /* yarn */
    double attention_factor;     /* yarn; 0: 0.1 ln(factor) + 1 */
    bool truncate;               /* yarn: round the correction range to whole dimensions */
    int64_t original_max;        /* original_max_position_embeddings */
};

struct pith_shape {
    uint32_t hidden, ffn, layers, vocab;
    uint32_t heads, kv_heads, head_dim;
    uint32_t max_position;
    uint32_t window;            /* sliding window, 0: none */
    uint32_t window_from_layer; /* first layer with the window (Qwen2 max_window_layers) */
    double eps;
    struct pith_rope rope;
    bool tied; /* lm_head is embed_tokens */
    bool qkv_bias, o_bias, mlp_bias;
    bool qk_norm;          /* RMS norm over head_dim on q and k before rope (Qwen3) */
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

/* Whether config states the dtype of the weights; without it pith_shape_read() reports F32. */
bool pith_shape_has_dtype(const json_t *config);

/* Inverse frequencies [head_dim / 2] with the scaling applied; *attention_factor multiplies cos
 * and sin. Computed in float32 steps like the reference implementation's, since models were
 * trained with those. */
void pith_rope_frequencies(const struct pith_rope *rope, uint32_t head_dim, double *inv_freq,
                           double *attention_factor);

#endif
