/* model/arch/family.h: what the architectures that descend from Llama share: a pre-norm block of
 * grouped attention with rotary positions and a SwiGLU feed-forward, its names and its sites. An
 * architecture's file says only where it differs. */
#ifndef PITH_MODEL_ARCH_FAMILY_H
#define PITH_MODEL_ARCH_FAMILY_H

#include "model/arch.h"

/* The rows of archs.def. */
#define PITH_ARCH(row) extern const struct pith_arch row;
#include "model/archs.def"
#undef PITH_ARCH

/* The names of Llama's checkpoints, and the plan of a layer: grouped attention and a gated
 * feed-forward, each behind a norm and added to the stream. */
#define PITH_FAMILY_NAMES                                                                          \
    {                                                                                              \
        .layers = "model.layers.", .embed = "model.embed_tokens", .norm = "model.norm",            \
        .head = "lm_head"                                                                          \
    }
enum pith_status pith_family_plan(struct pith_plan_maker *m, struct pith_error *err);

/* Values for keys that are absent: those of the architecture's class in transformers. */
struct pith_family_defaults {
    uint32_t kv_heads; /* 0: as many as heads; so is null in the file */
    uint32_t head_dim; /* 0: hidden / heads */
    uint32_t max_position;
};

/* Sizes, activation, eps, tying and rope; window, biases and q/k norm are left 0. */
enum pith_status pith_family_read(const json_t *config, const char *where,
                                  const struct pith_family_defaults *defaults,
                                  struct pith_shape *shape, struct pith_error *err);

/* "sliding_window": *window is 0 when it is null, `absent` when it is missing. */
enum pith_status pith_family_read_window(const json_t *config, const char *where, uint32_t absent,
                                         uint32_t *window, struct pith_error *err);

/* "layer_types": *from is the first layer with sliding attention (shape->layers: none), *given
 * tells whether the key is there. PITH_UNSUPPORTED when full attention follows sliding. */
enum pith_status pith_family_read_layer_types(const json_t *config, const char *where,
                                              const struct pith_shape *shape, bool *given,
                                              uint32_t *from, struct pith_error *err);

/* The window rules of Qwen2 and Qwen3: "use_sliding_window", "sliding_window", and which layers by
 * "layer_types" or "max_window_layers". */
enum pith_status pith_family_read_qwen_window(const json_t *config, const char *where,
                                              struct pith_shape *shape, struct pith_error *err);

#endif
