#include "model/block_grad.h"

#include "backend/grad.h"
#include "backend/input.h"
#include "backend/layer.h"
#include "base/arena.h"
#include "base/mem.h"
#include "model/rope.h"

#include <string.h>

/* --- memory ---------------------------------------------------------------------------------- */

/* Floats a row that a node keeps of what it wrote: what writes over its input in place (a rotation)
 * or into what it adds (an addition) keeps nothing of its own. */
static uint32_t kept_width(const struct pith_layer_plan *l, const struct pith_node *node)
{
    return node->kind == PITH_NODE_ROPE || node->kind == PITH_NODE_ADD ? 0 : l->width[node->out];
}

/* What n rows of a layer's node keep, NULL where it keeps nothing. */
static float *take_kept(struct pith_arena *a, const struct pith_layer_plan *l,
                        const struct pith_node *node, size_t n)
{
    return pith_arena_take_rows(a, n, kept_width(l, node), sizeof(float));
}

static size_t most_kept(const struct pith_plans *p, size_t rows)
{
    struct pith_arena a = {0};
    for (uint32_t i = 0; i < p->kinds; i++, pith_arena_return(&a, 0))
        for (uint32_t j = 0; j < p->kind[i].nodes; j++)
            (void)take_kept(&a, &p->kind[i], &p->kind[i].node[j], rows);
    return (size_t)pith_arena_bytes(&a);
}

static size_t widest(const struct pith_plans *p)
{
    size_t most = 0;
    for (int i = 0; i < PITH_LAYER_REGS; i++)
        if (p->width[i] > most) most = p->width[i];
    return most;
}

static uint32_t most_nodes(const struct pith_plans *p)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->kinds; i++)
        if (p->kind[i].nodes > most) most = p->kind[i].nodes;
    return most;
}

static void layout(struct pith_arena *a, const struct pith_plans *p, unsigned threads, size_t rows,
                   struct pith_tape *t)
{
    const size_t half = p->rotary / 2;
    t->step = pith_arena_take(a, most_nodes(p), sizeof *t->step);
    t->input = pith_arena_take(a, p->most_linears, sizeof *t->input);
    for (int i = 0; i < PITH_LAYER_REGS; i++)
        t->grad[i] = pith_arena_take_rows(a, rows, p->width[i], sizeof(float));
    t->grad_spare = pith_arena_take_rows(a, rows, widest(p), sizeof(float));
    t->treated = pith_arena_take_rows(a, rows, widest(p), sizeof(float));
    for (uint32_t i = 0; i < p->tables; i++) {
        t->rope[i].cos = pith_arena_take_rows(a, rows, half, sizeof(float));
        t->rope[i].sin = pith_arena_take_rows(a, rows, half, sizeof(float));
        t->rope[i].minus_sin = pith_arena_take_rows(a, rows, half, sizeof(float));
    }
    t->values_size = most_kept(p, rows);
    t->values = pith_arena_take(a, t->values_size, 1);
    t->work = pith_arena_take(a, pith_attention_grad_work(threads, rows), sizeof(float));
}

static unsigned threads_of(const struct pith_backend *be)
{
    return pith_pool_threads(pith_backend_pool(be));
}

/* Whether this node, as it is used, has a gradient here. */
static bool has_gradient(const struct pith_model *m, const struct pith_node *n)
{
    if (n->kind == PITH_NODE_NORM) return !n->u.norm.centred && n->u.norm.vector != PITH_NO_PART;
    if (n->kind == PITH_NODE_ATTEND)
        return n->u.attend.cap == 0 && n->u.attend.sinks == PITH_NO_PART && !n->u.attend.chunked;
    if (n->kind == PITH_NODE_GATE) return m->shape.act == PITH_ACT_SILU && !n->u.gate.alone;
    if (n->kind == PITH_NODE_ADD) return n->u.add.scale == 1.0f;
    return n->kind == PITH_NODE_LINEAR || n->kind == PITH_NODE_ROPE;
}

static enum pith_status check_nodes(const struct pith_model *m, struct pith_error *err)
{
    for (uint32_t i = 0; i < m->plans.kinds; i++)
        for (uint32_t j = 0; j < m->plans.kind[i].nodes; j++)
            if (!has_gradient(m, &m->plans.kind[i].node[j]))
                return pith_fail(
                    err, PITH_UNSUPPORTED,
                    "%s: learning has no gradients for a %s yet; --round gptq needs none",
                    m->checkpoint->dir, m->arch->name);
    return PITH_OK;
}

enum pith_status pith_tape_init(struct pith_tape *t, struct pith_backend *be,
                                const struct pith_model *m, size_t rows, struct pith_error *err)
{
    const struct pith_plans *p = &m->plans;
    struct pith_arena a = {0};
    *t = (struct pith_tape){.backend = be, .model = m, .rows = rows};
    if (rows == 0) return pith_fail(err, PITH_ARG, "gradients of no tokens");
    PITH_TRY(check_nodes(m, err));
    layout(&a, p, threads_of(be), rows, t);
    if (!pith_arena_open(&a))
        return pith_fail(err, PITH_NOMEM, "out of memory for the gradients of %zu tokens", rows);
    layout(&a, p, threads_of(be), rows, t);
    t->memory = a.base;
    memset(t->input, 0, p->most_linears * sizeof *t->input);
    const enum pith_status s = pith_kv_init(&t->kv, p, 1, rows, PITH_F32, err);
    if (s != PITH_OK) pith_tape_free(t);
    return s;
}

void pith_tape_free(struct pith_tape *t)
{
    pith_kv_free(&t->kv);
    pith_free(t->memory);
    *t = (struct pith_tape){0};
}

uint64_t pith_tape_bytes(const struct pith_model *m, unsigned threads, size_t rows)
{
    struct pith_tape t;
    struct pith_arena a = {0};
    layout(&a, &m->plans, threads, rows, &t);
    return pith_sum_bytes(pith_arena_bytes(&a), pith_kv_bytes(&m->plans, 1, rows, PITH_F32));
}

/* --- forward --------------------------------------------------------------------------------- */

/* What the registers hold while a pass goes on. */
struct forward {
    struct pith_tape *t;
    const struct pith_block *b;
    float *reg[PITH_LAYER_REGS];
    struct pith_arena values; /* of the tape */
};

/* x[n][cols] as that linear reads it. */
static const float *read_as(struct pith_tape *t, uint32_t linear, const float *x, size_t cols)
{
    const struct pith_input *in = &t->input[linear];
    if (!in->grid.format) return x;
    if (t->treated_of == x && pith_input_equal(&t->treated_as, in)) return t->treated;
    pith_input_apply(t->backend, in, x, t->n, cols, t->treated);
    t->treated_of = x;
    t->treated_as = *in;
    return t->treated;
}

/* y[n][rows] = x[n][cols] W^T + bias */
static void tape_linear(struct forward *f, const struct pith_node *node, struct pith_tape_step *s)
{
    struct pith_tape *t = f->t;
    const uint32_t linear = node->u.linear.linear;
    const struct pith_linear_weights *l = &f->b->linear[linear];
    const size_t rows = l->w.rows, cols = l->w.cols;
    pith_gemm(t->backend, &(struct pith_gemm){.m = t->n,
                                              .n = rows,
                                              .k = cols,
                                              .a = read_as(t, linear, s->in, cols),
                                              .a_rs = cols,
                                              .a_cs = 1,
                                              .b = l->w.dense,
                                              .b_rs = 1,
                                              .b_cs = cols,
                                              .c = s->out,
                                              .ldc = rows});
    if (!l->bias) return;
    for (size_t i = 0; i < t->n; i++)
        for (size_t j = 0; j < rows; j++) s->out[i * rows + j] += l->bias[j];
}

static void tape_norm(struct forward *f, const struct pith_node *node, struct pith_tape_step *s)
{
    pith_rmsnorm(f->t->backend, s->in, f->t->n * node->u.norm.heads, node->u.norm.dim,
                 f->b->vector[node->u.norm.vector], node->u.norm.eps, s->out);
}

static void prepare_rope(struct pith_tape *t, unsigned table)
{
    struct pith_tape_rope *r = &t->rope[table];
    const struct pith_rope_angles *a = &t->model->rope[table];
    const size_t half = t->model->shape.rotary / 2;
    if (r->rows >= t->n) return;
    pith_rope_table(pith_rope_angles_for(a, t->kv.capacity), half, a->factor, 0, t->n, r->cos,
                    r->sin);
    for (size_t i = 0; i < t->n * half; i++) r->minus_sin[i] = -r->sin[i];
    r->rows = t->n;
}

/* Rotates, or with minus_sin rotates back. */
static void rotate(const struct pith_tape *t, const struct pith_node *node, float *x,
                   const float *sin)
{
    pith_rope_part(t->backend, &(struct pith_rope_part){.x = x,
                                                        .n = t->n,
                                                        .heads = node->u.rope.heads,
                                                        .stride = node->u.rope.stride,
                                                        .offset = node->u.rope.offset,
                                                        .dim = node->u.rope.dim,
                                                        .adjacent = node->u.rope.adjacent,
                                                        .cos = t->rope[node->u.rope.table].cos,
                                                        .sin = sin});
}

static void tape_rope(struct forward *f, const struct pith_node *node, struct pith_tape_step *s)
{
    prepare_rope(f->t, node->u.rope.table);
    rotate(f->t, node, s->out, f->t->rope[node->u.rope.table].sin);
}

static void tape_attend(struct forward *f, const struct pith_node *node, struct pith_tape_step *s)
{
    struct pith_tape *t = f->t;
    const struct pith_cache cache = pith_kv_layer(&t->kv, 0, &f->b->plan->state);
    s->other[0] = f->reg[node->u.attend.k];
    s->other[1] = f->reg[node->u.attend.v];
    const struct pith_cache_span span = {.n = t->n};
    pith_cache_store(t->backend, &cache, &span, s->other[0], s->other[1]);
    const struct pith_attention a = {.span = &span,
                                     .spans = 1,
                                     .heads = node->u.attend.heads,
                                     .window = node->u.attend.window,
                                     .scale = node->u.attend.scale,
                                     .cache = &cache,
                                     .q = s->in,
                                     .out = s->out,
                                     .work = t->kv.work,
                                     .work_floats = t->kv.work_floats};
    pith_attention(t->backend, &a);
}

static void tape_gate(struct forward *f, const struct pith_node *node, struct pith_tape_step *s)
{
    const size_t count = f->t->n * node->u.gate.dim;
    s->other[0] = f->reg[node->u.gate.up];
    memcpy(s->out, s->in, count * sizeof *s->out);
    pith_silu_mul(f->t->backend, s->out, s->other[0], count);
}

/* The sum lies where the summand was. */
static void tape_add(struct forward *f, const struct pith_node *node, struct pith_tape_step *s)
{
    pith_add(f->t->backend, f->reg[node->out], s->out, f->t->n * f->t->model->shape.hidden);
}

typedef void tape_fn(struct forward *f, const struct pith_node *node, struct pith_tape_step *s);
static tape_fn *const tapes[PITH_NODE_KINDS] = {
#define tape_none NULL
#define PITH_NODE(kind, name, grad) tape_##grad,
#include "model/nodes.def"
#undef PITH_NODE
};

static enum pith_status check(const struct pith_tape *t, const struct pith_block *b, size_t n,
                              struct pith_error *err)
{
    if (n > t->rows)
        return pith_fail(err, PITH_ARG, "%zu tokens where gradients have room for %zu", n, t->rows);
    for (uint32_t i = 0; i < b->plan->linears; i++)
        if (!b->linear[i].w.dense || b->linear[i].w.dtype != PITH_F32)
            return pith_fail(err, PITH_ARG, "gradients need a block in float32");
    return PITH_OK;
}

enum pith_status pith_tape_forward(struct pith_tape *t, const struct pith_block *b, const float *x,
                                   size_t n, float *out, struct pith_error *err)
{
    struct forward f = {.t = t, .b = b, .values = {.base = t->values, .size = t->values_size}};
    PITH_TRY(check(t, b, n, err));
    t->n = n;
    t->treated_of = NULL;
    f.reg[PITH_REG_STREAM] = (float *)(uintptr_t)x; /* only read: an addition makes another */
    for (uint32_t i = 0; i < b->plan->nodes; i++) {
        const struct pith_node *node = &b->plan->node[i];
        struct pith_tape_step *s = &t->step[i];
        s->in = s->out = f.reg[node->in];
        float *kept = take_kept(&f.values, b->plan, node, n);
        if (kept) s->out = kept;
        tapes[node->kind](&f, node, s);
        f.reg[node->out] = s->out;
    }
    memcpy(out, f.reg[PITH_REG_STREAM], n * t->model->shape.hidden * sizeof *out);
    return PITH_OK;
}

/* --- backward -------------------------------------------------------------------------------- */

/* Gradients of what the registers hold, on the way back. */
struct backward {
    struct pith_tape *t;
    const struct pith_block *b;
    const struct pith_tape_grad *g;
    const float *d[PITH_LAYER_REGS]; /* NULL: none yet */
};

/* grad[rows][cols] += dy^T x */
static void to_weights(const struct backward *k, const struct pith_node *node, const float *x)
{
    const uint32_t linear = node->u.linear.linear;
    const size_t rows = k->b->linear[linear].w.rows, cols = k->b->linear[linear].w.cols;
    if (!k->g->w[linear]) return;
    pith_gemm(k->t->backend, &(struct pith_gemm){.m = rows,
                                                 .n = cols,
                                                 .k = k->t->n,
                                                 .a = k->d[node->out],
                                                 .a_rs = 1,
                                                 .a_cs = rows,
                                                 .b = read_as(k->t, linear, x, cols),
                                                 .b_rs = cols,
                                                 .b_cs = 1,
                                                 .c = k->g->w[linear],
                                                 .ldc = cols,
                                                 .accumulate = true});
}

/* dx[n][cols] = dy W, or += */
static void to_input(struct backward *k, const struct pith_node *node)
{
    const struct pith_weight *w = &k->b->linear[node->u.linear.linear].w;
    float *dx = k->t->grad[node->in];
    pith_gemm(k->t->backend, &(struct pith_gemm){.m = k->t->n,
                                                 .n = w->cols,
                                                 .k = w->rows,
                                                 .a = k->d[node->out],
                                                 .a_rs = w->rows,
                                                 .a_cs = 1,
                                                 .b = w->dense,
                                                 .b_rs = w->cols,
                                                 .b_cs = 1,
                                                 .c = dx,
                                                 .ldc = w->cols,
                                                 .accumulate = k->d[node->in] != NULL});
    k->d[node->in] = dx;
}

/* The first node of the linears that read one site's input, the last of which is node `last`. */
static uint32_t site_begin(const struct pith_layer_plan *l, uint32_t last)
{
    const uint32_t site = l->linear[l->node[last].u.linear.linear].site;
    while (last > 0 && l->node[last - 1].kind == PITH_NODE_LINEAR &&
           l->linear[l->node[last - 1].u.linear.linear].site == site)
        last--;
    return last;
}

/* All linears of a site, in the order of the program. False where nothing before is wanted. */
static bool back_site(struct backward *k, uint32_t first, uint32_t last)
{
    const struct pith_layer_plan *l = k->b->plan;
    for (uint32_t i = first; i <= last; i++) to_weights(k, &l->node[i], k->t->step[i].in);
    if (!k->g->d_x && l->linear[l->node[first].u.linear.linear].site == 0) return false;
    for (uint32_t i = first; i <= last; i++) {
        to_input(k, &l->node[i]);
        if (l->node[i].out != l->node[i].in) k->d[l->node[i].out] = NULL;
    }
    return true;
}

static void back_norm(struct backward *k, const struct pith_node *node,
                      const struct pith_tape_step *s)
{
    const bool in_place = node->in == node->out;
    float *dx = k->t->grad[node->in];
    pith_rmsnorm_grad(k->t->backend,
                      &(struct pith_rmsnorm_grad){.x = s->in,
                                                  .weight = k->b->vector[node->u.norm.vector],
                                                  .dy = k->d[node->out],
                                                  .n = k->t->n * node->u.norm.heads,
                                                  .dim = node->u.norm.dim,
                                                  .eps = node->u.norm.eps,
                                                  .dx = dx,
                                                  .accumulate = !in_place && k->d[node->in]});
    if (!in_place) k->d[node->out] = NULL;
    k->d[node->in] = dx;
}

/* The transpose of a rotation turns the other way; the gradient is the register's own. */
static void back_rope(struct backward *k, const struct pith_node *node,
                      const struct pith_tape_step *s)
{
    (void)s;
    rotate(k->t, node, k->t->grad[node->in], k->t->rope[node->u.rope.table].minus_sin);
}

static void back_attend(struct backward *k, const struct pith_node *node,
                        const struct pith_tape_step *s)
{
    struct pith_tape *t = k->t;
    const struct pith_state_spec *keeps = &k->b->plan->state;
    const uint8_t key = node->u.attend.k, value = node->u.attend.v;
    const size_t width = (size_t)node->u.attend.heads * keeps->value;
    memcpy(t->grad_spare, k->d[node->out], t->n * width * sizeof(float));
    pith_attention_grad(t->backend, &(struct pith_attention_grad){.n = t->n,
                                                                  .heads = node->u.attend.heads,
                                                                  .kv_heads = keeps->heads,
                                                                  .head_dim = keeps->key,
                                                                  .window = node->u.attend.window,
                                                                  .scale = node->u.attend.scale,
                                                                  .q = s->in,
                                                                  .k = s->other[0],
                                                                  .v = s->other[1],
                                                                  .out = s->out,
                                                                  .d_out = t->grad_spare,
                                                                  .d_q = t->grad[node->in],
                                                                  .d_k = t->grad[key],
                                                                  .d_v = t->grad[value],
                                                                  .work = t->work});
    k->d[node->in] = t->grad[node->in];
    k->d[key] = t->grad[key];
    k->d[value] = t->grad[value];
}

static void back_gate(struct backward *k, const struct pith_node *node,
                      const struct pith_tape_step *s)
{
    struct pith_tape *t = k->t;
    const uint8_t up = node->u.gate.up;
    pith_silu_mul_grad(t->backend, &(struct pith_silu_grad){.gate = s->in,
                                                            .up = s->other[0],
                                                            .dy = k->d[node->out],
                                                            .count = t->n * node->u.gate.dim,
                                                            .d_gate = t->grad[node->in],
                                                            .d_up = t->grad[up]});
    k->d[node->in] = t->grad[node->in];
    k->d[up] = t->grad[up];
}

/* The summand's gradient is the sum's, which nobody changes before it is read. */
static void back_add(struct backward *k, const struct pith_node *node,
                     const struct pith_tape_step *s)
{
    (void)s;
    k->d[node->in] = k->d[node->out];
}

/* Linears go by sites: back_site(). */
static void back_linear(struct backward *k, const struct pith_node *node,
                        const struct pith_tape_step *s)
{
    (void)k, (void)node, (void)s;
}

typedef void back_fn(struct backward *k, const struct pith_node *node,
                     const struct pith_tape_step *s);
static back_fn *const backs[PITH_NODE_KINDS] = {
#define back_none NULL
#define PITH_NODE(kind, name, grad) back_##grad,
#include "model/nodes.def"
#undef PITH_NODE
};

void pith_tape_backward(struct pith_tape *t, const struct pith_block *b,
                        const struct pith_tape_grad *g)
{
    const size_t bytes = t->n * t->model->shape.hidden * sizeof(float);
    struct backward k = {.t = t, .b = b, .g = g};
    t->treated_of = NULL;
    memcpy(t->grad[PITH_REG_STREAM], g->d_out, bytes);
    k.d[PITH_REG_STREAM] = t->grad[PITH_REG_STREAM];
    for (uint32_t i = b->plan->nodes; i-- > 0;) {
        const struct pith_node *node = &b->plan->node[i];
        if (node->kind != PITH_NODE_LINEAR) {
            backs[node->kind](&k, node, &t->step[i]);
            continue;
        }
        const uint32_t first = site_begin(b->plan, i);
        if (!back_site(&k, first, i)) return;
        i = first;
    }
    if (g->d_x) memcpy(g->d_x, t->grad[PITH_REG_STREAM], bytes);
}
