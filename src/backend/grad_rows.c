/* Gradients of the operations along rows. */
#include "backend/grad.h"
#include "backend/parts.h"

#include <math.h>

/* Elements a task at least: below that, handing out costs more than it gains. */
enum { LANES = 8, SILU_CHUNK = 256 };

static float weighted(const float *weight, size_t i)
{
    return weight ? weight[i] : 1.0f;
}

/* Sum of x weight dy in double, in lanes. */
static double weighted_dot(size_t n, const float *x, const float *weight, const float *dy)
{
    double lane[LANES] = {0}, sum = 0.0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += (double)(weighted(weight, i + l) * dy[i + l]) * (double)x[i + l];
    for (; i < n; i++) lane[i % LANES] += (double)(weighted(weight, i) * dy[i]) * (double)x[i];
    for (size_t l = 0; l < LANES; l++) sum += lane[l];
    return sum;
}

struct norm {
    const struct pith_kern *k;
    const struct pith_rmsnorm_grad *g;
    size_t rows; /* a task */
};

static const float *weight_of(const struct pith_rmsnorm_grad *g, size_t row)
{
    return g->weight && g->period ? g->weight + row % g->period * g->dim : g->weight;
}

static void centred_row(const struct pith_rmsnorm_grad *g, size_t row)
{
    const size_t n = g->dim;
    const float *x = g->x + row * n, *dy = g->dy + row * n, *weight = weight_of(g, row);
    float *dx = g->dx + row * n;
    double mean = 0, square = 0, sum = 0, dot = 0;
    for (size_t i = 0; i < n; i++) mean += (double)x[i];
    mean /= (double)n;
    for (size_t i = 0; i < n; i++) square += ((double)x[i] - mean) * ((double)x[i] - mean);
    const double r = 1.0 / sqrt(square / (double)n + g->eps);
    for (size_t i = 0; i < n; i++) {
        const double z = (double)(weighted(weight, i) * dy[i]);
        sum += z;
        dot += z * ((double)x[i] - mean) * r;
    }
    sum /= (double)n;
    dot /= (double)n;
    for (size_t i = 0; i < n; i++) {
        const double z = (double)(weighted(weight, i) * dy[i]), y = ((double)x[i] - mean) * r;
        dx[i] = (g->accumulate ? dx[i] : 0.0f) + (float)(r * (z - sum - y * dot));
    }
}

static void norm_row(const struct pith_rmsnorm_grad *g, const struct pith_kern *k, size_t row)
{
    const size_t n = g->dim;
    const float *x = g->x + row * n, *dy = g->dy + row * n, *weight = weight_of(g, row);
    float *dx = g->dx + row * n;
    const double r = 1.0 / sqrt(k->sumsq(n, x) / (double)n + g->eps);
    const double dot = weighted_dot(n, x, weight, dy) / (double)n;
    const float a = (float)r, b = (float)(r * r * r * dot);
    if (g->accumulate)
        for (size_t i = 0; i < n; i++) dx[i] += a * (weighted(weight, i) * dy[i]) - b * x[i];
    else
        for (size_t i = 0; i < n; i++) dx[i] = a * (weighted(weight, i) * dy[i]) - b * x[i];
}

static void norm_grad_task(void *ctx, size_t task, unsigned thread)
{
    const struct norm *o = ctx;
    const size_t last = pith_min(o->g->n, (task + 1) * o->rows);
    (void)thread;
    for (size_t i = task * o->rows; i < last; i++)
        if (o->g->centred) centred_row(o->g, i);
        else norm_row(o->g, o->k, i);
}

void pith_rmsnorm_grad(struct pith_backend *b, const struct pith_rmsnorm_grad *g)
{
    struct norm o = {.k = &b->kern, .g = g};
    o.rows = pith_rows_a_task(g->dim);
    pith_pool_run(b->pool, pith_tasks(g->n, o.rows), norm_grad_task, &o);
}

/* --- gains and biases of norms ---------------------------------------------------------------- */

enum { NORM_COLS = 16 }; /* a task */

/* What y is made of: x less the mean, times the inverse. */
static void survey_task(void *ctx, size_t task, unsigned thread)
{
    const struct pith_norm_vectors *g = ctx;
    const size_t rows = pith_rows_a_task(g->dim), last = pith_min(g->n, (task + 1) * rows);
    (void)thread;
    for (size_t r = task * rows; r < last; r++) {
        const float *x = g->x + r * g->dim;
        double mean = 0, square = 0;
        for (size_t i = 0; i < g->dim && g->centred; i++) mean += (double)x[i];
        mean /= (double)g->dim;
        for (size_t i = 0; i < g->dim; i++)
            square += ((double)x[i] - mean) * ((double)x[i] - mean);
        g->work[2 * r] = mean;
        g->work[2 * r + 1] = 1.0 / sqrt(square / (double)g->dim + g->eps);
    }
}

/* Some columns of one of the vectors. */
static void vectors_task(void *ctx, size_t task, unsigned thread)
{
    const struct pith_norm_vectors *g = ctx;
    const size_t period = g->period ? g->period : 1, tasks = pith_tasks(g->dim, NORM_COLS);
    const size_t which = task / tasks, first = task % tasks * NORM_COLS;
    const size_t cols = pith_min(g->dim - first, NORM_COLS);
    double gain[NORM_COLS] = {0}, bias[NORM_COLS] = {0};
    (void)thread;
    for (size_t r = which; r < g->n; r += period) {
        const float *x = g->x + r * g->dim + first, *dy = g->dy + r * g->dim + first;
        const double mean = g->work[2 * r], inverse = g->work[2 * r + 1];
        for (size_t i = 0; i < cols; i++) {
            gain[i] += (double)dy[i] * (((double)x[i] - mean) * inverse);
            bias[i] += (double)dy[i];
        }
    }
    for (size_t i = 0; i < cols; i++) {
        const size_t at = which * g->dim + first + i;
        if (g->d_weight) g->d_weight[at] += (float)gain[i];
        if (g->d_bias) g->d_bias[at] += (float)bias[i];
    }
}

void pith_norm_vectors_grad(struct pith_backend *b, const struct pith_norm_vectors *g)
{
    const size_t period = g->period ? g->period : 1;
    pith_pool_run(b->pool, pith_tasks(g->n, pith_rows_a_task(g->dim)), survey_task,
                  (void *)(uintptr_t)g);
    pith_pool_run(b->pool, period * pith_tasks(g->dim, NORM_COLS), vectors_task,
                  (void *)(uintptr_t)g);
}

struct silu {
    const struct pith_silu_grad *g;
    const struct pith_kern *kern;
};

static void silu_grad_task(void *ctx, size_t task, unsigned thread)
{
    const struct silu *o = ctx;
    const struct pith_silu_grad *g = o->g;
    const size_t last = pith_min(g->count, (task + 1) * PITH_TASK_ELEMENTS);
    float e[SILU_CHUNK]; /* exp(-gate) */
    (void)thread;
    for (size_t first = task * PITH_TASK_ELEMENTS; first < last; first += SILU_CHUNK) {
        const size_t n = pith_min(last - first, SILU_CHUNK);
        for (size_t i = 0; i < n; i++) e[i] = -g->gate[first + i];
        (void)o->kern->exp_sum(n, e, 0.0f);
        for (size_t k = 0; k < n; k++) {
            const size_t i = first + k;
            const float z = g->gate[i], s = 1.0f / (1.0f + e[k]), dy = g->dy[i];
            g->d_up[i] = dy * (z * s);
            g->d_gate[i] = dy * g->up[i] * (s * (1.0f + z * (1.0f - s)));
        }
    }
}

void pith_silu_mul_grad(struct pith_backend *b, const struct pith_silu_grad *g)
{
    struct silu o = {g, &b->kern};
    pith_pool_run(b->pool, pith_tasks(g->count, PITH_TASK_ELEMENTS), silu_grad_task, &o);
}

/* --- other activations ------------------------------------------------------------------------ */

/* An activation and its slope. */
struct slope {
    double value, slope;
};

static struct slope gelu_tanh(double x)
{
    const double root = 0.79788456080286535588, c = 0.044715; /* sqrt(2 / pi) */
    const double t = 2 * pith_sigmoid_f64(2 * root * (x + c * x * x * x)) - 1;
    const double inner = root * (1 + 3 * c * x * x);
    return (struct slope){0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner};
}

static struct slope gelu_with_slope(double x)
{
    const double half_root = 0.70710678118654752440, density = 0.39894228040143267794;
    const double below = 0.5 * (1 + erf(x * half_root));
    return (struct slope){x * below, below + x * density * pith_exp_f64(-0.5 * x * x)};
}

static struct slope slope_of(enum pith_act act, double x)
{
    const double s = pith_sigmoid_f64(x), up = x > 0 ? x : 0;
    switch (act) {
    case PITH_ACT_GELU: return gelu_with_slope(x);
    case PITH_ACT_GELU_TANH: return gelu_tanh(x);
    case PITH_ACT_RELU: return (struct slope){up, x > 0};
    case PITH_ACT_RELU2: return (struct slope){up * up, 2 * up};
    case PITH_ACT_SIGMOID: return (struct slope){s, s * (1 - s)};
    case PITH_ACT_NONE: return (struct slope){x, 1};
    default: return (struct slope){x * s, s * (1 + x * (1 - s))};
    }
}

/* gpt-oss's: what lies beyond the limit does not move the output. */
static void clamped(const struct pith_gate_grad *g, size_t i)
{
    const double limit = (double)g->limit, alpha = (double)g->alpha;
    const double gate = (double)g->gate[i], up = (double)g->up[i], dy = (double)g->dy[i];
    const double x = fmin(gate, limit), u = fmax(fmin(up, limit), -limit),
                 s = pith_sigmoid_f64(alpha * x);
    g->d_up[i] = fabs(up) > limit ? 0.0f : (float)(dy * x * s);
    g->d_gate[i] = gate > limit ? 0.0f : (float)(dy * (u + 1) * s * (1 + alpha * x * (1 - s)));
}

static void gate_grad_task(void *ctx, size_t task, unsigned thread)
{
    const struct pith_gate_grad *g = ctx;
    const size_t last = pith_min(g->count, (task + 1) * PITH_TASK_ELEMENTS);
    (void)thread;
    for (size_t i = task * PITH_TASK_ELEMENTS; i < last; i++) {
        if (g->act == PITH_ACT_CLAMPED) {
            clamped(g, i);
            continue;
        }
        const struct slope a = slope_of(g->act, (double)g->gate[i]);
        const double dy = (double)g->dy[i], up = g->up ? (double)g->up[i] : 1.0;
        if (g->up) g->d_up[i] = (float)(dy * a.value);
        g->d_gate[i] = (float)(dy * up * a.slope);
    }
}

void pith_gate_grad(struct pith_backend *b, const struct pith_gate_grad *g)
{
    struct pith_gate_grad o = *g;
    if (g->act == PITH_ACT_SILU && g->up)
        pith_silu_mul_grad(b, &(struct pith_silu_grad){.gate = g->gate,
                                                       .up = g->up,
                                                       .dy = g->dy,
                                                       .count = g->count,
                                                       .d_gate = g->d_gate,
                                                       .d_up = g->d_up});
    else pith_pool_run(b->pool, pith_tasks(g->count, PITH_TASK_ELEMENTS), gate_grad_task, &o);
}
