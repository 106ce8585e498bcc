/* backend/layer.h: what layers other than Llama's are made of beside backend/backend.h. Float32,
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

/* cap tanh(x / cap) of one number. */
float pith_softcap_one(float cap, float x);

#endif
