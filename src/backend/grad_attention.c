/* The gradient of causal attention. A task is a kv head with all its query heads: it goes through
 * their queries a block at a time, makes the block's weights and their gradients as two small
 * matrices (and, where scores are capped, the slopes of these as a third), and five products of
 * them with the head's q, k, v and d_out. */
#include "backend/grad.h"
#include "backend/parts.h"

#include <math.h>
#include <string.h>

enum { ROWS = 64, MATRICES = 3 }; /* queries of a block; matrices of a thread */

struct job {
    struct pith_backend *b;
    const struct pith_attention_grad *g;
    size_t ld; /* of the matrices of a thread, [ROWS][ld] each */
};

static size_t row_length(size_t n)
{
    return (n + PITH_LANES - 1) / PITH_LANES * PITH_LANES;
}

size_t pith_attention_grad_work(unsigned threads, size_t n)
{
    if (n > SIZE_MAX / 2 / sizeof(float) / ROWS / MATRICES / (threads ? threads : 1))
        return SIZE_MAX;
    return (size_t)(threads ? threads : 1) * MATRICES * ROWS * row_length(n);
}

/* Queries [row, row + rows) of a head, and the keys [low, row + rows) that one of them sees. */
struct part {
    const struct job *j;
    const struct pith_thread_memory *scratch;
    size_t head, kv, row, rows, low, cols;
    float *p, *dp, *slope;
};

static size_t value_dim(const struct pith_attention_grad *g)
{
    return g->value_dim ? g->value_dim : g->head_dim;
}

static size_t first_key(const struct pith_attention_grad *g, size_t query)
{
    if (g->window && g->chunked) return query / g->window * g->window;
    return g->window && query + 1 > g->window ? query + 1 - g->window : 0;
}

static void multiply_grad(const struct part *t, const struct pith_mul *mul)
{
    const struct pith_tile_block all = {.m = mul->m, .n = mul->n};
    pith_mul_block(&t->j->b->kern, t->scratch, mul, &all);
}

/* to[rows][ld] = x y^T for the block's rows of x and the part's rows of y. */
static void outer(const struct part *t, const float *x, const float *y, size_t dim, float *to)
{
    const struct pith_attention_grad *g = t->j->g;
    multiply_grad(t, &(struct pith_mul){.m = t->rows,
                                        .n = t->cols,
                                        .k = dim,
                                        .a = x + (t->row * g->heads + t->head) * dim,
                                        .a_rs = g->heads * dim,
                                        .a_cs = 1,
                                        .b = y + (t->low * g->kv_heads + t->kv) * dim,
                                        .b_rs = 1,
                                        .b_cs = g->kv_heads * dim,
                                        .c = to,
                                        .ldc = t->j->ld});
}

/* to (rows of kv heads) += m^T x */
static void add_to_keys(const struct part *t, const float *m, const float *x, size_t dim, float *to)
{
    const struct pith_attention_grad *g = t->j->g;
    multiply_grad(t, &(struct pith_mul){.m = t->cols,
                                        .n = dim,
                                        .k = t->rows,
                                        .a = m,
                                        .a_rs = 1,
                                        .a_cs = t->j->ld,
                                        .b = x + (t->row * g->heads + t->head) * dim,
                                        .b_rs = g->heads * dim,
                                        .b_cs = 1,
                                        .c = to + (t->low * g->kv_heads + t->kv) * dim,
                                        .ldc = g->kv_heads * dim,
                                        .accumulate = true});
}

/* The block's rows of d_q = dp k */
static void set_queries(const struct part *t)
{
    const struct pith_attention_grad *g = t->j->g;
    const size_t dim = g->head_dim;
    multiply_grad(t, &(struct pith_mul){.m = t->rows,
                                        .n = dim,
                                        .k = t->cols,
                                        .a = t->dp,
                                        .a_rs = t->j->ld,
                                        .a_cs = 1,
                                        .b = g->k + (t->low * g->kv_heads + t->kv) * dim,
                                        .b_rs = g->kv_heads * dim,
                                        .b_cs = 1,
                                        .c = g->d_q + (t->row * g->heads + t->head) * dim,
                                        .ldc = g->heads * dim});
}

/* Caps scores, and stores the slopes. */
static void cap(const struct part *t, float *p, float *slope, size_t n)
{
    t->j->b->kern.softcap(n, t->j->g->cap, p);
    for (size_t c = 0; c < n; c++) {
        const float y = p[c] / t->j->g->cap;
        slope[c] = 1.0f - y * y;
    }
}

/* A softmax over p[n] and a sink. */
static void softmax_with(float sink, float *p, size_t n)
{
    float most = sink;
    double sum = 0;
    for (size_t c = 0; c < n; c++) most = fmaxf(most, p[c]);
    for (size_t c = 0; c < n; c++) sum += (double)(p[c] = pith_exp_f32(p[c] - most));
    sum += (double)pith_exp_f32(sink - most);
    for (size_t c = 0; c < n; c++) p[c] = (float)((double)p[c] / sum);
}

/* Scores in p to weights; what a row does not see gets 0. */
static void weigh_grad(const struct part *t, size_t i)
{
    const struct pith_attention_grad *g = t->j->g;
    float *p = t->p + i * t->j->ld;
    const size_t from = first_key(g, t->row + i) - t->low, to = t->row + i + 1 - t->low;
    for (size_t c = from; c < to; c++) p[c] *= g->scale;
    if (g->cap != 0) cap(t, p + from, t->slope + i * t->j->ld + from, to - from);
    memset(p, 0, from * sizeof *p);
    if (g->sinks) softmax_with(g->sinks[t->head], p + from, to - from);
    else t->j->b->kern.softmax(to - from, p + from);
    memset(p + to, 0, (t->cols - to) * sizeof *p);
}

/* dp of a row from the gradients of its weights to those of its scores. */
static void through_softmax(const struct part *t, size_t i)
{
    const struct pith_attention_grad *g = t->j->g;
    const size_t dim = value_dim(g), at = ((t->row + i) * g->heads + t->head) * dim;
    const size_t from = first_key(g, t->row + i) - t->low, to = t->row + i + 1 - t->low;
    const float *p = t->p + i * t->j->ld, *slope = t->slope + i * t->j->ld;
    float *dp = t->dp + i * t->j->ld, lane[PITH_LANES] = {0};
    t->j->b->kern.dot_acc(dim, g->d_out + at, g->out + at, lane);
    const float dot = pith_lanes_sum(lane);
    for (size_t c = 0; c < t->cols; c++) dp[c] = p[c] * (dp[c] - dot) * g->scale;
    for (size_t c = from; g->cap != 0 && c < to; c++) dp[c] *= slope[c];
}

static void run_block(const struct part *t)
{
    const struct pith_attention_grad *g = t->j->g;
    outer(t, g->q, g->k, g->head_dim, t->p);
    for (size_t i = 0; i < t->rows; i++) weigh_grad(t, i);
    add_to_keys(t, t->p, g->d_out, value_dim(g), g->d_v);
    outer(t, g->d_out, g->v, value_dim(g), t->dp);
    for (size_t i = 0; i < t->rows; i++) through_softmax(t, i);
    set_queries(t);
    add_to_keys(t, t->dp, g->q, g->head_dim, g->d_k);
}

static void clear_head(const struct pith_attention_grad *g, size_t kv)
{
    for (size_t i = 0; i < g->n; i++) {
        const size_t at = i * g->kv_heads + kv;
        memset(g->d_k + at * g->head_dim, 0, g->head_dim * sizeof *g->d_k);
        memset(g->d_v + at * value_dim(g), 0, value_dim(g) * sizeof *g->d_v);
    }
}

static void head_task(void *ctx, size_t kv, unsigned thread)
{
    const struct job *j = ctx;
    const struct pith_attention_grad *g = j->g;
    const size_t group = g->heads / g->kv_heads;
    float *work = g->work + (size_t)thread * MATRICES * ROWS * j->ld;
    struct part t = {.j = j,
                     .scratch = &j->b->scratch[thread],
                     .kv = kv,
                     .p = work,
                     .dp = work + ROWS * j->ld,
                     .slope = work + (size_t)2 * ROWS * j->ld};
    clear_head(g, kv);
    for (t.head = kv * group; t.head < (kv + 1) * group; t.head++)
        for (t.row = 0; t.row < g->n; t.row += ROWS) {
            t.rows = pith_min(ROWS, g->n - t.row);
            t.low = first_key(g, t.row);
            t.cols = t.row + t.rows - t.low;
            run_block(&t);
        }
}

void pith_attention_grad(struct pith_backend *b, const struct pith_attention_grad *g)
{
    struct job j = {.b = b, .g = g, .ld = row_length(g->n)};
    pith_pool_run(b->pool, g->kv_heads, head_task, &j);
}
