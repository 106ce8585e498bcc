#include "model/grad/tape.h"

#include "backend/grad.h"
#include "backend/input.h"
#include "backend/layer.h"
#include "base/arena.h"
#include "base/mem.h"
#include "kern/ops.h"
#include "model/rope.h"

#include <math.h>
#include <string.h>

/* --- memory ----------------------------------------------------------------------------------- */

/* Floats a row that a node saves of its output: a node that writes in place (a rotation), into what
 * it adds to (an addition) or to other registers saves nothing. */
static uint32_t saved_width(const struct pith_layer_plan *l, const struct pith_node *node)
{
    const bool none = node->kind == PITH_NODE_ROPE || node->kind == PITH_NODE_ADD ||
                      node->kind == PITH_NODE_SPLIT;
    return none ? 0 : l->width[node->out];
}

/* A part that shares its register with others has no separate place. */
static bool part_has_place(const struct pith_node *node, uint32_t part)
{
    return !node->u.split.wide[part] || node->u.split.at[part] == 0;
}

/* What n rows of a layer's node save; s->out is unchanged where that is nothing. */
static void take_saved(struct pith_arena *a, const struct pith_plans *p,
                       const struct pith_layer_plan *l, const struct pith_node *node, size_t n,
                       struct pith_tape_step *s)
{
    float *out = pith_arena_take_rows(a, n, saved_width(l, node), sizeof(float));
    if (out) s->out = out;
    if (node->kind == PITH_NODE_SPLIT)
        for (uint32_t i = 0; i < node->u.split.parts; i++) {
            const uint32_t width = l->width[node->u.split.to[i]];
            s->saved[i] =
                pith_arena_take_rows(a, part_has_place(node, i) ? n : 0, width, sizeof(float));
        }
    if (node->kind == PITH_NODE_ABSORB)
        s->saved[0] = pith_arena_take_rows(a, n, l->width[node->u.latent.key], sizeof(float));
    if (node->kind == PITH_NODE_EXPERTS) pith_tape_keep_experts(a, p, node, n, s);
}

static size_t most_saved(const struct pith_plans *p, size_t rows)
{
    struct pith_arena a = {0};
    struct pith_tape_step s;
    for (uint32_t i = 0; i < p->kinds; i++, pith_arena_return(&a, 0))
        for (uint32_t j = 0; j < p->kind[i].nodes; j++)
            take_saved(&a, p, &p->kind[i], &p->kind[i].node[j], rows, &s);
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

/* Floats that the backward passes of attention and of states work with. */
static size_t most_work(const struct pith_plans *p, unsigned threads, size_t rows)
{
    size_t most = pith_attention_grad_work(threads, rows);
    for (uint32_t i = 0; i < p->kinds; i++)
        for (uint32_t j = 0; j < p->kind[i].nodes; j++) {
            const struct pith_node *n = &p->kind[i].node[j];
            size_t floats = 0;
            if (n->kind == PITH_NODE_DELTA)
                floats =
                    pith_state_grad_work(threads, rows, n->u.delta.key_dim, n->u.delta.value_dim);
            if (n->kind == PITH_NODE_SCAN)
                floats = pith_state_grad_work(threads, rows, n->u.scan.state, n->u.scan.dim);
            most = floats > most ? floats : most;
        }
    return most;
}

static size_t most_state(const struct pith_plans *p)
{
    size_t most = 0;
    for (uint32_t i = 0; i < p->kinds; i++) {
        const struct pith_state_spec *s = &p->kind[i].state;
        if (s->kind == PITH_STATE_RECURRENT && s->floats > most) most = s->floats;
    }
    return most;
}

/* Vectors of a row that a norm reads. */
static uint32_t most_heads(const struct pith_plans *p)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < p->kinds; i++)
        for (uint32_t j = 0; j < p->kind[i].nodes; j++) {
            const struct pith_node *n = &p->kind[i].node[j];
            if (n->kind == PITH_NODE_NORM && n->u.norm.heads > most) most = n->u.norm.heads;
        }
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
    t->values_size = most_saved(p, rows);
    t->values = pith_arena_take(a, t->values_size, 1);
    t->work = pith_arena_take(a, most_work(p, threads, rows), sizeof(float));
    t->state = pith_arena_take(a, most_state(p), sizeof(float));
    t->norms = pith_arena_take_rows(a, 2 * rows, most_heads(p), sizeof(double));
    t->router = pith_arena_take(a, 4 * (size_t)p->experts, sizeof(float));
}

static unsigned threads_of(const struct pith_backend *be)
{
    return pith_pool_threads(pith_backend_pool(be));
}

enum pith_status pith_tape_init(struct pith_tape *t, struct pith_backend *be,
                                const struct pith_model *m, size_t rows, struct pith_error *err)
{
    const struct pith_plans *p = &m->plans;
    struct pith_arena a = {0};
    *t = (struct pith_tape){.backend = be, .model = m, .rows = rows};
    if (rows == 0) return pith_fail(err, PITH_ARG, "gradients of no tokens");
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

/* --- forward ---------------------------------------------------------------------------------- */

/* x[n][cols] as that linear reads it. */
static const float *read_as(struct pith_tape *t, const struct pith_tape_rows *r, size_t cols)
{
    const struct pith_input *in = &t->input[r->linear];
    if (!in->grid.format) return r->x;
    if (t->treated_of == r->x && pith_input_equal(&t->treated_as, in)) return t->treated;
    pith_input_apply(t->backend, in, r->x, r->n, cols, t->treated);
    t->treated_of = r->x;
    t->treated_as = *in;
    return t->treated;
}

void pith_tape_linear(struct pith_tape *t, const struct pith_block *b,
                      const struct pith_tape_rows *r)
{
    const struct pith_linear_weights *l = &b->linear[r->linear];
    const size_t rows = l->w.rows, cols = l->w.cols;
    pith_gemm(t->backend, &(struct pith_gemm){.m = r->n,
                                              .n = rows,
                                              .k = cols,
                                              .a = read_as(t, r, cols),
                                              .a_rs = cols,
                                              .a_cs = 1,
                                              .b = l->w.dense,
                                              .b_rs = 1,
                                              .b_cs = cols,
                                              .c = r->out,
                                              .ldc = rows});
    if (!l->bias) return;
    for (size_t i = 0; i < r->n; i++)
        for (size_t j = 0; j < rows; j++) r->out[i * rows + j] += l->bias[j];
}

static void tape_linear(struct pith_tape_forward *f, const struct pith_node *node,
                        struct pith_tape_step *s)
{
    pith_tape_linear(f->t, f->b,
                     &(struct pith_tape_rows){
                         .linear = node->u.linear.linear, .n = f->t->n, .x = s->in, .out = s->out});
}

static void tape_norm(struct pith_tape_forward *f, const struct pith_node *node,
                      struct pith_tape_step *s)
{
    pith_norm_rows(f->t->backend, f->b, node, s->in, f->t->n, s->out);
}

static void prepare_rope(struct pith_tape *t, unsigned table)
{
    struct pith_tape_rope *r = &t->rope[table];
    const struct pith_rope_angles *a = &t->model->rope[table];
    const size_t half = pith_shape_rotary(&t->model->shape, table) / 2;
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
    struct pith_rope_part part = pith_rope_of(node);
    part.x = x;
    part.n = t->n;
    part.cos = t->rope[node->u.rope.table].cos;
    part.sin = sin;
    pith_rope_part(t->backend, &part);
}

static void tape_rope(struct pith_tape_forward *f, const struct pith_node *node,
                      struct pith_tape_step *s)
{
    prepare_rope(f->t, node->u.rope.table);
    rotate(f->t, node, s->out, f->t->rope[node->u.rope.table].sin);
}

static const float *sinks_of(const struct pith_block *b, const struct pith_node *node)
{
    return node->u.attend.sinks == PITH_NO_PART ? NULL : b->vector[node->u.attend.sinks];
}

static void tape_attend(struct pith_tape_forward *f, const struct pith_node *node,
                        struct pith_tape_step *s)
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
                                     .chunked = node->u.attend.chunked,
                                     .scale = node->u.attend.scale,
                                     .cap = node->u.attend.cap,
                                     .sinks = sinks_of(f->b, node),
                                     .cache = &cache,
                                     .q = s->in,
                                     .out = s->out,
                                     .work = t->kv.work,
                                     .work_floats = t->kv.work_floats};
    pith_attention(t->backend, &a);
}

struct pith_gating pith_tape_gating(const struct pith_tape *t, const struct pith_node *gate)
{
    const struct pith_shape *s = &t->model->shape;
    const bool other = gate->kind == PITH_NODE_GATE && gate->u.gate.other;
    return (struct pith_gating){.act = other ? gate->u.gate.act : s->activation.kind,
                                .limit = s->activation.limit,
                                .alpha = s->activation.alpha};
}

static void tape_gate(struct pith_tape_forward *f, const struct pith_node *node,
                      struct pith_tape_step *s)
{
    struct pith_gating g = pith_tape_gating(f->t, node);
    g.gate = s->out;
    g.count = f->t->n * node->u.gate.dim;
    g.up = s->other[0] = node->u.gate.alone ? NULL : f->reg[node->u.gate.up];
    memcpy(s->out, s->in, g.count * sizeof *s->out);
    pith_gate(f->t->backend, &g);
}

/* The sum lies where the summand was. */
static void tape_add(struct pith_tape_forward *f, const struct pith_node *node,
                     struct pith_tape_step *s)
{
    const float *stream = f->reg[node->out], scale = node->u.add.scale;
    const size_t count = f->t->n * f->t->model->shape.hidden;
    if (scale == 1.0f) pith_add(f->t->backend, stream, s->out, count);
    else
        for (size_t i = 0; i < count; i++) s->out[i] = fmaf(s->out[i], scale, stream[i]);
}

static void tape_place(struct pith_tape_forward *f, const struct pith_node *node,
                       struct pith_tape_step *s)
{
    const size_t hidden = f->t->model->shape.hidden;
    const float *at = f->t->model->positions + node->u.place.shift * hidden;
    for (size_t i = 0; i < f->t->n * hidden; i++) s->out[i] = s->in[i] + at[i];
}

/* x[n] of `dim` times what each row's position gives. */
static void temper(const struct pith_tape *t, const struct pith_node *node, const float *x,
                   float *y)
{
    const size_t dim = node->u.temper.dim;
    for (size_t i = 0; i < t->n; i++) {
        const float factor = pith_temper_factor(node, i);
        for (size_t j = i * dim; j < (i + 1) * dim; j++) y[j] = x[j] * factor;
    }
}

static void tape_temper(struct pith_tape_forward *f, const struct pith_node *node,
                        struct pith_tape_step *s)
{
    temper(f->t, node, s->in, s->out);
}

static void tape_scale(struct pith_tape_forward *f, const struct pith_node *node,
                       struct pith_tape_step *s)
{
    const float factor = f->b->vector[node->u.scale.vector][0];
    const size_t count = f->t->n * f->t->model->shape.hidden;
    for (size_t i = 0; i < count; i++) s->out[i] = s->in[i] * factor;
}

static void tape_clamp(struct pith_tape_forward *f, const struct pith_node *node,
                       struct pith_tape_step *s)
{
    const float limit = node->u.clamp.limit;
    for (size_t i = 0; i < f->t->n * node->u.clamp.dim; i++)
        s->out[i] = fminf(fmaxf(s->in[i], -limit), limit);
}

static void tape_split(struct pith_tape_forward *f, const struct pith_node *node,
                       struct pith_tape_step *s)
{
    for (uint32_t p = 0; p < node->u.split.parts; p++) {
        if (!part_has_place(node, p)) s->saved[p] = f->reg[node->u.split.to[p]];
        f->reg[node->u.split.to[p]] = s->saved[p];
    }
    pith_split_rows(node, f->t->n, s->out, s->saved, false);
}

/* How much of row i of what all tokens share is added. */
static float share_of(const struct pith_tape_step *s, size_t row)
{
    return s->other[0] ? 1.0f / (1.0f + pith_exp_f32(-s->other[0][row])) : 1.0f;
}

static void tape_mix(struct pith_tape_forward *f, const struct pith_node *node,
                     struct pith_tape_step *s)
{
    const size_t hidden = f->t->model->shape.hidden;
    const float *sum = f->reg[node->out];
    s->other[0] = node->u.mix.gate == PITH_NO_PART ? NULL : f->reg[node->u.mix.gate];
    for (size_t i = 0; i < f->t->n; i++) {
        const float share = share_of(s, i);
        for (size_t j = i * hidden; j < (i + 1) * hidden; j++)
            s->out[j] = fmaf(s->in[j], share, sum[j]);
    }
}

#define tape_experts pith_tape_experts
#define tape_absorb pith_tape_absorb
#define tape_expand pith_tape_expand
#define tape_conv pith_tape_conv
#define tape_delta pith_tape_delta
#define tape_scan pith_tape_scan
#define tape_per_layer pith_tape_per_layer
static pith_tape_fn *const tapes[PITH_NODE_KINDS] = {
#define PITH_NODE(kind, name) tape_##name,
#include "model/nodes/nodes.def"
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

static void leave_carried(const struct pith_tape_forward *f, float *out)
{
    const struct pith_plans *p = &f->t->model->plans;
    float *to[PITH_LAYER_REGS] = {NULL};
    pith_plans_lay(p, out, f->t->n, to);
    for (int i = 0; i < PITH_LAYER_REGS; i++)
        if (to[i] && to[i] != f->reg[i])
            memcpy(to[i], f->reg[i], f->t->n * p->width[i] * sizeof **to);
}

enum pith_status pith_tape_forward(struct pith_tape *t, const struct pith_block *b, const float *x,
                                   size_t n, float *out, struct pith_error *err)
{
    struct pith_tape_forward f = {.t = t, .b = b};
    struct pith_arena values = {.base = t->values, .size = t->values_size};
    PITH_TRY(check(t, b, n, err));
    t->n = n;
    t->treated_of = NULL;
    const size_t count = n * t->model->shape.hidden;
    /* Only read: what is written goes to other places. */
    f.reg[PITH_REG_STREAM] = (float *)(uintptr_t)x;
    pith_plans_lay(&t->model->plans, (float *)(uintptr_t)x + count, n, f.reg);
    for (uint32_t i = 0; i < b->plan->nodes; i++) {
        const struct pith_node *node = &b->plan->node[i];
        struct pith_tape_step *s = &t->step[i];
        s->in = s->out = f.reg[node->in];
        take_saved(&values, &t->model->plans, b->plan, node, n, s);
        tapes[node->kind](&f, node, s);
        if (node->kind != PITH_NODE_SPLIT) f.reg[node->out] = s->out;
    }
    leave_carried(&f, out + count);
    memcpy(out, f.reg[PITH_REG_STREAM], count * sizeof *out);
    return PITH_OK;
}

/* --- backward --------------------------------------------------------------------------------- */

float *pith_tape_grow(struct pith_tape_backward *k, unsigned reg, size_t width)
{
    float *own = k->t->grad[reg];
    const size_t bytes = k->t->n * width * sizeof *own;
    if (!k->d[reg]) memset(own, 0, bytes);
    else if (k->d[reg] != own) memcpy(own, k->d[reg], bytes);
    k->d[reg] = own;
    return own;
}

void pith_tape_to_weights(struct pith_tape_backward *k, const struct pith_tape_rows *r)
{
    const size_t rows = k->b->linear[r->linear].w.rows, cols = k->b->linear[r->linear].w.cols;
    if (k->g->gave)
        k->g->gave(k->g->gave_ctx, &(struct pith_tape_gave){.linear = r->linear,
                                                            .n = r->n,
                                                            .rows = rows,
                                                            .d = r->dy,
                                                            .x = read_as(k->t, r, cols),
                                                            .cols = cols,
                                                            .place = r->place});
    pith_tape_to_bias(k, r);
    if (!k->g->w[r->linear]) return;
    pith_tape_multiply(k, &(struct pith_tape_product){.linear = r->linear,
                                                      .rows = rows,
                                                      .cols = cols,
                                                      .n = r->n,
                                                      .y = r->dy,
                                                      .x = read_as(k->t, r, cols),
                                                      .y_step = rows,
                                                      .x_step = cols});
}

void pith_tape_to_input(struct pith_tape_backward *k, const struct pith_tape_rows *r)
{
    const struct pith_weight *w = &k->b->linear[r->linear].w;
    pith_gemm(k->t->backend, &(struct pith_gemm){.m = r->n,
                                                 .n = w->cols,
                                                 .k = w->rows,
                                                 .a = r->dy,
                                                 .a_rs = w->rows,
                                                 .a_cs = 1,
                                                 .b = w->dense,
                                                 .b_rs = w->cols,
                                                 .b_cs = 1,
                                                 .c = r->out,
                                                 .ldc = w->cols,
                                                 .accumulate = r->accumulate});
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

/* The first node with a matrix. */
static uint32_t first_matrix(const struct pith_layer_plan *l)
{
    uint32_t i = 0;
    while (i < l->nodes && l->node[i].kind != PITH_NODE_LINEAR) i++;
    return i;
}

/* Reports a site's input; `before`: its gradient without these linears, or NULL. */
static void report_site(struct pith_tape_backward *k, uint32_t first, float *before)
{
    const struct pith_layer_plan *l = k->b->plan;
    const struct pith_node *node = &l->node[first];
    const struct pith_linear_spec *linear = &l->linear[node->u.linear.linear];
    const float *d = k->d[node->in];
    for (size_t i = 0; before && i < k->t->n * linear->cols; i++) before[i] = d[i] - before[i];
    k->g->seen(k->g->ctx, &(struct pith_tape_read){.what = PITH_READ_SITE,
                                                   .site = linear->site,
                                                   .n = k->t->n,
                                                   .width = linear->cols,
                                                   .x = k->t->step[first].in,
                                                   .d = before ? before : d});
}

/* All linears of a site, in the order of the program. False where nothing before is wanted. */
static bool back_site(struct pith_tape_backward *k, uint32_t first, uint32_t last)
{
    const struct pith_layer_plan *l = k->b->plan;
    struct pith_tape_rows r = {.n = k->t->n};
    for (uint32_t i = first; i <= last; i++) {
        r.linear = l->node[i].u.linear.linear;
        r.x = k->t->step[i].in;
        r.dy = k->d[l->node[i].out];
        pith_tape_to_weights(k, &r);
    }
    if (!k->g->d_x && first <= first_matrix(l)) return false;
    const float *had = k->g->seen ? k->d[l->node[first].in] : NULL;
    float *before = had ? k->t->grad_spare : NULL;
    if (had) memcpy(before, had, k->t->n * l->linear[r.linear].cols * sizeof *had);
    for (uint32_t i = first; i <= last; i++) {
        const struct pith_node *node = &l->node[i];
        r.linear = node->u.linear.linear;
        r.dy = k->d[node->out];
        r.accumulate = k->d[node->in] != NULL;
        r.out = r.accumulate ? pith_tape_grow(k, node->in, l->linear[r.linear].cols)
                             : k->t->grad[node->in];
        pith_tape_to_input(k, &r);
        k->d[node->in] = r.out;
        if (node->out != node->in) k->d[node->out] = NULL;
    }
    if (k->g->seen) report_site(k, first, before);
    return true;
}

static void back_norm(struct pith_tape_backward *k, const struct pith_node *node,
                      const struct pith_tape_step *s)
{
    const bool in_place = node->in == node->out, grows = !in_place && k->d[node->in];
    const size_t heads = node->u.norm.heads, dim = node->u.norm.dim;
    const uint32_t gain = node->u.norm.vector;
    float *dx = grows ? pith_tape_grow(k, node->in, heads * dim) : k->t->grad[node->in];
    pith_tape_to_vectors(k, node, s);
    pith_rmsnorm_grad(k->t->backend, &(struct pith_rmsnorm_grad){
                                         .x = s->in,
                                         .weight = gain == PITH_NO_PART ? NULL : k->b->vector[gain],
                                         .dy = k->d[node->out],
                                         .n = k->t->n * heads,
                                         .dim = dim,
                                         .period = node->u.norm.by_head ? heads : 0,
                                         .eps = node->u.norm.eps,
                                         .dx = dx,
                                         .accumulate = grows,
                                         .centred = node->u.norm.centred});
    if (!in_place) k->d[node->out] = NULL;
    k->d[node->in] = dx;
}

/* The transpose of a rotation rotates the other way. */
static void back_rope(struct pith_tape_backward *k, const struct pith_node *node,
                      const struct pith_tape_step *s)
{
    const size_t width = (size_t)node->u.rope.heads * node->u.rope.stride;
    (void)s;
    rotate(k->t, node, pith_tape_grow(k, node->in, width),
           k->t->rope[node->u.rope.table].minus_sin);
}

/* A latent's values are the first columns of its keys. */
static void report_attended(const struct pith_tape_backward *k, const struct pith_node *node,
                            const struct pith_tape_step *s)
{
    struct pith_tape *t = k->t;
    const struct pith_state_spec *keeps = &k->b->plan->state;
    const bool latent = keeps->kind == PITH_STATE_LATENT;
    const size_t key = (size_t)keeps->heads * keeps->key;
    const size_t value = (size_t)keeps->heads * keeps->value;
    const float *dk = t->grad[node->u.attend.k], *dv = t->grad[node->u.attend.v];
    struct pith_tape_read r = {.what = latent ? PITH_READ_LATENT : PITH_READ_KEYS,
                               .n = t->n,
                               .width = key,
                               .x = s->other[0],
                               .d = latent ? t->grad_spare : dk};
    for (size_t i = 0; latent && i < t->n; i++)
        for (size_t j = 0; j < key; j++)
            t->grad_spare[i * key + j] = dk[i * key + j] + (j < value ? dv[i * value + j] : 0);
    k->g->seen(k->g->ctx, &r);
    if (latent) return;
    r = (struct pith_tape_read){
        .what = PITH_READ_VALUES, .n = t->n, .width = value, .x = s->other[1], .d = dv};
    k->g->seen(k->g->ctx, &r);
}

static void back_attend(struct pith_tape_backward *k, const struct pith_node *node,
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
                                                                  .value_dim = keeps->value,
                                                                  .window = node->u.attend.window,
                                                                  .chunked = node->u.attend.chunked,
                                                                  .scale = node->u.attend.scale,
                                                                  .cap = node->u.attend.cap,
                                                                  .sinks = sinks_of(k->b, node),
                                                                  .q = s->in,
                                                                  .k = s->other[0],
                                                                  .v = s->other[1],
                                                                  .out = s->out,
                                                                  .d_out = t->grad_spare,
                                                                  .d_q = t->grad[node->in],
                                                                  .d_k = t->grad[key],
                                                                  .d_v = t->grad[value],
                                                                  .work = t->work});
    if (k->g->seen) report_attended(k, node, s);
    if (node->out != node->in) k->d[node->out] = NULL;
    k->d[node->in] = t->grad[node->in];
    k->d[key] = t->grad[key];
    k->d[value] = t->grad[value];
}

static void back_gate(struct pith_tape_backward *k, const struct pith_node *node,
                      const struct pith_tape_step *s)
{
    struct pith_tape *t = k->t;
    const struct pith_gating g = pith_tape_gating(t, node);
    const uint8_t up = node->u.gate.up;
    pith_gate_grad(t->backend, &(struct pith_gate_grad){.act = g.act,
                                                        .limit = g.limit,
                                                        .alpha = g.alpha,
                                                        .gate = s->in,
                                                        .up = s->other[0],
                                                        .dy = k->d[node->out],
                                                        .count = t->n * node->u.gate.dim,
                                                        .d_gate = t->grad[node->in],
                                                        .d_up = t->grad[up]});
    k->d[node->in] = t->grad[node->in];
    if (!node->u.gate.alone) k->d[up] = t->grad[up];
}

/* The stream's own gradient may change before the summand's is read. */
static void back_add(struct pith_tape_backward *k, const struct pith_node *node,
                     const struct pith_tape_step *s)
{
    const float *from = k->d[node->out], scale = node->u.add.scale;
    float *to = k->t->grad[node->in];
    (void)s;
    for (size_t i = 0; i < k->t->n * k->t->model->shape.hidden; i++) to[i] = from[i] * scale;
    k->d[node->in] = to;
}

static void back_place(struct pith_tape_backward *k, const struct pith_node *node,
                       const struct pith_tape_step *s)
{
    (void)k, (void)node, (void)s; /* a sum with what is given */
}

static void back_temper(struct pith_tape_backward *k, const struct pith_node *node,
                        const struct pith_tape_step *s)
{
    float *d = pith_tape_grow(k, node->in, node->u.temper.dim);
    (void)s;
    temper(k->t, node, d, d);
}

static void back_scale(struct pith_tape_backward *k, const struct pith_node *node,
                       const struct pith_tape_step *s)
{
    const float factor = k->b->vector[node->u.scale.vector][0];
    float *d = pith_tape_grow(k, node->in, k->t->model->shape.hidden);
    (void)s;
    for (size_t i = 0; i < k->t->n * k->t->model->shape.hidden; i++) d[i] *= factor;
}

static void back_clamp(struct pith_tape_backward *k, const struct pith_node *node,
                       const struct pith_tape_step *s)
{
    float *d = pith_tape_grow(k, node->in, node->u.clamp.dim);
    for (size_t i = 0; i < k->t->n * node->u.clamp.dim; i++)
        if (fabsf(s->in[i]) > node->u.clamp.limit) d[i] = 0;
}

static void back_split(struct pith_tape_backward *k, const struct pith_node *node,
                       const struct pith_tape_step *s)
{
    const uint32_t heads = node->u.split.heads ? node->u.split.heads : 1;
    float *part[4] = {NULL};
    size_t width = 0;
    (void)s;
    for (uint32_t p = 0; p < node->u.split.parts; p++) {
        const uint32_t dim = heads * node->u.split.dim[p], wide = node->u.split.wide[p];
        width += dim;
        part[p] = pith_tape_grow(k, node->u.split.to[p], wide ? wide : dim);
    }
    pith_split_rows(node, k->t->n, pith_tape_grow(k, node->in, width), part, true);
    for (uint32_t p = 0; p < node->u.split.parts; p++)
        if (node->u.split.to[p] != node->in) k->d[node->u.split.to[p]] = NULL;
}

static void back_mix(struct pith_tape_backward *k, const struct pith_node *node,
                     const struct pith_tape_step *s)
{
    const size_t hidden = k->t->model->shape.hidden;
    const float *dy = k->d[node->out];
    float *d = pith_tape_grow(k, node->in, hidden);
    float *gate = s->other[0] ? pith_tape_grow(k, node->u.mix.gate, 1) : NULL;
    for (size_t i = 0; i < k->t->n; i++) {
        const float share = share_of(s, i);
        double dot = 0;
        for (size_t j = i * hidden; j < (i + 1) * hidden; j++) {
            d[j] += dy[j] * share;
            dot += (double)dy[j] * (double)s->in[j];
        }
        if (gate) gate[i] += (float)(dot * (double)share * (1 - (double)share));
    }
}

/* Linears go by sites: back_site(). */
static void back_linear(struct pith_tape_backward *k, const struct pith_node *node,
                        const struct pith_tape_step *s)
{
    (void)k, (void)node, (void)s;
}

#define back_experts pith_back_experts
#define back_absorb pith_back_absorb
#define back_expand pith_back_expand
#define back_conv pith_back_conv
#define back_delta pith_back_delta
#define back_scan pith_back_scan
#define back_per_layer pith_back_per_layer
static pith_back_fn *const backs[PITH_NODE_KINDS] = {
#define PITH_NODE(kind, name) back_##name,
#include "model/nodes/nodes.def"
#undef PITH_NODE
};

void pith_tape_backward(struct pith_tape *t, const struct pith_block *b,
                        const struct pith_tape_grad *g)
{
    const size_t bytes = t->n * t->model->shape.hidden * sizeof(float);
    struct pith_tape_backward k = {.t = t, .b = b, .g = g};
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
