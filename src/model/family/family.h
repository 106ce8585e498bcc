/* model/family/family.h: what the architectures that descend from Llama share: reading the sizes in
 * config.json, and the plan of a block of attention and a feed-forward part, each between norms and
 * added to the stream. An architecture's file says only where it differs. */
#ifndef PITH_MODEL_FAMILY_FAMILY_H
#define PITH_MODEL_FAMILY_FAMILY_H

#include "model/arch.h"
#include "model/config/config.h"

/* The rows of archs.def. */
#define PITH_ARCH(row) extern const struct pith_arch row;
#include "model/archs.def"
#undef PITH_ARCH

/* --- the plan --------------------------------------------------------------------------------- */

enum pith_qk_norm {
    PITH_QK_HEAD,   /* each head, by one gain for all */
    PITH_QK_ROW,    /* all heads of a token at once */
    PITH_QK_BARE,   /* each head, without gains, where it is rotated (Llama 4) */
    PITH_QK_CENTRED /* each head, centred, by a gain of its own (Command R+) */
};

/* The experts of a mixture; "%u" stands for the expert. */
struct pith_family_moe {
    const char *router, *correction; /* "mlp.gate"; the latter a whole tensor's name, or NULL */
    const char *gate, *up, *down;    /* "mlp.experts.%u.gate_proj" */
    const char *shared;              /* "mlp.shared_expert": .gate_proj, .up_proj, .down_proj */
    const char *shared_gate;         /* "mlp.shared_expert_gate" */
    const char *shared_gate_up, *shared_down; /* or these two in place of `shared` */
    bool correction_row;                      /* stored as [1][experts] */
    /* Where experts stand beside a feed-forward part that all tokens share, each between norms of
     * its own (Gemma 4): norms of what experts read and give, and of what the shared part gives;
     * whole tensors' names of what the router's norm is times, and each expert's weight. NULL: they
     * read what the layer's own norm gives. */
    const char *experts_before, *experts_after, *dense_after;
    const char *router_gain, *gains;
    /* What may stand for all experts, whole names: gate and up, down (pith_fused_spec). */
    const char *fused_gate_up, *fused_down, *fused_gate_up_bias, *fused_down_bias;
    bool fused_turned, fused_adjacent, fused_either, fused_only;
};

/* Latent attention, where the shape says so. */
struct pith_family_latent {
    const char *q, *q_a, *q_a_norm, *q_b; /* q, or the others: by the shape's q_rank */
    const char *kv_a, *kv_a_norm, *kv_b;
};

/* The gated delta rule. */
struct pith_family_delta {
    const char *qkvz, *ba;       /* by key heads; or these apart: */
    const char *qkv, *z, *b, *a; /* qkv: all of q, all of k, all of v */
    const char *conv, *norm, *out;
    const char *a_log, *dt_bias; /* whole tensors' names */
};

/* What a branch's parts are handed: the register that they read, what rescales it, and the one that
 * the result goes to. */
struct pith_family_branch {
    unsigned in, out;
    struct pith_fold fold;
};
typedef void pith_family_branch_fn(struct pith_plan_maker *m, const struct pith_family_branch *b);

/* Names within a layer, without ".weight"; NULL where there is none. */
struct pith_family {
    const char *before_attention, *after_attention; /* norms: of the stream, of what is added */
    const char *before_mlp, *after_mlp;
    const char *q, *k, *v, *o, *qkv;        /* qkv: q, k and v in one */
    const char *q_norm, *k_norm;            /* where the shape says qk_norm */
    const char *gate, *up, *down, *gate_up; /* gate_up: both in one; no gate: an ungated one */
    const char *sinks;                      /* a whole tensor's name */
    const char *told_gate, *told_project, *told_after; /* where the shape has `told`; a norm */
    const char *scalar; /* what the layer gives is times that one number; a whole tensor's name */
    enum pith_qk_norm qk_norm;
    bool parallel;      /* attention and feed-forward read the same stream, and are added at once */
    bool centred;       /* LayerNorm */
    bool norm_bias;     /* with biases */
    bool plus_one;      /* gains are 1 + w */
    bool rope_adjacent; /* pairs are neighbours */
    bool in_out;        /* dense matrices are stored with rows and columns exchanged */
    bool qkv_by_head;   /* its rows are q, k and v of the first head, then of the second ... */
    struct pith_family_moe moe;
    struct pith_family_latent latent;
    struct pith_family_delta delta;
    pith_family_branch_fn *recur; /* what stands for attention in the layers that keep a state */
};
/* Llama's own. */
#define PITH_FAMILY_ATTENTION                                                                      \
    .q = "self_attn.q_proj", .k = "self_attn.k_proj", .v = "self_attn.v_proj",                     \
    .o = "self_attn.o_proj"
#define PITH_FAMILY_MLP .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"
#define PITH_FAMILY_NORMS                                                                          \
    .before_attention = "input_layernorm", .before_mlp = "post_attention_layernorm"
#define PITH_FAMILY_NORMS_AROUND                                                                   \
    .before_attention = "input_layernorm", .after_attention = "post_attention_layernorm",          \
    .before_mlp = "pre_feedforward_layernorm", .after_mlp = "post_feedforward_layernorm"
#define PITH_FAMILY_EXPERTS                                                                        \
    .router = "mlp.gate", .gate = "mlp.experts.%u.gate_proj", .up = "mlp.experts.%u.up_proj",      \
    .down = "mlp.experts.%u.down_proj"
#define PITH_FAMILY_FUSED                                                                          \
    .fused_gate_up = "mlp.experts.gate_up_proj", .fused_down = "mlp.experts.down_proj"
#define PITH_FAMILY_BLOCK_SPARSE                                                                   \
    .router = "block_sparse_moe.gate", .gate = "block_sparse_moe.experts.%u.w1",                   \
    .up = "block_sparse_moe.experts.%u.w3", .down = "block_sparse_moe.experts.%u.w2"
#define PITH_FAMILY_GRANITE_EXPERTS                                                                \
    .router = "block_sparse_moe.router.layer", .gate = "block_sparse_moe.experts.%u.w1",           \
    .up = "block_sparse_moe.experts.%u.w3", .down = "block_sparse_moe.experts.%u.w2",              \
    .fused_gate_up = "block_sparse_moe.input_linear.weight",                                       \
    .fused_down = "block_sparse_moe.output_linear.weight", .fused_only = true
#define PITH_FAMILY_QK_NORM .q_norm = "self_attn.q_norm", .k_norm = "self_attn.k_norm"
extern const struct pith_family pith_family_llama;
/* DeepSeek V3's, and what took its shape. */
extern const struct pith_family pith_family_deepseek;

/* The names of Llama's checkpoints; and what of them is within another model. */
#define PITH_FAMILY_NAMES_IN(prefix)                                                               \
    .layers = prefix "layers.", .embed = prefix "embed_tokens", .norm = prefix "norm"
#define PITH_FAMILY_NAMES                                                                          \
    {                                                                                              \
        PITH_FAMILY_NAMES_IN("model."), .head = "lm_head"                                          \
    }

#define PITH_FAMILY_LATENT                                                                         \
    .latent = {.q = "self_attn.q_proj",                                                            \
               .q_a = "self_attn.q_a_proj",                                                        \
               .q_a_norm = "self_attn.q_a_layernorm",                                              \
               .q_b = "self_attn.q_b_proj",                                                        \
               .kv_a = "self_attn.kv_a_proj_with_mqa",                                             \
               .kv_a_norm = "self_attn.kv_a_layernorm",                                            \
               .kv_b = "self_attn.kv_b_proj"}

/* Latent attention; the delta rule; Mamba 2, whose names are all alike. */
pith_family_branch_fn pith_family_latent, pith_family_delta, pith_family_mamba;
/* The layer whose keys and values one attends to, and whether it is one that others read so. */
uint32_t pith_family_kv_source(const struct pith_shape *s, uint32_t layer);
bool pith_family_kv_left(const struct pith_shape *s, uint32_t layer);
/* A linear, computed from reg[0] into reg[1], with reg[2] to round its input in; its index. */
uint32_t pith_family_compute(struct pith_plan_maker *m, const char *name, uint32_t rows, bool bias,
                             const unsigned reg[3]);
/* The columns of register FUSED, side by side, to registers of their own. */
void pith_family_split(struct pith_plan_maker *m, uint32_t parts, const uint32_t *dim,
                       const uint8_t *to);
/* Register `reg`, `dim` wide, times what `by` holds, number by number. */
void pith_family_times(struct pith_plan_maker *m, unsigned reg, unsigned by, uint32_t dim);
/* The vector `module`.weight of that length. */
uint32_t pith_family_vector(struct pith_plan_maker *m, const char *module, uint32_t length);
/* The shape's causal convolution of `dim` channels of a register, which keeps the newest inputs at
 * the beginning of the layer's state; how many floats of it. */
struct pith_family_conv {
    const char *name;
    unsigned reg;
    uint32_t dim;
    bool silu, last; /* see struct pith_node */
};
uint32_t pith_family_convolve(struct pith_plan_maker *m, const struct pith_family_conv *c);

/* The plan of m->arch->family's layer. */
enum pith_status pith_family_plan(struct pith_plan_maker *m, struct pith_error *err);

/* --- config.json ------------------------------------------------------------------------------ */

/* What an architecture calls its sizes, where that is another name; NULL: the usual one. */
struct pith_family_keys {
    const char *hidden, *ffn, *layers, *heads, *positions, *tied, *act;
};

/* Values for keys that are absent: those of the architecture's class in transformers. */
struct pith_family_defaults {
    struct pith_family_keys key;
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
    bool rope_kinds;   /* layers with a window may have rotary parameters of their own */
};

/* Sizes, activation, eps, tying and rope; window, biases and q/k norm are left 0. */
enum pith_status pith_family_read(const struct pith_config *c,
                                  const struct pith_family_defaults *defaults,
                                  struct pith_shape *shape, struct pith_error *err);

/* An integer in 1..hi; a missing key is an error when absent is 0. */
enum pith_status pith_family_read_size(const struct pith_config *c, const char *key, int64_t hi,
                                       uint32_t absent, uint32_t *out, struct pith_error *err);

/* A positive number into *out, which is left where the key is missing or null; of a cap null is 0.
 */
enum pith_status pith_family_read_scale(const struct pith_config *c, const char *key, double *out,
                                        struct pith_error *err);
enum pith_status pith_family_read_cap(const struct pith_config *c, const char *key, double *out,
                                      struct pith_error *err);

/* "sliding_window": *window is 0 when it is null, `absent` when it is missing. */
enum pith_status pith_family_read_window(const struct pith_config *c, uint32_t absent,
                                         uint32_t *window, struct pith_error *err);

/* The same into the shape; where there is one, all layers have it. */
enum pith_status pith_family_read_all_windows(const struct pith_config *c, uint32_t absent,
                                              struct pith_shape *shape, struct pith_error *err);

/* "layer_types" into *set: the layers of the kind `name`; every other must be of the kind `other`.
 * What stands behind the last layer is not read: a model may be cut short, or list layers for
 * drafts. *set is left where the key is missing or null. */
enum pith_status pith_family_read_layer_types(const struct pith_config *c,
                                              const struct pith_shape *shape, const char *name,
                                              const char *other, struct pith_layer_set *set,
                                              struct pith_error *err);

/* The window and the layers that have it: by "layer_types", else by "sliding_window_pattern"
 * (`every` where it is missing; a word needs "layer_types"), of which every n-th has none. */
enum pith_status pith_family_read_pattern(const struct pith_config *c, uint32_t absent,
                                          uint32_t every, struct pith_shape *shape,
                                          struct pith_error *err);

/* The layers that do not rotate: 0 in "no_rope_layers", without it every
 * "no_rope_layer_interval"-th (`every` where that is missing). */
enum pith_status pith_family_read_unrotated(const struct pith_config *c, uint32_t every,
                                            struct pith_shape *shape, struct pith_error *err);

/* What an architecture calls the numbers of its experts: how many there are and a token takes
 * (the first of the names that is there), how wide one is (NULL: "intermediate_size"); and which
 * rules it has keys for. */
struct pith_family_moe_keys {
    const char *count[2], *taken[2], *width;
    bool groups;       /* "n_group", "topk_group" */
    bool renormalised; /* "norm_topk_prob" */
    bool scale;        /* "routed_scaling_factor" */
};
/* Of Qwen's, of DeepSeek's, and of those whose every layer is a mixture. */
extern const struct pith_family_moe_keys pith_family_moe_qwen, pith_family_moe_deepseek,
    pith_family_moe_local;

/* These into shape->moe, which begins as `absent`; which layers are mixtures is left open.
 * PITH_FORMAT when they do not go together. */
enum pith_status pith_family_read_moe(const struct pith_config *c,
                                      const struct pith_family_moe_keys *keys,
                                      const struct pith_moe *absent, struct pith_shape *shape,
                                      struct pith_error *err);
/* The width of what all tokens share: `key` times that of an expert, which is read before. */
enum pith_status pith_family_read_shared(const struct pith_config *c, const char *key,
                                         uint32_t absent, struct pith_shape *shape,
                                         struct pith_error *err);
/* Which layers are mixtures: those behind the first "first_k_dense_replace". */
enum pith_status pith_family_read_dense_first(const struct pith_config *c, uint32_t absent,
                                              struct pith_shape *shape, struct pith_error *err);
/* Which layers are mixtures, by "decoder_sparse_step" and "mlp_only_layers". */
enum pith_status pith_family_read_sparse_layers(const struct pith_config *c,
                                                struct pith_shape *shape, struct pith_error *err);

/* Ranks and widths into shape->latent, which begins as `absent`, and with them the width of heads
 * and the scale of scores; after pith_family_read(). */
enum pith_status pith_family_read_latent(const struct pith_config *c,
                                         const struct pith_latent_shape *absent,
                                         struct pith_shape *shape, struct pith_error *err);
/* Keys and values that layers share, and what layers are told of tokens: "num_kv_shared_layers"
 * (before which there must be a layer of each kind that shares), "use_double_wide_mlp" of those,
 * "hidden_size_per_layer_input" (`told` where that is missing), "vocab_size_per_layer_input"; after
 * which layers have a window is known. */
enum pith_status pith_family_read_small(const struct pith_config *c, uint32_t told,
                                        struct pith_shape *shape, struct pith_error *err);
/* The heads of the delta rule, and which layers have it: by "layer_types", or all but every
 * "full_attention_interval"th. */
enum pith_status pith_family_read_delta(const struct pith_config *c, struct pith_shape *shape,
                                        struct pith_error *err);
/* Mamba 2's heads, groups and convolution ("mamba_n_heads" and so on); which layers have them is
 * left open. */
enum pith_status pith_family_read_mamba(const struct pith_config *c, struct pith_shape *shape,
                                        struct pith_error *err);
/* Granite's whole shape, in all its forms but for experts. */
enum pith_status pith_family_read_granite(const struct pith_config *c, struct pith_shape *shape,
                                          struct pith_error *err);

/* The window rules of Qwen2 and Qwen3: "use_sliding_window", "sliding_window", and which layers by
 * "layer_types" or "max_window_layers". */
enum pith_status pith_family_read_qwen_window(const struct pith_config *c, struct pith_shape *shape,
                                              struct pith_error *err);

#endif
