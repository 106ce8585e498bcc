/* Operations along rows of activations. */
#include "backend/parts.h"

#include <math.h>

struct norm {
    const struct pith_kern *k;
    const float *x, *weight;
    size_t n, dim, rows;
    double eps;
    float *y;
};

static void norm_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct norm *o = ctx;
    const size_t last = pith_min(o->n, (task + 1) * o->rows);
    for (size_t i = task * o->rows; i < last; i++) {
        const float *x = o->x + i * o->dim;
        const double mean = o->k->sumsq(o->dim, x) / (double)o->dim;
        const float scale = (float)(1.0 / sqrt(mean + o->eps));
        float *y = o->y + i * o->dim;
        if (o->weight) o->k->scale_mul(o->dim, x, scale, o->weight, y);
        for (size_t e = 0; e < o->dim && !o->weight; e++) y[e] = x[e] * scale;
    }
}

void pith_rmsnorm(struct pith_backend *b, const float *x, size_t n, size_t dim, const float *weight,
                  double eps, float *y)
{
    struct norm o = {
        .k = &b->kern, .x = x, .weight = weight, .n = n, .dim = dim, .eps = eps, .y = y};
    o.rows = pith_rows_a_task(dim);
    pith_pool_run(b->pool, pith_tasks(n, o.rows), norm_task, &o);
}

struct silu {
    const struct pith_kern *k;
    float *gate;
    const float *up;
    size_t count;
};

static void silu_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct silu *o = ctx;
    const size_t first = task * PITH_TASK_ELEMENTS;
    o->k->silu_mul(pith_min(PITH_TASK_ELEMENTS, o->count - first), o->gate + first, o->up + first);
}

void pith_silu_mul(struct pith_backend *b, float *gate, const float *up, size_t count)
{
    struct silu o = {.k = &b->kern, .gate = gate, .up = up, .count = count};
    pith_pool_run(b->pool, pith_tasks(count, PITH_TASK_ELEMENTS), silu_task, &o);
}

struct add {
    const struct pith_kern *k;
    const float *x;
    float *y;
    size_t count;
};

static void add_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct add *o = ctx;
    const size_t first = task * PITH_TASK_ELEMENTS;
    o->k->add(pith_min(PITH_TASK_ELEMENTS, o->count - first), o->x + first, o->y + first);
}

void pith_add(struct pith_backend *b, const float *x, float *y, size_t count)
{
    struct add o = {.k = &b->kern, .x = x, .y = y, .count = count};
    pith_pool_run(b->pool, pith_tasks(count, PITH_TASK_ELEMENTS), add_task, &o);
}

struct rope {
    const struct pith_kern *k;
    float *x;
    size_t n, ldx, heads, head_dim, rows;
    const float *cos, *sin;
};

static void rope_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct rope *o = ctx;
    const size_t half = o->head_dim / 2, last = pith_min(o->n, (task + 1) * o->rows);
    for (size_t i = task * o->rows; i < last; i++) {
        for (size_t h = 0; h < o->heads; h++) {
            float *x = o->x + i * o->ldx + h * o->head_dim;
            o->k->rope_pairs(half, o->cos + i * half, o->sin + i * half, x, x + half);
        }
    }
}

void pith_rope(struct pith_backend *b, float *x, size_t n, size_t ldx, size_t heads,
               size_t head_dim, const float *cos, const float *sin)
{
    struct rope o = {.k = &b->kern,
                     .x = x,
                     .n = n,
                     .ldx = ldx,
                     .heads = heads,
                     .head_dim = head_dim,
                     .cos = cos,
                     .sin = sin};
    o.rows = pith_rows_a_task(heads * head_dim);
    pith_pool_run(b->pool, pith_tasks(n, o.rows), rope_task, &o);
}

struct lse {
    const struct pith_kern *k;
    const float *logits;
    size_t n, vocab, rows;
    double *out;
};

static void lse_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct lse *o = ctx;
    const size_t last = pith_min(o->n, (task + 1) * o->rows);
    for (size_t i = task * o->rows; i < last; i++) {
        const float *x = o->logits + i * o->vocab;
        const float max = o->k->max(o->vocab, x);
        o->out[i] = (double)max + pith_log_f64(o->k->sum_exp(o->vocab, x, max, 1));
    }
}

void pith_logsumexp(struct pith_backend *b, const float *logits, size_t n, size_t vocab,
                    double *out)
{
    struct lse o = {.k = &b->kern, .logits = logits, .n = n, .vocab = vocab, .out = out};
    o.rows = pith_rows_a_task(vocab);
    pith_pool_run(b->pool, pith_tasks(n, o.rows), lse_task, &o);
}

struct segments {
    const struct pith_kern *k;
    struct pith_segment_exp s;
    float *max; /* NULL: sums are wanted */
    size_t each;
};

static void segment_task(void *ctx, size_t task, unsigned thread)
{
    (void)thread;
    const struct segments *o = ctx;
    const struct pith_segment_exp *s = &o->s;
    const size_t last = pith_min(pith_tasks(s->n, s->segment), (task + 1) * o->each);
    for (size_t i = task * o->each; i < last; i++) {
        const float *x = s->x + i * s->segment;
        const size_t n = pith_min(s->segment, s->n - i * s->segment);
        if (o->max) o->max[i] = o->k->max(n, x);
        else s->out[i] = o->k->sum_exp(n, x, s->max, s->scale);
    }
}

static void run_segments(struct pith_backend *b, struct segments *o)
{
    o->k = &b->kern;
    o->each = pith_rows_a_task(o->s.segment);
    pith_pool_run(b->pool, pith_tasks(pith_tasks(o->s.n, o->s.segment), o->each), segment_task, o);
}

void pith_segment_max(struct pith_backend *b, const float *x, size_t n, size_t segment, float *out)
{
    run_segments(b, &(struct segments){.s = {.x = x, .n = n, .segment = segment}, .max = out});
}

void pith_segment_sum_exp(struct pith_backend *b, const struct pith_segment_exp *s)
{
    run_segments(b, &(struct segments){.s = *s});
}
