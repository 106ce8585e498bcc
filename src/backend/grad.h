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

/* Of pith_rmsnorm(), n vectors of dim: with r = 1 / sqrt(mean(x^2) + eps) and z = weight * dy,
 * dx = r z - x r^3 mean(x z). dx may be dy; with `accumulate` dx grows by it. */
struct pith_rmsnorm_grad {
    const float *x, *weight, *dy;
    size_t n, dim;
    double eps;
    float *dx;
    bool accumulate;
};
void pith_rmsnorm_grad(struct pith_backend *b, const struct pith_rmsnorm_grad *g);

/* Of pith_silu_mul(), from its inputs: with s = 1 / (1 + exp(-gate)),
 * d_gate = dy up s (1 + gate (1 - s)) and d_up = dy gate s. d_gate may be dy. */
struct pith_silu_grad {
    const float *gate, *up, *dy;
    size_t count;
    float *d_gate, *d_up;
};
void pith_silu_mul_grad(struct pith_backend *b, const struct pith_silu_grad *g);

/* Of causal attention of a sequence with itself, positions 0 .. n - 1 (struct pith_attention with
 * start 0). For a query i and the keys j that it sees, p = softmax(scale q_i k_j):
 *     d_v_j = sum p d_out_i,   ds = p (d_out_i v_j - d_out_i out_i) scale,
 *     d_q_i = sum ds k_j,      d_k_j = sum ds q_i
 * (the row's sum of p dp is d_out out: Dao et al. 2022, FlashAttention). p is computed anew, some
 * queries at a time. Query heads that share a kv head add up in order. */
struct pith_attention_grad {
    size_t n, heads, kv_heads, head_dim;
    size_t window; /* 0: all */
    float scale;
    const float *q, *k, *v;   /* [n][heads or kv_heads][head_dim] */
    const float *out, *d_out; /* [n][heads][head_dim] */
    float *d_q, *d_k, *d_v;   /* as q, k, v; overwritten */
    float *work;              /* pith_attention_grad_work() floats */
};
void pith_attention_grad(struct pith_backend *b, const struct pith_attention_grad *g);
/* For sequences of up to n; SIZE_MAX when it overflows. */
size_t pith_attention_grad_work(unsigned threads, size_t n);

#endif
