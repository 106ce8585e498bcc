/* backend/grad.h: gradients of the operations of backend/backend.h that a transformer block is made
 * of, for techniques that learn from a block's output. Products of matrices need nothing here:
 * their gradients are products, by pith_gemm().
 *
 * dy is the gradient with respect to an operation's result, dx with respect to its input. Float32,
 * sums in a fixed order: the same bits for any thread count and instruction set. Nothing allocates;
 * nothing may be called from inside a pool task. */
#ifndef PITH_BACKEND_GRAD_H
#define PITH_BACKEND_GRAD_H

#include "backend/backend.h"
#include "backend/layer.h"

/* Of pith_rmsnorm(), n vectors of dim: with r = 1 / sqrt(mean(x^2) + eps) and z = weight * dy,
 * dx = r z - x r^3 mean(x z). weight may be NULL (z = dy), or `period` vectors that follow each
 * other over and over (0: one for all). dx may be dy; with `accumulate` dx grows by it. With
 * `centred` of pith_layernorm(): with r = 1 / sqrt(var(x) + eps) and y = (x - mean(x)) r,
 * dx = r (z - mean(z) - y mean(y z)). */
struct pith_rmsnorm_grad {
    const float *x, *weight, *dy;
    size_t n, dim, period;
    double eps;
    float *dx;
    bool accumulate, centred;
};
void pith_rmsnorm_grad(struct pith_backend *b, const struct pith_rmsnorm_grad *g);

/* Of the same, with respect to its gain and bias: with y as above d_weight[j] += sum dy y and
 * d_bias[j] += sum dy over the vectors, in their order; either may be NULL. With `period` both are
 * of that many vectors, as `weight` there. */
struct pith_norm_vectors {
    const float *x, *dy;
    size_t n, dim, period;
    double eps;
    bool centred;
    float *d_weight, *d_bias;
    double *work; /* [2 * n] */
};
void pith_norm_vectors_grad(struct pith_backend *b, const struct pith_norm_vectors *g);

/* Of pith_silu_mul(), from its inputs: with s = 1 / (1 + exp(-gate)),
 * d_gate = dy up s (1 + gate (1 - s)) and d_up = dy gate s. d_gate may be dy. */
struct pith_silu_grad {
    const float *gate, *up, *dy;
    size_t count;
    float *d_gate, *d_up;
};
void pith_silu_mul_grad(struct pith_backend *b, const struct pith_silu_grad *g);

/* Of pith_gate(), from its inputs, whatever the activation; of SiLU times up as above. Without `up`
 * there is no d_up. d_gate may be dy, d_up may be gate. */
struct pith_gate_grad {
    enum pith_act act;
    float limit, alpha;
    const float *gate, *up, *dy;
    size_t count;
    float *d_gate, *d_up;
};
void pith_gate_grad(struct pith_backend *b, const struct pith_gate_grad *g);

/* Of causal attention of a sequence with itself, positions 0 .. n - 1 (struct pith_attention with
 * start 0). For a query i and the keys j that it sees, p = softmax(scale q_i k_j):
 *     d_v_j = sum p d_out_i,   ds = p (d_out_i v_j - d_out_i out_i) scale,
 *     d_q_i = sum ds k_j,      d_k_j = sum ds q_i
 * (the row's sum of p dp is d_out out: Dao et al. 2022, FlashAttention). p is computed anew, some
 * queries at a time. Query heads that share a kv head add up in order. For window, chunked, cap and
 * sinks see struct pith_attention; a sink's own gradient is not made. */
struct pith_attention_grad {
    size_t n, heads, kv_heads, head_dim;
    size_t value_dim; /* of v, out and what goes with them, 0: head_dim */
    size_t window;    /* 0: all */
    bool chunked;
    float scale, cap;
    const float *sinks;
    const float *q, *k, *v;   /* [n][heads or kv_heads][head_dim] */
    const float *out, *d_out; /* [n][heads][head_dim] */
    float *d_q, *d_k, *d_v;   /* as q, k, v; overwritten */
    float *work;              /* pith_attention_grad_work() floats */
};
void pith_attention_grad(struct pith_backend *b, const struct pith_attention_grad *g);
/* For sequences of up to n; SIZE_MAX when it overflows. */
size_t pith_attention_grad_work(unsigned threads, size_t n);

/* --- layers that keep a state, of one sequence from its beginning ----------------------------- */

/* Of pith_conv(): `of` says what it did, its x, tail and n are not looked at; x is what it read,
 * behind no tail. dx is overwritten. */
struct pith_conv_grad {
    const struct pith_conv *of;
    const float *x, *dy; /* [n][channels] */
    size_t n;
    float *dx;
};
void pith_conv_grad(struct pith_backend *b, const struct pith_conv_grad *g);

/* Of pith_delta() and pith_scan(): `of` says what they read, its state and out are not looked at.
 * All gradients are overwritten. The states of all tokens are computed anew, some at a time, from a
 * few that are saved on the way. */
struct pith_delta_grad {
    const struct pith_delta *of;
    const float *d_out;
    float *d_mixed, *d_a, *d_beta; /* as mixed, a, beta */
    float *work;                   /* pith_state_grad_work(threads, n, key_dim, value_dim) floats */
};
void pith_delta_grad(struct pith_backend *b, const struct pith_delta_grad *g);
struct pith_scan_grad {
    const struct pith_scan *of;
    const float *d_out;
    float *d_mixed, *d_step;
    float *work; /* pith_state_grad_work(threads, n, states, dim) floats */
};
void pith_scan_grad(struct pith_backend *b, const struct pith_scan_grad *g);
/* For states of [rows][cols] and sequences of up to n; SIZE_MAX when it overflows. */
size_t pith_state_grad_work(unsigned threads, size_t n, size_t rows, size_t cols);

#endif
