#include "model/same_model.h"

#include "base/mem.h"
#include "io/gguf/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct comparison {
    const struct pith_model *a, *b;
    pith_difference_fn *fn;
    void *ctx;
    bool gguf; /* one of them is such a file */
};

enum { TEXT = 48 };

static void differ_int(const struct comparison *c, const char *what, uint32_t a, uint32_t b)
{
    char x[TEXT], y[TEXT];
    if (a == b) return;
    (void)snprintf(x, sizeof x, "%u", a);
    (void)snprintf(y, sizeof y, "%u", b);
    c->fn(c->ctx, what, x, y);
}

static void differ_bool(const struct comparison *c, const char *what, bool a, bool b)
{
    if (a != b) c->fn(c->ctx, what, a ? "true" : "false", b ? "true" : "false");
}

/* As float32, which is what computes. */
static void differ_real(const struct comparison *c, const char *what, double a, double b)
{
    char x[TEXT], y[TEXT];
    if ((float)a == (float)b) return;
    (void)snprintf(x, sizeof x, "%.9g", a);
    (void)snprintf(y, sizeof y, "%.9g", b);
    c->fn(c->ctx, what, x, y);
}

/* --- what must agree -------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t at; /* of a uint32_t in struct pith_shape */
} sizes[] = {
    {"hidden_size", offsetof(struct pith_shape, hidden)},
    {"intermediate_size", offsetof(struct pith_shape, ffn)},
    {"num_hidden_layers", offsetof(struct pith_shape, layers)},
    {"vocab_size", offsetof(struct pith_shape, vocab)},
    {"num_attention_heads", offsetof(struct pith_shape, heads)},
    {"num_key_value_heads", offsetof(struct pith_shape, kv_heads)},
    {"head_dim", offsetof(struct pith_shape, head_dim)},
};

static uint32_t size_at(const struct pith_shape *s, size_t at)
{
    uint32_t n;
    memcpy(&n, (const char *)s + at, sizeof n);
    return n;
}

static bool compare_sizes(const struct comparison *c)
{
    const struct pith_shape *a = &c->a->shape, *b = &c->b->shape;
    bool same = true;
    for (size_t i = 0; i < PITH_COUNT(sizes); i++) {
        const uint32_t x = size_at(a, sizes[i].at), y = size_at(b, sizes[i].at);
        differ_int(c, sizes[i].name, x, y);
        same = same && x == y;
    }
    return same;
}

bool pith_arch_alike(const struct pith_checkpoint *c, const char *a, const char *b)
{
    if (strcmp(a, b) == 0) return true;
    struct pith_gguf_arch p, q;
    return c->file_form && pith_gguf_arch_of(a, false, NULL, &p) &&
           pith_gguf_arch_of(b, false, NULL, &q) && strcmp(p.name, q.name) == 0;
}

static void compare_arch(const struct comparison *c)
{
    const char *x = c->a->arch->name, *y = c->b->arch->name;
    const struct pith_checkpoint *file = c->a->checkpoint->file_form ? c->a->checkpoint
                                                                     : c->b->checkpoint;
    if (pith_arch_alike(file, x, y)) return;
    c->fn(c->ctx, "architectures", x, y);
}

/* The window, 0 where no layer has one, and the longest context without harm. */
static uint32_t window_of(const struct pith_shape *s)
{
    return pith_layer_any(&s->windows.layers, s->layers) ? s->windows.size : 0;
}

static uint32_t context_of(const struct pith_model *m, const struct pith_model *other)
{
    const bool known = m->arch->gguf.every; /* files of these have keys for windows */
    const uint32_t window = m->checkpoint->gguf || known ? 0 : window_of(&m->shape);
    const bool cut = other->checkpoint->gguf && window && window < m->shape.max_position;
    return cut ? window : m->shape.max_position;
}

#define AT(field) offsetof(struct pith_shape, field)
static const struct {
    const char *name;
    size_t at; /* of a double */
} reals[] = {
    {"the scale of scores", AT(scores.scale)},
    {"the cap of scores", AT(scores.cap)},
    {"the cap of logits", AT(ends.logit_cap)},
    {"the factor of the embedding", AT(ends.embed_scale)},
    {"the factor of what is added to the stream", AT(branch_scale)},
    {"the factor of logits", AT(ends.logit_scale)},
    {"the factor of experts' weights", AT(moe.scale)},
};
static const struct {
    const char *name;
    size_t at; /* of a uint32_t */
} parts[] = {
    {"elements of a head that are rotated", AT(place.rotary)},
    {"experts", AT(moe.experts)},
    {"experts that a token takes", AT(moe.taken)},
    {"an expert's width", AT(moe.ffn)},
    {"the shared expert's width", AT(moe.shared_ffn)},
    {"groups of experts", AT(moe.groups)},
    {"groups that a token looks at", AT(moe.groups_taken)},
    {"kv_lora_rank", AT(latent.rank)},
    {"q_lora_rank", AT(latent.q_rank)},
    {"learned positions", AT(place.learned)},
    {"the width of the embedding", AT(ends.width)},
    {"the width of the per-layer vectors", AT(tokens.width)},
};
#undef AT

/* What no key of all dialects says: the numbers as they are computed with. */
static void compare_numbers(const struct comparison *c)
{
    const struct pith_shape *a = &c->a->shape, *b = &c->b->shape;
    for (size_t i = 0; i < PITH_COUNT(reals); i++) {
        double x, y;
        memcpy(&x, (const char *)a + reals[i].at, sizeof x);
        memcpy(&y, (const char *)b + reals[i].at, sizeof y);
        differ_real(c, reals[i].name, x, y);
    }
    for (size_t i = 0; i < PITH_COUNT(parts); i++)
        differ_int(c, parts[i].name, size_at(a, parts[i].at), size_at(b, parts[i].at));
    differ_bool(c, "the activation", false, a->activation.kind != b->activation.kind);
    differ_real(c, "the limit of the gate", (double)a->activation.limit,
                (double)b->activation.limit);
    differ_real(c, "the alpha of the gate", (double)a->activation.alpha,
                (double)b->activation.alpha);
    differ_bool(c, "how experts are chosen", false,
                a->moe.experts &&
                    (a->moe.router != b->moe.router || a->moe.renormalised != b->moe.renormalised ||
                     memcmp(&a->moe.layers, &b->moe.layers, sizeof a->moe.layers)));
    differ_bool(c, "layers that do not rotate", false,
                memcmp(&a->place.unrotated, &b->place.unrotated, sizeof a->place.unrotated) != 0);
}

/* What one architecture alone has. */
static void compare_own(const struct comparison *c)
{
    const struct pith_own_field *f = c->a->arch->own;
    const unsigned char *a = c->a->shape.own, *b = c->b->shape.own;
    for (; f && c->a->arch->own == c->b->arch->own && f->name; f++) {
        double x, y;
        uint32_t m, n;
        if (f->real) {
            memcpy(&x, a + f->at, sizeof x);
            memcpy(&y, b + f->at, sizeof y);
            differ_real(c, f->name, x, y);
        } else {
            memcpy(&m, a + f->at, sizeof m);
            memcpy(&n, b + f->at, sizeof n);
            differ_int(c, f->name, m, n);
        }
    }
}

static void compare_attention(const struct comparison *c)
{
    const struct pith_shape *a = &c->a->shape, *b = &c->b->shape;
    differ_int(c, "max_position_embeddings", context_of(c->a, c->b), context_of(c->b, c->a));
    if (!c->gguf) {
        differ_int(c, "sliding_window", window_of(a), window_of(b));
        if (window_of(a) && window_of(b))
            differ_bool(c, "layers with a window", false,
                        memcmp(&a->windows.layers, &b->windows.layers, sizeof a->windows.layers) !=
                            0);
    }
    differ_real(c, "rms_norm_eps", a->eps, b->eps);
    differ_bool(c, "biases on q, k and v", a->biases.qkv, b->biases.qkv);
    differ_bool(c, "a bias on o", a->biases.o, b->biases.o);
    differ_bool(c, "mlp_bias", a->biases.mlp, b->biases.mlp);
    differ_bool(c, "norms on q and k", pith_plans_norm_heads(&c->a->plans),
                pith_plans_norm_heads(&c->b->plans));
}

/* The angles of rope; keys have their factors in float32. */
static void compare_rope(const struct comparison *c)
{
    static const double slack = 1e-6;
    const uint32_t half = c->a->shape.place.rotary / 2;
    differ_real(c, "rope_theta", c->a->shape.place.rope.theta, c->b->shape.place.rope.theta);
    if ((float)c->a->shape.place.rope.theta != (float)c->b->shape.place.rope.theta) return;
    for (uint32_t i = 0; i < half; i++) {
        char x[TEXT], y[TEXT];
        const double p = c->a->rope[0].inv_freq[i], q = c->b->rope[0].inv_freq[i];
        if (fabs(p - q) <= slack * fabs(q)) continue;
        (void)snprintf(x, sizeof x, "frequency %u of %.6g", i, p);
        (void)snprintf(y, sizeof y, "%.6g", q);
        c->fn(c->ctx, "rope_scaling", x, y);
        return;
    }
    if (fabs(c->a->rope[0].factor - c->b->rope[0].factor) > slack * fabs(c->b->rope[0].factor))
        differ_real(c, "rope_scaling's attention factor", c->a->rope[0].factor,
                    c->b->rope[0].factor);
}

bool pith_model_same(const struct pith_model *a, const struct pith_model *b, pith_difference_fn *fn,
                     void *ctx)
{
    const struct comparison c = {a, b, fn, ctx, a->checkpoint->gguf || b->checkpoint->gguf};
    compare_arch(&c);
    if (!compare_sizes(&c)) return false;
    compare_attention(&c);
    compare_numbers(&c);
    compare_own(&c);
    compare_rope(&c);
    return true;
}
