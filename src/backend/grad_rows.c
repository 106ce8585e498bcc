/* Gradients of the operations along rows. */
#include "backend/grad.h"
#include "backend/parts.h"

#include <math.h>

/* Elements a task at least: below that, handing out costs more than it gains. */
enum { LANES = 8 };

/* Sum of x weight dy in double, in lanes. */
static double weighted_dot(size_t n, const float *x, const float *weight, const float *dy)
{
    double lane[LANES] = {0}, sum = 0.0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += (double)(weight[i + l] * dy[i + l]) * (double)x[i + l];
    for (; i < n; i++) lane[i % LANES] += (double)(weight[i] * dy[i]) * (double)x[i];
    for (size_t l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

struct norm {
    const struct pith_kern *k;
    const struct pith_rmsnorm_grad *g;
    size_t rows; /* a task */
};

static void norm_row(const struct pith_rmsnorm_grad *g, const struct pith_kern *k, size_t row)
{
    const size_t n = g->dim;
    const float *x = g->x + row * n, *dy = g->dy + row * n, *weight = g->weight;
    float *dx = g->dx + row * n;
    const double r = 1.0 / sqrt(k->sumsq(n, x) / (double)n + g->eps);
    const double dot = weighted_dot(n, x, weight, dy) / (double)n;
    const float a = (float)r, b = (float)(r * r * r * dot);
    if (g->accumulate)
        for (size_t i = 0; i < n; i++) dx[i] += a * (weight[i] * dy[i]) - b * x[i];
    else
        for (size_t i = 0; i < n; i++) dx[i] = a * (weight[i] * dy[i]) - b * x[i];
}

static void norm_task(void *ctx, size_t task, unsigned thread)
{
    const struct norm *o = ctx;
    const size_t last = pith_min(o->g->n, (task + 1) * o->rows);
    (void)thread;
    for (size_t i = task * o->rows; i < last; i++) norm_row(o->g, o->k, i);
}

void pith_rmsnorm_grad(struct pith_backend *b, const struct pith_rmsnorm_grad *g)
{
    struct norm o = {.k = &b->kern, .g = g};
    o.rows = pith_rows_a_task(g->dim);
    pith_pool_run(b->pool, pith_tasks(g->n, o.rows), norm_task, &o);
}

static void silu_task(void *ctx, size_t task, unsigned thread)
{
    const struct pith_silu_grad *g = ctx;
    const size_t last = pith_min(g->count, (task + 1) * PITH_TASK_ELEMENTS);
    (void)thread;
    for (size_t i = task * PITH_TASK_ELEMENTS; i < last; i++) {
        const float z = g->gate[i], s = 1.0f / (1.0f + pith_exp_f32(-z)), dy = g->dy[i];
        g->d_up[i] = dy * (z * s);
        g->d_gate[i] = dy * g->up[i] * (s * (1.0f + z * (1.0f - s)));
    }
}

void pith_silu_mul_grad(struct pith_backend *b, const struct pith_silu_grad *g)
{
    struct pith_silu_grad o = *g;
    pith_pool_run(b->pool, pith_tasks(g->count, PITH_TASK_ELEMENTS), silu_task, &o);
}
