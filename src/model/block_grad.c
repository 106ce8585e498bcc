#include "model/block_grad.h"

#include "backend/grad.h"
#include "backend/input.h"
#include "base/mem.h"
#include "model/rope.h"

#include <math.h>
#include <string.h>

enum { LINE = 16 /* floats of a cache line */ };

/* --- memory ---------------------------------------------------------------------------------- */

/* Places the parts one behind the other (base NULL: only counts). False when the size overflows. */
static bool layout(const struct pith_shape *s, unsigned threads, size_t rows, float *base,
                   struct pith_tape *t, size_t *total)
{
    const size_t heads = (size_t)s->heads * s->head_dim, kv = (size_t)s->kv_heads * s->head_dim;
    const size_t half = s->head_dim / 2, hidden = s->hidden, ffn = s->ffn;
    const size_t work = pith_attention_grad_work(threads, rows);
    const size_t wide = heads > hidden ? heads : hidden, widest = wide > ffn ? wide : ffn;
    struct {
        float **part;
        size_t width;
    } parts[] = {{&t->norm1, hidden},
                 {&t->q0, s->qk_norm ? heads : 0},
                 {&t->k0, s->qk_norm ? kv : 0},
                 {&t->q, heads},
                 {&t->k, kv},
                 {&t->v, kv},
                 {&t->att, heads},
                 {&t->mid, hidden},
                 {&t->norm2, hidden},
                 {&t->gate, ffn},
                 {&t->up, ffn},
                 {&t->act, ffn},
                 {&t->d_x, hidden},
                 {&t->d_norm, hidden},
                 {&t->d_q, heads},
                 {&t->d_k, kv},
                 {&t->d_v, kv},
                 {&t->d_att, heads},
                 {&t->d_gate, ffn},
                 {&t->d_up, ffn},
                 {&t->treated, widest},
                 {&t->cos, half},
                 {&t->sin, half},
                 {&t->minus_sin, half}};
    size_t used = 0;
    for (size_t i = 0; i < PITH_COUNT(parts); i++) {
        size_t n;
        if (!pith_mul_size(rows, parts[i].width, &n)) return false;
        if (!pith_add_size(n, LINE - 1, &n)) return false;
        if (base) *parts[i].part = base + used;
        if (!pith_add_size(used, n / LINE * LINE, &used)) return false;
    }
    if (base) t->work = base + used;
    return pith_add_size(used, work, total);
}

static unsigned threads_of(const struct pith_backend *be)
{
    return pith_pool_threads(pith_backend_pool(be));
}

enum pith_status pith_tape_init(struct pith_tape *t, struct pith_backend *be,
                                const struct pith_model *m, size_t rows, struct pith_error *err)
{
    size_t total;
    *t = (struct pith_tape){.backend = be, .model = m, .rows = rows};
    if (rows == 0) return pith_fail(err, PITH_ARG, "gradients of no tokens");
    if (layout(&m->shape, threads_of(be), rows, NULL, t, &total))
        t->memory = pith_alloc_aligned(total, sizeof(float));
    if (!t->memory)
        return pith_fail(err, PITH_NOMEM, "out of memory for the gradients of %zu tokens", rows);
    (void)layout(&m->shape, threads_of(be), rows, t->memory, t, &total);
    const enum pith_status s = pith_kv_init(&t->kv, &m->shape, 1, rows, PITH_F32, err);
    if (s != PITH_OK) pith_tape_free(t);
    return s;
}

void pith_tape_free(struct pith_tape *t)
{
    pith_kv_free(&t->kv);
    pith_free(t->memory);
    *t = (struct pith_tape){0};
}

uint64_t pith_tape_bytes(const struct pith_shape *s, unsigned threads, size_t rows)
{
    struct pith_tape t = {0};
    size_t total, bytes;
    const uint64_t kv = pith_kv_bytes(s, 1, rows, PITH_F32);
    if (!layout(s, threads, rows, NULL, &t, &total) || kv == UINT64_MAX ||
        !pith_mul_size(total, sizeof(float), &bytes))
        return UINT64_MAX;
    return bytes + kv;
}

/* --- forward --------------------------------------------------------------------------------- */

/* x[n][cols] as that linear reads it. */
static const float *read_as(struct pith_tape *t, enum pith_role role, const float *x, size_t cols)
{
    const struct pith_input *in = &t->input[role];
    if (!in->grid.format) return x;
    if (t->treated_of == x && pith_input_equal(&t->treated_as, in)) return t->treated;
    pith_input_apply(t->backend, in, x, t->n, cols, t->treated);
    t->treated_of = x;
    t->treated_as = *in;
    return t->treated;
}

/* y[n][rows] = x[n][cols] W^T + bias */
static void linear(struct pith_tape *t, const struct pith_block *b, enum pith_role role,
                   const float *x, float *y)
{
    const struct pith_linear_weights *l = &b->linear[role];
    const size_t rows = l->w.rows, cols = l->w.cols;
    pith_gemm(t->backend, &(struct pith_gemm){.m = t->n,
                                              .n = rows,
                                              .k = cols,
                                              .a = read_as(t, role, x, cols),
                                              .a_rs = cols,
                                              .a_cs = 1,
                                              .b = l->w.dense,
                                              .b_rs = 1,
                                              .b_cs = cols,
                                              .c = y,
                                              .ldc = rows});
    if (!l->bias) return;
    for (size_t i = 0; i < t->n; i++)
        for (size_t j = 0; j < rows; j++) y[i * rows + j] += l->bias[j];
}

static void prepare_rope(struct pith_tape *t)
{
    const struct pith_model *m = t->model;
    const size_t half = m->shape.head_dim / 2;
    if (t->rope_rows >= t->n) return;
    pith_rope_table(m->inv_freq, half, m->rope_factor, 0, t->n, t->cos, t->sin);
    for (size_t i = 0; i < t->n * half; i++) t->minus_sin[i] = -t->sin[i];
    t->rope_rows = t->n;
}

/* Normalises one of q and k, of which `before` then holds what it was, and rotates it. */
static void place_heads(const struct pith_tape *t, float *x, uint32_t heads, const float *norm,
                        float *before)
{
    const struct pith_shape *s = &t->model->shape;
    const size_t width = (size_t)heads * s->head_dim;
    if (norm) {
        memcpy(before, x, t->n * width * sizeof *x);
        pith_rmsnorm(t->backend, before, t->n * heads, s->head_dim, norm, s->eps, x);
    }
    pith_rope(t->backend, x, t->n, width, heads, s->head_dim, t->cos, t->sin);
}

static size_t window_of(const struct pith_shape *s, const struct pith_block *b)
{
    return b->layer >= s->window_from_layer ? s->window : 0;
}

static float score_scale(const struct pith_shape *s)
{
    return (float)(1 / sqrt((double)s->head_dim));
}

static void attention(struct pith_tape *t, const struct pith_block *b)
{
    const struct pith_shape *s = &t->model->shape;
    const struct pith_cache cache = pith_kv_layer(&t->kv, 0);
    linear(t, b, PITH_ROLE_Q, t->norm1, t->q);
    linear(t, b, PITH_ROLE_K, t->norm1, t->k);
    linear(t, b, PITH_ROLE_V, t->norm1, t->v);
    prepare_rope(t);
    place_heads(t, t->q, s->heads, b->norm[PITH_NORM_Q], t->q0);
    place_heads(t, t->k, s->kv_heads, b->norm[PITH_NORM_K], t->k0);
    pith_cache_store(t->backend, &cache, 0, t->n, t->k, t->v);
    const struct pith_attention a = {.n = t->n,
                                     .heads = s->heads,
                                     .window = window_of(s, b),
                                     .scale = score_scale(s),
                                     .cache = &cache,
                                     .q = t->q,
                                     .out = t->att,
                                     .work = t->kv.work,
                                     .work_floats = t->kv.work_floats};
    pith_attention(t->backend, &a);
}

static enum pith_status check(const struct pith_tape *t, const struct pith_block *b, size_t n,
                              struct pith_error *err)
{
    if (n > t->rows)
        return pith_fail(err, PITH_ARG, "%zu tokens where gradients have room for %zu", n, t->rows);
    for (int i = 0; i < PITH_ROLE_COUNT; i++)
        if (!b->linear[i].w.dense || b->linear[i].w.dtype != PITH_F32)
            return pith_fail(err, PITH_ARG, "gradients need a block in float32");
    return PITH_OK;
}

enum pith_status pith_tape_forward(struct pith_tape *t, const struct pith_block *b, const float *x,
                                   size_t n, float *out, struct pith_error *err)
{
    const struct pith_shape *s = &t->model->shape;
    const size_t hidden = s->hidden, ffn = s->ffn;
    PITH_TRY(check(t, b, n, err));
    t->n = n;
    t->treated_of = NULL;
    pith_rmsnorm(t->backend, x, n, hidden, b->norm[PITH_NORM_INPUT], s->eps, t->norm1);
    attention(t, b);
    linear(t, b, PITH_ROLE_O, t->att, t->mid);
    pith_add(t->backend, x, t->mid, n * hidden);
    pith_rmsnorm(t->backend, t->mid, n, hidden, b->norm[PITH_NORM_POST], s->eps, t->norm2);
    linear(t, b, PITH_ROLE_GATE, t->norm2, t->gate);
    linear(t, b, PITH_ROLE_UP, t->norm2, t->up);
    memcpy(t->act, t->gate, n * ffn * sizeof *t->act);
    pith_silu_mul(t->backend, t->act, t->up, n * ffn);
    linear(t, b, PITH_ROLE_DOWN, t->act, out);
    pith_add(t->backend, t->mid, out, n * hidden);
    return PITH_OK;
}

/* --- backward -------------------------------------------------------------------------------- */

/* grad[rows][cols] += dy^T x */
static void to_weights(struct pith_tape *t, const struct pith_block *b, enum pith_role role,
                       const float *dy, const float *x, float *grad)
{
    const size_t rows = b->linear[role].w.rows, cols = b->linear[role].w.cols;
    if (!grad) return;
    pith_gemm(t->backend, &(struct pith_gemm){.m = rows,
                                              .n = cols,
                                              .k = t->n,
                                              .a = dy,
                                              .a_rs = 1,
                                              .a_cs = rows,
                                              .b = read_as(t, role, x, cols),
                                              .b_rs = cols,
                                              .b_cs = 1,
                                              .c = grad,
                                              .ldc = cols,
                                              .accumulate = true});
}

/* dx[n][cols] = dy W, or += */
static void to_input(const struct pith_tape *t, const struct pith_block *b, enum pith_role role,
                     const float *dy, float *dx, bool accumulate)
{
    const size_t rows = b->linear[role].w.rows, cols = b->linear[role].w.cols;
    pith_gemm(t->backend, &(struct pith_gemm){.m = t->n,
                                              .n = cols,
                                              .k = rows,
                                              .a = dy,
                                              .a_rs = rows,
                                              .a_cs = 1,
                                              .b = b->linear[role].w.dense,
                                              .b_rs = cols,
                                              .b_cs = 1,
                                              .c = dx,
                                              .ldc = cols,
                                              .accumulate = accumulate});
}

/* d_x += the gradient of a norm's input x, from d_norm. */
static void through_norm(const struct pith_tape *t, const struct pith_block *b, enum pith_norm norm,
                         const float *x)
{
    const struct pith_shape *s = &t->model->shape;
    pith_rmsnorm_grad(t->backend, &(struct pith_rmsnorm_grad){.x = x,
                                                              .weight = b->norm[norm],
                                                              .dy = t->d_norm,
                                                              .n = t->n,
                                                              .dim = s->hidden,
                                                              .eps = s->eps,
                                                              .dx = t->d_x,
                                                              .accumulate = true});
}

static void mlp_backward(struct pith_tape *t, const struct pith_block *b,
                         const struct pith_tape_grad *g)
{
    to_weights(t, b, PITH_ROLE_DOWN, t->d_x, t->act, g->w[PITH_ROLE_DOWN]);
    to_input(t, b, PITH_ROLE_DOWN, t->d_x, t->d_gate, false);
    pith_silu_mul_grad(t->backend, &(struct pith_silu_grad){.gate = t->gate,
                                                            .up = t->up,
                                                            .dy = t->d_gate,
                                                            .count = t->n * t->model->shape.ffn,
                                                            .d_gate = t->d_gate,
                                                            .d_up = t->d_up});
    to_weights(t, b, PITH_ROLE_GATE, t->d_gate, t->norm2, g->w[PITH_ROLE_GATE]);
    to_weights(t, b, PITH_ROLE_UP, t->d_up, t->norm2, g->w[PITH_ROLE_UP]);
    to_input(t, b, PITH_ROLE_GATE, t->d_gate, t->d_norm, false);
    to_input(t, b, PITH_ROLE_UP, t->d_up, t->d_norm, true);
    through_norm(t, b, PITH_NORM_POST, t->mid);
}

/* Undoes place_heads() on a gradient: the rotation's transpose turns the other way. */
static void unplace_heads(const struct pith_tape *t, float *dx, uint32_t heads, const float *norm,
                          const float *before)
{
    const struct pith_shape *s = &t->model->shape;
    pith_rope(t->backend, dx, t->n, (size_t)heads * s->head_dim, heads, s->head_dim, t->cos,
              t->minus_sin);
    if (!norm) return;
    pith_rmsnorm_grad(t->backend, &(struct pith_rmsnorm_grad){.x = before,
                                                              .weight = norm,
                                                              .dy = dx,
                                                              .n = t->n * heads,
                                                              .dim = s->head_dim,
                                                              .eps = s->eps,
                                                              .dx = dx});
}

static void attention_backward(struct pith_tape *t, const struct pith_block *b,
                               const struct pith_tape_grad *g)
{
    const struct pith_shape *s = &t->model->shape;
    to_weights(t, b, PITH_ROLE_O, t->d_x, t->att, g->w[PITH_ROLE_O]);
    to_input(t, b, PITH_ROLE_O, t->d_x, t->d_att, false);
    pith_attention_grad(t->backend, &(struct pith_attention_grad){.n = t->n,
                                                                  .heads = s->heads,
                                                                  .kv_heads = s->kv_heads,
                                                                  .head_dim = s->head_dim,
                                                                  .window = window_of(s, b),
                                                                  .scale = score_scale(s),
                                                                  .q = t->q,
                                                                  .k = t->k,
                                                                  .v = t->v,
                                                                  .out = t->att,
                                                                  .d_out = t->d_att,
                                                                  .d_q = t->d_q,
                                                                  .d_k = t->d_k,
                                                                  .d_v = t->d_v,
                                                                  .work = t->work});
    unplace_heads(t, t->d_q, s->heads, b->norm[PITH_NORM_Q], t->q0);
    unplace_heads(t, t->d_k, s->kv_heads, b->norm[PITH_NORM_K], t->k0);
    to_weights(t, b, PITH_ROLE_Q, t->d_q, t->norm1, g->w[PITH_ROLE_Q]);
    to_weights(t, b, PITH_ROLE_K, t->d_k, t->norm1, g->w[PITH_ROLE_K]);
    to_weights(t, b, PITH_ROLE_V, t->d_v, t->norm1, g->w[PITH_ROLE_V]);
}

void pith_tape_backward(struct pith_tape *t, const struct pith_block *b,
                        const struct pith_tape_grad *g)
{
    const size_t bytes = t->n * t->model->shape.hidden * sizeof(float);
    t->treated_of = NULL;
    memcpy(t->d_x, g->d_out, bytes);
    mlp_backward(t, b, g);
    attention_backward(t, b, g);
    if (!g->d_x) return;
    to_input(t, b, PITH_ROLE_Q, t->d_q, t->d_norm, false);
    to_input(t, b, PITH_ROLE_K, t->d_k, t->d_norm, true);
    to_input(t, b, PITH_ROLE_V, t->d_v, t->d_norm, true);
    through_norm(t, b, PITH_NORM_INPUT, g->x);
    memcpy(g->d_x, t->d_x, bytes);
}
