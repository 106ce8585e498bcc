#include "backend/layer.h"

#include "backend/parts.h"

#include <math.h>

/* --- activations ------------------------------------------------------------------------------ */

static void gelu(size_t n, float *x)
{
    const double half_root = 0.70710678118654752440;
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(0.5 * (double)x[i] * (1.0 + erf((double)x[i] * half_root)));
}

static void relu(size_t n, float *x)
{
    for (size_t i = 0; i < n; i++) x[i] = x[i] > 0 ? x[i] : 0;
}

static void relu2(size_t n, float *x)
{
    relu(n, x);
    for (size_t i = 0; i < n; i++) x[i] *= x[i];
}

static void activate(const struct pith_kern *k, enum pith_act act, size_t n, float *x)
{
    switch (act) {
    case PITH_ACT_SILU: k->silu(n, x); break;
    case PITH_ACT_GELU: gelu(n, x); break;
    case PITH_ACT_GELU_TANH: k->gelu_tanh(n, x); break;
    case PITH_ACT_RELU: relu(n, x); break;
    case PITH_ACT_RELU2: relu2(n, x); break;
    case PITH_ACT_SIGMOID: k->sigmoid(n, x); break;
    case PITH_ACT_NONE:
    case PITH_ACT_CLAMPED: break;
    }
}

struct gate {
    const struct pith_kern *k;
    const struct pith_gating *g;
};

static void gate_task(void *ctx, size_t task, unsigned thread)
{
    const struct gate *o = ctx;
    const struct pith_gating *g = o->g;
    const size_t from = task * PITH_TASK_ELEMENTS;
    const size_t n = pith_min(PITH_TASK_ELEMENTS, g->count - from);
    float *gate = g->gate + from;
    const float *up = g->up ? g->up + from : NULL;
    (void)thread;
    if (g->act == PITH_ACT_CLAMPED) {
        o->k->clamped_mul(n, g->limit, g->alpha, gate, up);
        return;
    }
    activate(o->k, g->act, n, gate);
    if (up) o->k->mul(n, up, gate);
}

void pith_gate(struct pith_backend *b, const struct pith_gating *g)
{
    struct gate o = {&b->kern, g};
    if (g->act == PITH_ACT_SILU && g->up) pith_silu_mul(b, g->gate, g->up, g->count);
    else pith_pool_run(b->pool, pith_tasks(g->count, PITH_TASK_ELEMENTS), gate_task, &o);
}

struct softcap {
    const struct pith_kern *k;
    float cap, *x;
    size_t count;
};

static void softcap_task(void *ctx, size_t task, unsigned thread)
{
    const struct softcap *s = ctx;
    const size_t from = task * PITH_TASK_ELEMENTS;
    (void)thread;
    s->k->softcap(pith_min(PITH_TASK_ELEMENTS, s->count - from), s->cap, s->x + from);
}

void pith_softcap(struct pith_backend *b, float cap, float *x, size_t count)
{
    struct softcap s = {&b->kern, cap, x, count};
    pith_pool_run(b->pool, pith_tasks(count, PITH_TASK_ELEMENTS), softcap_task, &s);
}

/* --- norms ------------------------------------------------------------------------------------ */

static void layernorm_row(const struct pith_layernorm *l, size_t row)
{
    const float *x = l->x + row * l->dim;
    const float *weight = l->weight ? l->weight + row % l->period * l->dim : NULL;
    float *y = l->y + row * l->dim;
    double mean = 0, square = 0;
    for (size_t i = 0; i < l->dim; i++) mean += (double)x[i];
    mean /= (double)l->dim;
    for (size_t i = 0; i < l->dim; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean);
    const double scale = 1.0 / sqrt(square / (double)l->dim + l->eps);
    for (size_t i = 0; i < l->dim; i++) {
        const float v = (float)(((double)x[i] - mean) * scale);
        y[i] = v * (weight ? weight[i] : 1.0f) + (l->bias ? l->bias[i] : 0.0f);
    }
}

static void layernorm_task(void *ctx, size_t task, unsigned thread)
{
    const struct pith_layernorm *l = ctx;
    const size_t each = pith_rows_a_task(l->dim), to = pith_min(l->n, (task + 1) * each);
    (void)thread;
    for (size_t i = task * each; i < to; i++) layernorm_row(l, i);
}

void pith_layernorm(struct pith_backend *b, const struct pith_layernorm *l)
{
    pith_pool_run(b->pool, pith_tasks(l->n, pith_rows_a_task(l->dim)), layernorm_task,
                  (struct pith_layernorm *)(uintptr_t)l);
}

/* --- positions -------------------------------------------------------------------------------- */

static void rope_part_task(void *ctx, size_t task, unsigned thread)
{
    const struct pith_rope_part *r = ctx;
    const size_t half = r->dim / 2, each = pith_rows_a_task(r->heads * r->stride);
    const size_t to = pith_min(r->n, (task + 1) * each);
    (void)thread;
    for (size_t i = task * each; i < to; i++)
        for (size_t h = 0; h < r->heads; h++) {
            float *x = r->x + (i * r->heads + h) * r->stride + r->offset;
            for (size_t p = 0; p < half; p++) {
                const size_t a = r->adjacent ? 2 * p : p, b = r->adjacent ? 2 * p + 1 : p + half;
                const float c = r->cos[i * half + p], s = r->sin[i * half + p];
                const float u = x[a], v = x[b];
                x[a] = u * c - v * s;
                x[b] = v * c + u * s;
            }
        }
}

void pith_rope_part(struct pith_backend *b, const struct pith_rope_part *r)
{
    const size_t width = r->heads * r->stride;
    if (!r->adjacent && r->offset == 0 && r->dim == r->stride)
        pith_rope(b, r->x, r->n, width, r->heads, r->dim, r->cos, r->sin);
    else
        pith_pool_run(b->pool, pith_tasks(r->n, pith_rows_a_task(width)), rope_part_task,
                      (struct pith_rope_part *)(uintptr_t)r);
}

/* --- sums ------------------------------------------------------------------------------------- */

struct add_scaled {
    const float *x;
    float scale, *y;
    size_t count;
};

static void add_scaled_task(void *ctx, size_t task, unsigned thread)
{
    const struct add_scaled *a = ctx;
    const size_t from = task * PITH_TASK_ELEMENTS,
                 to = pith_min(a->count, from + PITH_TASK_ELEMENTS);
    (void)thread;
    for (size_t i = from; i < to; i++) a->y[i] = fmaf(a->x[i], a->scale, a->y[i]);
}

void pith_add_scaled(struct pith_backend *b, const float *x, float scale, float *y, size_t count)
{
    struct add_scaled a = {x, scale, y, count};
    if (scale == 1.0f) pith_add(b, x, y, count);
    else pith_pool_run(b->pool, pith_tasks(count, PITH_TASK_ELEMENTS), add_scaled_task, &a);
}
