/* backend/layer.h: what layers other than Llama's need in addition to backend/backend.h. Float32,
 * row by row or element by element: the same bits for any number of rows and threads, on any
 * instruction set. */
#ifndef PITH_BACKEND_LAYER_H
#define PITH_BACKEND_LAYER_H

#include "backend/backend.h"

/* Activations. GELU: x Phi(x) (Hendrycks and Gimpel 2016), exactly or by the tanh of its section 2;
 * clamped: gpt-oss's, see below. */
enum pith_act {
    PITH_ACT_SILU,
    PITH_ACT_GELU,
    PITH_ACT_GELU_TANH,
    PITH_ACT_RELU,
    PITH_ACT_RELU2, /* max(x, 0)^2 */
    PITH_ACT_SIGMOID,
    PITH_ACT_NONE, /* x itself */
    PITH_ACT_CLAMPED
};

/* gate[i] = act(gate[i]) * up[i]; without up (NULL) gate[i] = act(gate[i]). CLAMPED, with g =
 * min(gate, limit) and u = up within -limit .. limit: g / (1 + exp(-alpha g)) * (u + 1). */
struct pith_gating {
    enum pith_act act;
    float limit, alpha;
    float *gate;
    const float *up;
    size_t count;
};
void pith_gate(struct pith_backend *b, const struct pith_gating *g);

/* y = (x - mean(x)) / sqrt(var(x) + eps) * weight + bias, for n vectors of dim; weight has `period`
 * vectors that follow each other over and over (1: one for all); weight and bias may be NULL, y may
 * be x. (Ba, Kiros and Hinton 2016.) Sums in double. */
struct pith_layernorm {
    const float *x, *weight, *bias;
    size_t n, dim, period;
    double eps;
    float *y;
};
void pith_layernorm(struct pith_backend *b, const struct pith_layernorm *l);

/* Rotates, in place, elements [offset, offset + dim) of each of `heads` vectors of `stride` in n
 * rows. Pairs are (i, i + dim / 2), or with `adjacent` (2 i, 2 i + 1). cos and sin: [n][dim / 2].
 */
struct pith_rope_part {
    float *x;
    size_t n, heads, stride, offset, dim;
    bool adjacent;
    const float *cos, *sin;
};
void pith_rope_part(struct pith_backend *b, const struct pith_rope_part *r);

/* y[i] = fma(x[i], scale, y[i]). */
void pith_add_scaled(struct pith_backend *b, const float *x, float scale, float *y, size_t count);

/* x[i] = cap tanh(x[i] / cap). */
void pith_softcap(struct pith_backend *b, float cap, float *x, size_t count);

/* --- latent attention (DeepSeek-AI 2024, section 2.1), absorbed ------------------------------- */

/* The two parts of kv_b, [heads][nope + value][rank], as they are multiplied with: in float32,
 * exactly the matrix's values, for each head
 *   k: [nope][rank padded to 16] and v: blocks of 32 rows, [rank][32] each. */
struct pith_latent_parts {
    size_t heads, nope, value, rank;
    float *k, *v; /* pith_latent_k_floats(), pith_latent_v_floats() */
};
size_t pith_latent_k_floats(const struct pith_latent_parts *p);
size_t pith_latent_v_floats(const struct pith_latent_parts *p);
/* Rows [row, row + n) of kv_b, all of one head, into the parts. */
void pith_latent_put(const struct pith_latent_parts *p, size_t row, size_t n, const float *rows);

/* out[n][heads][rank + rope]: of each head of q[n][heads][nope + rope] its first part times k_b,
 * one chain over `nope`, and its second as it is. */
void pith_latent_queries(struct pith_backend *b, const struct pith_latent_parts *p, const float *q,
                         size_t n, size_t rope, float *out);
/* out[n][heads][value] = v_b in[n][heads][rank], chains over `rank`. */
void pith_latent_values(struct pith_backend *b, const struct pith_latent_parts *p, const float *in,
                        size_t n, float *out);

/* --- short convolution, gated delta rule (Yang, Kautz and Hatamizadeh 2024) ------------------- */

/* How the numbers of a state are stored: FP8 as they are, without a scale, the largest of its
 * numbers for what is larger. */
enum pith_state_form {
    PITH_FORM_F32,
    PITH_FORM_BF16,
    PITH_FORM_E4M3,
    PITH_FORM_E5M2,
    PITH_FORM_COUNT
};
/* Bytes of one. */
static inline size_t pith_form_width(enum pith_state_form form)
{
    return form == PITH_FORM_F32 ? 4 : form == PITH_FORM_BF16 ? 2 : 1;
}
/* n of them to bytes, rounded to nearest, ties to even, and back. */
void pith_form_put(const struct pith_backend *b, enum pith_state_form form, size_t n,
                   const float *x, void *to);
void pith_form_get(const struct pith_backend *b, enum pith_state_form form, size_t n,
                   const void *from, float *x);

/* In place: x[t][c] = act(bias[c] + sum over j < taps of weight[c][j] x[t - taps + 1 + j][c]), the
 * sum in that order; act is SiLU or nothing. `tail` [taps - 1][channels] are the inputs before
 * x[0] on entry, the newest on return. taps <= PITH_CONV_TAPS. */
enum { PITH_CONV_TAPS = 16 };
struct pith_conv {
    float *x, *tail;
    size_t n, channels, taps;
    const float *weight, *bias; /* the latter may be NULL */
    bool silu;
    enum pith_state_form form; /* that what the tail receives is rounded to */
};
void pith_conv(struct pith_backend *b, const struct pith_conv *c);

/* A row of mixed[n] holds the queries and keys of key_heads heads of key_dim, then the values of
 * value_heads heads of value_dim. Head v, with h = v key_heads / value_heads and each of q and k
 * over sqrt(sum of squares + 1e-6), q over sqrt(key_dim) too, goes token by token:
 *   g = exp(-exp(a_log[v]) softplus(a[t][v] + dt_bias[v])),   beta = sigmoid(beta[t][v])
 *   d = beta (value - g S^T k),   S = g S + k d^T,   out = S^T q
 * `state` is S, [value_heads][key_dim][value_dim padded to 16]. Bits do not depend on how tokens
 * are cut into calls. */
struct pith_delta {
    const float *mixed, *a, *beta, *a_log, *dt_bias;
    size_t n, key_heads, value_heads, key_dim, value_dim;
    float *state, *out; /* out[n][value_heads][value_dim] */
    enum pith_state_form
        form; /* S is rounded to it after each token, which has seen it as it was */
};
enum { PITH_DELTA_DIM = 8192 }; /* key_dim and value_dim, dim and states, at most */
void pith_delta(struct pith_backend *b, const struct pith_delta *d);
/* Floats of its state; SIZE_MAX when they overflow. */
size_t pith_delta_state(size_t value_heads, size_t key_dim, size_t value_dim);

/* Mamba 2 (Dao and Gu 2024). A row of mixed[n] holds x of `heads` heads of dim, then B and C of
 * `groups` groups of `states`; step[n][heads]. Head h, with group h groups / heads, goes token by
 * token:
 *   dt = softplus(step[t][h] + dt_bias[h]) within least .. most,   g = exp(-exp(a_log[h]) dt)
 *   S = g S + B (dt x)^T,   out = S^T C + skip[h] x
 * `state` is S, [heads][states][dim padded to 16]. Bits do not depend on how tokens are cut into
 * calls. */
struct pith_scan {
    const float *mixed, *step, *a_log, *dt_bias, *skip;
    size_t n, heads, dim, groups, states;
    float least, most;
    float *state, *out;        /* out[n][heads][dim] */
    enum pith_state_form form; /* as above */
};
void pith_scan(struct pith_backend *b, const struct pith_scan *s);
/* Floats of its state; SIZE_MAX when they overflow. */
static inline size_t pith_scan_state(size_t heads, size_t dim, size_t states)
{
    return pith_delta_state(heads, states, dim);
}

#endif
