/* model/build/build.h: builders: the parts of a layer, from which an architecture's file writes its
 * plan (model/plan.h) as a paper draws it:
 *
 *     declare the norms, in the order in which a checkpoint lists them
 *     branch:  what a part reads: the stream, or its norm
 *     attention, mlp, experts, ...: from a branch into its register
 *     add:     that register to the stream
 *
 * Each builder takes a small struct of what it needs. Names are those within a layer, without
 * ".weight" except where noted. A failure (no memory, a name too long) is remembered by the maker;
 * what is built after it is without effect. */
#ifndef PITH_MODEL_BUILD_BUILD_H
#define PITH_MODEL_BUILD_BUILD_H

#include "model/arch.h"

/* The registers of a layer's program. Architectures name OUT and BRANCH, where a part's result
 * goes, and seldom another. */
enum {
    X = PITH_REG_STREAM,
    TOKEN = PITH_REG_TOKEN,
    NORMED,
    Q,
    K,
    V,
    GATE,
    UP,
    OUT,
    BRANCH,
    FUSED,
    LOGITS,
    ROWS,
    RESULT,
    SHARED_K, /* keys and values that later layers read: of layers without, then with a window */
    SHARED_V,
    SHARED_WINDOW_K,
    SHARED_WINDOW_V
};

/* --- norms, branches -------------------------------------------------------------------------- */

/* A norm of the stream's width, of the architecture's kind (struct pith_norm_kind). */
struct pith_norm {
    bool there;          /* false: there is none */
    uint32_t gain, bias; /* vectors, or PITH_NO_PART */
};
/* A norm between the stream and what reads it; and one of what a part gives. */
struct pith_norm pith_build_norm(struct pith_plan_maker *m, const char *module);
struct pith_norm pith_build_norm_after(struct pith_plan_maker *m, const char *module);
/* One without a gain and a bias. */
struct pith_norm pith_build_norm_bare(void);
/* Computes it. */
void pith_build_normed(struct pith_plan_maker *m, struct pith_norm n, unsigned in, unsigned out);

/* What a part reads and where its result goes; a division of what it reads, channel by channel, can
 * be moved into `fold`. */
struct pith_branch {
    unsigned in, out;
    struct pith_fold fold;
};
/* Computes the norm of the stream, which the branch reads; without a norm it reads the stream. */
struct pith_branch pith_build_branch(struct pith_plan_maker *m, struct pith_norm n, unsigned out);
/* stream += the shape's branch_scale * the register; or the norm of it, which replaces it. */
void pith_build_add(struct pith_plan_maker *m, unsigned result);
void pith_build_add_normed(struct pith_plan_maker *m, unsigned result, struct pith_norm after);
/* A fold into such a norm. */
struct pith_fold pith_build_fold(struct pith_norm n);

/* --- attention -------------------------------------------------------------------------------- */

/* How heads of queries and keys are normalised. */
enum pith_head_norm_kind {
    PITH_HEADS_PLAIN,    /* not at all */
    PITH_HEADS_EACH,     /* each head, by one gain for all, or without a gain */
    PITH_HEADS_TOGETHER, /* all heads of a token at once */
    PITH_HEADS_CENTRED   /* each head, centred, by a separate gain */
};
struct pith_head_norm {
    enum pith_head_norm_kind kind;
    uint32_t gain; /* a vector, or PITH_NO_PART */
};
/* Attention over keys and values. */
struct pith_attention_spec {
    const char *q, *k, *v, *o;
    const char *qkv;  /* q, k and v in one linear, in place of the first three */
    bool qkv_by_head; /* its rows are q, k and v of the first head, then of the second ... */
    uint32_t heads, kv_heads, dim;
    bool bias, o_bias; /* of q, k and v; of o */
    bool gated;        /* q gives as much again, a sigmoid of which multiplies the heads' result */
    bool v_is_k;       /* no projection of values: they are keys before their norm */
    struct pith_head_norm q_norm, k_norm, v_norm;
    double clip;               /* q, k and v are clamped to it; 0: not */
    uint32_t rotary;           /* elements at a head's beginning that are rotated; 0: none */
    uint8_t rope_table;        /* by which of the model's tables */
    bool rope_adjacent;        /* rotated pairs are neighbours, else half of `rotary` apart */
    struct pith_growth growth; /* of queries */
    double scale, cap;         /* of scores; cap 0: none */
    uint32_t window;           /* 0: all positions are seen */
    bool chunked; /* it does not slide: positions see those of the same run of `window` tokens */
    bool sinks;
    uint32_t sink; /* a vector, with `sinks` */
    /* Keys and values of another layer (`shared`: of layer `of`), or left for others (`leaves`); in
     * the registers that these share. */
    bool shared, leaves;
    uint32_t of;
    uint8_t shared_k, shared_v;
};
/* Llama's: its names, the shape's sizes and positions for this layer. */
struct pith_attention_spec pith_attention_of(const struct pith_plan_maker *m);
/* Declares the norm of so many heads of `dim`: its gain is the vector `module`.weight. */
struct pith_head_norm pith_build_head_norm(struct pith_plan_maker *m, const char *module,
                                           enum pith_head_norm_kind kind, uint32_t heads,
                                           uint32_t dim);
/* The norms of its queries, and of its keys where they are its own, by Llama's names:
 * "self_attn.q_norm", "self_attn.k_norm". */
void pith_build_head_norms(struct pith_plan_maker *m, struct pith_attention_spec *a,
                           enum pith_head_norm_kind kind);
void pith_build_attention(struct pith_plan_maker *m, const struct pith_branch *b,
                          const struct pith_attention_spec *a);

/* Latent attention (DeepSeek-AI 2024), of the sizes in the shape's `latent`. */
struct pith_latent_spec {
    const char *q; /* without a latent of queries; else: */
    const char *q_a, *q_a_norm, *q_b;
    const char *kv_a, *kv_a_norm, *kv_b, *o;
    bool bias; /* of q_a, kv_a and o */
};
void pith_build_latent(struct pith_plan_maker *m, const struct pith_branch *b,
                       const struct pith_latent_spec *l);

/* --- what stands for attention in layers that keep a state ------------------------------------ */

/* The gated delta rule (Yang et al. 2024), of the shape's `delta`. */
struct pith_delta_spec {
    const char *qkvz, *ba;       /* by key heads; or these apart: */
    const char *qkv, *z, *b, *a; /* qkv: all of q, all of k, all of v */
    const char *conv, *norm, *out;
    const char *a_log, *dt_bias; /* whole tensors' names */
};
void pith_build_delta(struct pith_plan_maker *m, const struct pith_branch *b,
                      const struct pith_delta_spec *d);
/* Mamba 2's scan (Dao and Gu 2024), of the shape's `scan`; its names are the same everywhere. */
void pith_build_scan(struct pith_plan_maker *m, const struct pith_branch *b);

/* A causal convolution of `dim` channels of a register by the shape's `taps`; it stores the newest
 * inputs at the beginning of the layer's state. Returns how many floats of it. */
struct pith_convolution_spec {
    const char *name;
    unsigned reg;
    uint32_t dim;
    bool silu, last; /* see struct pith_node */
};
uint32_t pith_build_convolution(struct pith_plan_maker *m, const struct pith_convolution_spec *c);

/* --- feed-forward ----------------------------------------------------------------------------- */

/* down(act(gate(x)) * up(x)), or down(act(up(x))) without a gate. */
struct pith_mlp_spec {
    const char *gate, *up, *down;
    const char *gate_up;          /* both in one, in place of these */
    const char *site, *down_site; /* what its inputs are called: "gate_up", "down" */
    uint32_t ffn;
    bool bias;
};
/* Llama's: its names, the shape's width and biases. */
struct pith_mlp_spec pith_mlp_of(const struct pith_plan_maker *m);
/* The site that it begins with. */
uint32_t pith_build_mlp(struct pith_plan_maker *m, const struct pith_branch *b,
                        const struct pith_mlp_spec *p);

/* A mixture of experts, of the shape's `moe`; "%u" stands for the expert. */
struct pith_experts_spec {
    const char *router, *gate, *up, *down; /* "mlp.experts.%u.gate_proj" */
    bool corrected;                        /* the scores, by the vector `correction` */
    uint32_t correction;
    const char *gains; /* what each expert's weight is times: a whole tensor's name, or NULL */
    bool normed_after; /* the sum is normalised before it is added to the stream */
    /* What all tokens share, where the shape has it: the three parts of `shared` are
     * ".gate_proj" and so on; or these two in place of it. */
    const char *shared, *shared_gate, *shared_gate_up, *shared_down;
    bool shared_bias;
    /* What may stand for all experts, whole names (struct pith_fused_spec). */
    const char *fused_gate_up, *fused_down, *fused_gate_up_bias, *fused_down_bias;
    bool fused_transposed, fused_adjacent, fused_either, fused_only;
};
/* Declares the vector that corrects scores, where the layer is a mixture and has one; `row`: it is
 * stored as [1][experts]. */
void pith_build_correction(struct pith_plan_maker *m, struct pith_experts_spec *x,
                           const char *tensor, bool row);
/* Router, experts, and what all tokens share. */
void pith_build_experts(struct pith_plan_maker *m, const struct pith_branch *b,
                        const struct pith_experts_spec *x);
/* The router's logits, the site that they begin with; and the experts' sum by them. */
uint32_t pith_build_router(struct pith_plan_maker *m, const struct pith_branch *b,
                           const char *router);
void pith_build_experts_sum(struct pith_plan_maker *m, const struct pith_branch *b,
                            const struct pith_experts_spec *x);
/* Whether layer m->layer is a mixture. */
bool pith_layer_is_sparse(const struct pith_plan_maker *m);

/* --- whole layers that many architectures have ------------------------------------------------ */

/* Two norms: before attention, before the feed-forward part. */
struct pith_norms {
    struct pith_norm attention, mlp;
};
/* x += attention(norm(x)), x += mlp(norm(x)). `x` is what stands for the latter in layers that are
 * mixtures; NULL: none are. `p` may be NULL where all are. */
void pith_build_sequential(struct pith_plan_maker *m, const struct pith_norms *before,
                           const struct pith_attention_spec *a, const struct pith_mlp_spec *p,
                           const struct pith_experts_spec *x);
/* What follows attention, whose result is in OUT: that is added, x += mlp(norm(x)). */
void pith_build_rest(struct pith_plan_maker *m, struct pith_norm before,
                     const struct pith_mlp_spec *p, const struct pith_experts_spec *x);
/* A dense part or a mixture, by the layer, from a branch into its register. */
void pith_build_feed_forward(struct pith_plan_maker *m, const struct pith_branch *b,
                             const struct pith_mlp_spec *p, const struct pith_experts_spec *x);
/* "input_layernorm" and "post_attention_layernorm". */
struct pith_norms pith_build_norms(struct pith_plan_maker *m);
/* x += after(attention(before(x))), x += after(mlp(before(x))): norms on both sides, either of
 * which may be missing. */
void pith_build_around(struct pith_plan_maker *m, const struct pith_norms *before,
                       const struct pith_norms *after, const struct pith_attention_spec *a,
                       const struct pith_mlp_spec *p);
/* Gemma's norms before both parts, and behind them. */
struct pith_norms pith_build_norms_before(struct pith_plan_maker *m);
struct pith_norms pith_build_norms_after(struct pith_plan_maker *m);
/* x += attention(y) + mlp(y) with y = norm(x). */
void pith_build_parallel(struct pith_plan_maker *m, struct pith_norm norm,
                         const struct pith_attention_spec *a, const struct pith_mlp_spec *p);
/* Llama's layer; the same with norms of its heads, and with experts where `x` is not NULL. */
void pith_build_llama(struct pith_plan_maker *m);
void pith_build_llama_with(struct pith_plan_maker *m, enum pith_head_norm_kind kind,
                           const struct pith_experts_spec *x);
/* OLMo 2's: norms after both parts, none before them, and norms of heads. */
void pith_build_olmo(struct pith_plan_maker *m, enum pith_head_norm_kind kind);
/* DeepSeek V3's. */
void pith_build_deepseek(struct pith_plan_maker *m);

/* --- smaller parts ---------------------------------------------------------------------------- */

/* The vector `module`.weight of that length. */
uint32_t pith_build_vector(struct pith_plan_maker *m, const char *module, uint32_t length);
/* A linear, computed from reg[0] into reg[1], with reg[2] to round its input in; its index. */
uint32_t pith_build_linear(struct pith_plan_maker *m, const char *name, uint32_t rows, bool bias,
                           const unsigned reg[3]);
/* The same, whose result is added to the stream and whose columns devices share, in whole heads. */
void pith_build_out(struct pith_plan_maker *m, const char *name, bool bias, uint32_t heads,
                    const unsigned reg[3]);
/* The bias of a norm or a filter: the vector `module`.bias. */
uint32_t pith_build_bias(struct pith_plan_maker *m, const char *module, uint32_t length);
/* The columns of register FUSED, side by side, to separate registers; or the parts, `dim` wide
 * each, of every head. */
void pith_build_split(struct pith_plan_maker *m, uint32_t parts, const uint32_t *dim,
                      const uint8_t *to);
void pith_build_split_heads(struct pith_plan_maker *m, uint32_t parts, uint32_t heads, uint32_t dim,
                            const uint8_t *to);
/* Columns of `from`, `dim` of them, in another register too. */
void pith_build_copy(struct pith_plan_maker *m, unsigned from, unsigned to, uint32_t dim);
/* The model's activation of register `gate`, times register UP unless `alone`, in place; and
 * act(reg) * by, in place. */
void pith_build_activate(struct pith_plan_maker *m, unsigned gate, bool alone, uint32_t dim);
void pith_build_times(struct pith_plan_maker *m, unsigned reg, unsigned by, uint32_t dim,
                      enum pith_act act);
/* OUT += BRANCH, times the sigmoid of the register `gate` (PITH_NO_PART: none). */
void pith_build_mix(struct pith_plan_maker *m, uint32_t gate);
/* Learned positions, added to the stream in the first layer. */
void pith_build_positions(struct pith_plan_maker *m);
/* What rescales the input of `down`: it is linear in what `up` gives, but for gpt-oss's gate. */
struct pith_fold pith_build_fold_up(const struct pith_plan_maker *m, uint32_t up);
/* All linears may be stored columns by rows, each under its own name. */
void pith_build_exchanged(struct pith_plan_maker *m);

#endif
