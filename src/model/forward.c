/* A layer's program, run: one function a kind of node. */
#include "model/nodes/nodes.h"

#include "backend/cache/key_offset.h"
#include "backend/input.h"
#include "backend/layer.h"
#include "kern/ops.h"
#include "model/rope.h"

#include <math.h>
#include <string.h>

/* Spans that attention takes at a time. */
enum { SPANS_AT_ONCE = 64 };

/* Rotates a site's input where its matrix is made for that, before the tap looks at it; only where
 * one linear reads it, in place. */
static void hadamard_input(struct pith_node_run *r, const struct pith_linear_weights *l, float *x)
{
    const struct pith_input rotation = {.hadamard = l->w.dense ? l->hadamard
                                                               : pith_weight_input(&l->w).hadamard};
    if (rotation.hadamard > 1) pith_input_apply(r->pass->backend, &rotation, x, r->n, l->w.cols, x);
}

void pith_node_meet_site(struct pith_node_run *r, uint32_t site, float *x, float *work)
{
    const struct pith_pass *p = r->pass;
    const struct pith_site_spec *s = &r->block->plan->site[site];
    const bool own = work == x && s->count == 1;
    if (own && !r->met) hadamard_input(r, &r->block->linear[s->first], x);
    if (p->tap && !r->met && p->tap(p->tap_ctx, site, x, r->n, s->dim)) r->stopped = true;
    r->met = false;
    r->site = site;
    r->in = (struct pith_site_input){
        .x = x, .n = r->n, .cols = s->dim, .work = work, .hadamard_done = own};
}

void pith_node_linear(struct pith_node_run *r, uint32_t linear, float *out)
{
    const struct pith_linear_weights *l = &r->block->linear[linear];
    if (!r->stopped) pith_linear_site(r->pass->backend, &l->w, l->bias, &r->in, out);
}

/* A site's linears follow each other: those from `node` on are run together. */
static enum pith_status run_linear(struct pith_node_run *r, const struct pith_node *node,
                                   struct pith_error *err)
{
    const struct pith_layer_plan *plan = r->block->plan;
    const uint32_t site = plan->linear[node->u.linear.linear].site;
    struct pith_product products[PITH_PRODUCTS];
    size_t count = 0;
    (void)err;
    if (site != r->site)
        pith_node_meet_site(r, site, r->reg[node->in], r->reg[node->u.linear.work]);
    for (const struct pith_node *n = node; n < r->end && n->kind == PITH_NODE_LINEAR; n++) {
        const struct pith_linear_weights *l = &r->block->linear[n->u.linear.linear];
        if (plan->linear[n->u.linear.linear].site != site || count == PITH_PRODUCTS) break;
        products[count++] =
            (struct pith_product){.w = &l->w, .bias = l->bias, .y = r->reg[n->out]};
    }
    if (!r->stopped) pith_linear_site_products(r->pass->backend, products, count, &r->in);
    r->along = (uint32_t)count - 1;
    return PITH_OK;
}

static const float *vector_of(const struct pith_block *b, uint32_t vector)
{
    return vector == PITH_NO_PART ? NULL : b->vector[vector];
}

static void times_gain(float *x, size_t rows, size_t width, const float *gain)
{
    for (size_t i = 0; i < rows; i++, x += width)
        for (size_t j = 0; j < width; j++) x[j] *= gain[j];
}

void pith_norm_rows(struct pith_backend *be, const struct pith_block *b,
                    const struct pith_node *node, const float *x, size_t n, float *y)
{
    const float *gain = vector_of(b, node->u.norm.vector), *bias = vector_of(b, node->u.norm.bias);
    const size_t heads = node->u.norm.heads, dim = node->u.norm.dim;
    const bool by_head = node->u.norm.by_head && gain;
    if (node->u.norm.centred) {
        pith_layernorm(be, &(struct pith_layernorm){.x = x,
                                                    .weight = gain,
                                                    .bias = bias,
                                                    .n = n * heads,
                                                    .dim = dim,
                                                    .period = node->u.norm.by_head ? heads : 1,
                                                    .eps = node->u.norm.eps,
                                                    .y = y});
        return;
    }
    pith_rmsnorm(be, x, n * heads, dim, by_head ? NULL : gain, node->u.norm.eps, y);
    if (by_head) times_gain(y, n, heads * dim, gain);
}

static enum pith_status run_norm(struct pith_node_run *r, const struct pith_node *node,
                                 struct pith_error *err)
{
    (void)err;
    pith_norm_rows(r->pass->backend, r->block, node, r->reg[node->in], r->n, r->reg[node->out]);
    return PITH_OK;
}

/* Fills the scratch's cos and sin for these rows unless they are there from the block before. */
static void prepare_rope(const struct pith_node_run *r, unsigned table)
{
    const struct pith_pass *p = r->pass;
    struct pith_scratch_rope *s = &p->scratch->rope[table];
    const struct pith_rope_angles *angles = &p->model->rope[table];
    const double *inv_freq = pith_rope_angles_for(angles, p->kv->capacity);
    const size_t start = r->spans == 1 ? r->span[0].start : SIZE_MAX;
    const size_t half = pith_shape_rotary(&p->model->shape, table) / 2;
    if (s->of == inv_freq && s->start == start && s->rows >= r->n) return;
    for (size_t i = 0, row = 0; i < r->spans; row += r->span[i++].n)
        pith_rope_table(inv_freq, (uint32_t)half, angles->factor, r->span[i].start, r->span[i].n,
                        s->cos + row * half, s->sin + row * half);
    s->of = inv_freq;
    s->start = start;
    s->rows = r->n;
}

struct pith_rope_part pith_rope_of(const struct pith_node *node)
{
    return (struct pith_rope_part){.heads = node->u.rope.heads,
                                   .stride = node->u.rope.stride,
                                   .offset = node->u.rope.offset,
                                   .dim = node->u.rope.dim,
                                   .adjacent = node->u.rope.adjacent};
}

static enum pith_status run_rope(struct pith_node_run *r, const struct pith_node *node,
                                 struct pith_error *err)
{
    const struct pith_pass *p = r->pass;
    const struct pith_scratch_rope *s = &p->scratch->rope[node->u.rope.table];
    struct pith_rope_part part = pith_rope_of(node);
    (void)err;
    prepare_rope(r, node->u.rope.table);
    part.x = r->reg[node->in];
    part.n = r->n;
    part.cos = s->cos;
    part.sin = s->sin;
    pith_rope_part(p->backend, &part);
    return PITH_OK;
}

static enum pith_status run_place(struct pith_node_run *r, const struct pith_node *node,
                                  struct pith_error *err)
{
    const struct pith_model *m = r->pass->model;
    const size_t hidden = m->shape.hidden;
    float *x = r->reg[node->in];
    for (size_t k = 0; k < r->spans; k++) {
        const size_t first = r->span[k].start + node->u.place.shift, n = r->span[k].n;
        if (first > m->shape.place.learned || n > m->shape.place.learned - first)
            return pith_fail(err, PITH_LIMIT, "the model has places for %u tokens, not for %zu",
                             m->shape.place.learned - node->u.place.shift, r->span[k].start + n);
        for (size_t i = 0; i < n * hidden; i++) x[i] += m->positions[first * hidden + i];
        x += n * hidden;
    }
    return PITH_OK;
}

float pith_temper_factor(const struct pith_node *temper, size_t position)
{
    const double at = (double)(position + temper->u.temper.shift);
    const double steps = floor(at / temper->u.temper.every);
    return (float)(1 + temper->u.temper.beta * log(1 + steps));
}

static enum pith_status run_temper(struct pith_node_run *r, const struct pith_node *node,
                                   struct pith_error *err)
{
    const size_t dim = node->u.temper.dim;
    float *x = r->reg[node->in];
    (void)err;
    for (size_t k = 0; k < r->spans; k++)
        for (size_t i = 0; i < r->span[k].n; i++, x += dim) {
            const float factor = pith_temper_factor(node, r->span[k].start + i);
            for (size_t j = 0; j < dim && factor != 1.0f; j++) x[j] *= factor;
        }
    return PITH_OK;
}

static enum pith_status check_room(const struct pith_pass *p, const struct pith_kv_span *span,
                                   size_t spans, struct pith_error *err)
{
    const struct pith_kv *kv = p->kv;
    for (size_t i = 0; i < spans; i++) {
        const struct pith_kv_span *s = &span[i];
        if (p->kv_layer >= kv->layers || s->start > kv->capacity || s->n > kv->capacity - s->start)
            return pith_fail(err, PITH_LIMIT, "the KV cache of %zu tokens is full", kv->capacity);
    }
    return PITH_OK;
}

/* Rows of heads times the Hadamard matrix of their size, which is its own inverse. */
static void rotate_heads(struct pith_backend *b, float *x, size_t rows, uint32_t dim)
{
    const struct pith_input in = {.hadamard = dim};
    pith_input_apply(b, &in, x, rows, dim, x);
}

/* The layer of the cache that one attends to: its own, or where that has room too the one whose
 * rows it shares. */
static uint32_t rows_of(const struct pith_node_run *r)
{
    const struct pith_state_spec *keeps = &r->block->plan->state;
    const bool shared = keeps->kind == PITH_STATE_SHARED && r->pass->kv->layers > 1;
    return shared ? keeps->of : r->pass->kv_layer;
}

/* Some of the spans, whose first row is `row`: stored, then attended to. */
static void attend_some(struct pith_node_run *r, const struct pith_node *node,
                        const struct pith_kv_span *of, size_t count, size_t row)
{
    const struct pith_pass *p = r->pass;
    const struct pith_state_spec *keeps = &r->block->plan->state;
    const uint32_t layer = rows_of(r);
    const bool own = layer == p->kv_layer;
    const struct pith_kv_format *f = pith_kv_of(&p->kv->format, layer);
    struct pith_cache cache = pith_kv_layer(p->kv, layer, keeps);
    const float *scale = own                ? r->block->kv_scale
                         : p->model->blocks ? p->model->blocks[layer].kv_scale
                                            : NULL;
    struct pith_cache_span span[SPANS_AT_ONCE];
    struct pith_cache plain;
    const bool floats = pith_kv_plain(p->kv, layer, keeps, &plain);
    cache.k.scale = scale;
    cache.v.scale = scale ? scale + keeps->heads : NULL;
    struct pith_kv_put put = {.backend = p->backend,
                              .kv = p->kv,
                              .layer = layer,
                              .cache = &cache,
                              .plain = floats ? &plain : NULL,
                              .k = r->reg[node->u.attend.k] + row * keeps->heads * keeps->key,
                              .v = r->reg[node->u.attend.v] + row * keeps->heads * keeps->value};
    for (size_t i = 0; i < count; i++) {
        span[i] = own ? pith_kv_store(&put, &of[i]) : pith_kv_stored(&put, &of[i]);
        put.k += of[i].n * keeps->heads * keeps->key;
        put.v += of[i].n * keeps->heads * keeps->value;
    }
    const uint32_t heads = node->u.attend.heads;
    pith_attention(p->backend,
                   &(struct pith_attention){
                       .span = span,
                       .spans = count,
                       .heads = heads,
                       .window = node->u.attend.window,
                       .chunked = node->u.attend.chunked,
                       .scale = node->u.attend.scale,
                       .cap = node->u.attend.cap,
                       .sinks = vector_of(r->block, node->u.attend.sinks),
                       .cache = &cache,
                       .plain = floats ? &plain : NULL,
                       .offset = pith_kv_offset_of(p->kv, layer),
                       .rounded = p->kv->format.attn.grid.format ? &p->kv->format.attn : NULL,
                       .sink = pith_cache_pages(pith_kv_sink(f)),
                       .recent = pith_cache_pages(pith_kv_recent(f)),
                       .q = r->reg[node->in] + row * heads * keeps->key,
                       .out = r->reg[node->out] + row * heads * keeps->value,
                       .work = p->kv->work,
                       .work_floats = p->kv->work_floats});
}

/* Takes out of keys what the cache keeps them without. */
static void take_offset(struct pith_node_run *r, const struct pith_node *node)
{
    const struct pith_key_offset *offset = pith_kv_offset_of(r->pass->kv, r->pass->kv_layer);
    float *k = r->reg[node->u.attend.k];
    for (size_t i = 0; offset && i < r->spans; k += r->span[i++].n * offset->kv_heads * offset->dim)
        pith_key_offset_take(
            r->pass->backend, offset,
            &(struct pith_cache_span){.start = r->span[i].start, .n = r->span[i].n}, k);
}

static enum pith_status run_attend(struct pith_node_run *r, const struct pith_node *node,
                                   struct pith_error *err)
{
    const struct pith_pass *p = r->pass;
    const struct pith_state_spec *keeps = &r->block->plan->state;
    const bool own = rows_of(r) == p->kv_layer;
    const struct pith_kv_format *f = pith_kv_of(&p->kv->format, rows_of(r));
    const size_t queries = r->n * node->u.attend.heads, rows = r->n * keeps->heads;
    PITH_TRY(check_room(p, r->span, r->spans, err));
    if (own) take_offset(r, node);
    if (f->k.rotate) rotate_heads(p->backend, r->reg[node->in], queries, keeps->key);
    if (f->k.rotate && own) rotate_heads(p->backend, r->reg[node->u.attend.k], rows, keeps->key);
    if (f->v.rotate && own) rotate_heads(p->backend, r->reg[node->u.attend.v], rows, keeps->value);
    for (size_t i = 0, row = 0, n; i < r->spans; i += n) {
        n = r->spans - i < SPANS_AT_ONCE ? r->spans - i : SPANS_AT_ONCE;
        attend_some(r, node, r->span + i, n, row);
        for (size_t k = 0; k < n; k++) row += r->span[i + k].n;
    }
    if (f->v.rotate) rotate_heads(p->backend, r->reg[node->out], queries, keeps->value);
    return PITH_OK;
}

void pith_node_gate(const struct pith_node_run *r, float *gate, const float *up, size_t count)
{
    const struct pith_shape *s = &r->pass->model->shape;
    pith_gate(r->pass->backend, &(struct pith_gating){.act = s->activation.kind,
                                                      .limit = s->activation.limit,
                                                      .alpha = s->activation.alpha,
                                                      .gate = gate,
                                                      .up = up,
                                                      .count = count});
}

static enum pith_status run_gate(struct pith_node_run *r, const struct pith_node *node,
                                 struct pith_error *err)
{
    float *gate = r->reg[node->in];
    const float *up = node->u.gate.alone ? NULL : r->reg[node->u.gate.up];
    const size_t count = r->n * node->u.gate.dim;
    (void)err;
    if (node->u.gate.other)
        pith_gate(
            r->pass->backend,
            &(struct pith_gating){.act = node->u.gate.act, .gate = gate, .up = up, .count = count});
    else pith_node_gate(r, gate, up, count);
    return PITH_OK;
}

static enum pith_status run_add(struct pith_node_run *r, const struct pith_node *node,
                                struct pith_error *err)
{
    (void)err;
    pith_add_scaled(r->pass->backend, r->reg[node->in], node->u.add.scale, r->reg[node->out],
                    r->n * r->pass->model->shape.hidden);
    return PITH_OK;
}

static enum pith_status run_clamp(struct pith_node_run *r, const struct pith_node *node,
                                  struct pith_error *err)
{
    float *x = r->reg[node->in];
    const float limit = node->u.clamp.limit;
    const size_t count = r->n * node->u.clamp.dim;
    (void)err;
    for (size_t i = 0; i < count; i++) {
        x[i] = x[i] > limit ? limit : x[i];
        x[i] = x[i] < -limit ? -limit : x[i];
    }
    return PITH_OK;
}

/* One part of a row, or of one of its heads. */
static void split_part(const struct pith_node *node, uint32_t part, float *in, float *to, bool back)
{
    const uint32_t dim = node->u.split.dim[part];
    const uint32_t step = node->u.split.adjacent ? node->u.split.parts : 1;
    for (uint32_t i = 0; i < dim && back; i++) in[step * i] += to[i];
    for (uint32_t i = 0; i < dim && !back; i++) to[i] = in[step * i];
}

void pith_split_rows(const struct pith_node *node, size_t n, float *in, float *const part[4],
                     bool back)
{
    const uint32_t heads = node->u.split.heads ? node->u.split.heads : 1;
    size_t width = 0, before = 0;
    for (uint32_t p = 0; p < node->u.split.parts; p++) width += node->u.split.dim[p];
    for (uint32_t p = 0; p < node->u.split.parts; p++) {
        const uint32_t dim = node->u.split.dim[p], wide = node->u.split.wide[p];
        float *from = in + (node->u.split.adjacent ? p : before);
        for (size_t row = 0; row < n; row++)
            for (uint32_t h = 0; h < heads; h++)
                split_part(node, p, from + (row * heads + h) * width,
                           part[p] + node->u.split.at[p] + row * (wide ? wide : heads * dim) +
                               h * dim,
                           back);
        before += dim;
    }
}

static enum pith_status run_split(struct pith_node_run *r, const struct pith_node *node,
                                  struct pith_error *err)
{
    float *part[4] = {NULL};
    (void)err;
    for (uint32_t p = 0; p < node->u.split.parts; p++) part[p] = r->reg[node->u.split.to[p]];
    pith_split_rows(node, r->n, r->reg[node->in], part, false);
    return PITH_OK;
}

static enum pith_status run_mix(struct pith_node_run *r, const struct pith_node *node,
                                struct pith_error *err)
{
    const size_t hidden = r->pass->model->shape.hidden;
    const float *in = r->reg[node->in];
    float *out = r->reg[node->out];
    (void)err;
    for (size_t i = 0; i < r->n; i++) {
        const float gate = node->u.mix.gate != PITH_NO_PART ? r->reg[node->u.mix.gate][i]
                                                            : INFINITY;
        const float share = 1.0f / (1.0f + pith_exp_f32(-gate));
        for (size_t j = i * hidden; j < (i + 1) * hidden; j++) out[j] = fmaf(in[j], share, out[j]);
    }
    return PITH_OK;
}

static enum pith_status run_scale(struct pith_node_run *r, const struct pith_node *node,
                                  struct pith_error *err)
{
    const float factor = r->block->vector[node->u.scale.vector][0];
    float *x = r->reg[node->in];
    (void)err;
    for (size_t i = 0; i < r->n * r->pass->model->shape.hidden; i++) x[i] *= factor;
    return PITH_OK;
}

#define run_experts pith_node_experts
#define run_absorb pith_node_absorb
#define run_expand pith_node_expand
#define run_conv pith_node_conv
#define run_delta pith_node_delta
#define run_scan pith_node_scan
#define run_per_layer pith_node_per_layer
typedef enum pith_status run_fn(struct pith_node_run *r, const struct pith_node *node,
                                struct pith_error *err);
static run_fn *const runs[PITH_NODE_KINDS] = {
#define PITH_NODE(kind, name) run_##name,
#include "model/nodes/nodes.def"
#undef PITH_NODE
};

struct pith_nodes pith_nodes_begin(const struct pith_pass *p, const struct pith_block *b, float *x,
                                   size_t n)
{
    struct pith_nodes r = {.to = b->plan->nodes, .n = n};
    for (int i = 0; i < PITH_LAYER_REGS; i++) r.reg[i] = p->scratch->reg[i];
    r.reg[PITH_REG_STREAM] = x;
    if (p->carried) pith_plans_lay(&p->model->plans, p->carried, n, r.reg);
    return r;
}

enum pith_status pith_nodes_run(const struct pith_pass *p, const struct pith_block *b,
                                const struct pith_nodes *nodes, bool *stopped,
                                struct pith_error *err)
{
    const struct pith_kv_span alone = {.start = p->start, .n = nodes->n};
    struct pith_node_run r = {.pass = p,
                              .block = b,
                              .reg = nodes->reg,
                              .n = nodes->n,
                              .span = p->spans ? p->span : &alone,
                              .spans = p->spans ? p->spans : 1,
                              .site = PITH_NO_PART,
                              .met = nodes->no_tap_first,
                              .end = b->plan->node + nodes->to};
    if (stopped) *stopped = false;
    if (r.n > p->scratch->rows)
        return pith_fail(err, PITH_ARG, "%zu tokens in a work space for %zu", r.n,
                         p->scratch->rows);
    for (uint32_t i = nodes->from; i < nodes->to && !r.stopped; i += 1 + r.along) {
        const struct pith_node *node = &b->plan->node[i];
        r.along = 0;
        PITH_TRY(runs[node->kind](&r, node, err));
    }
    if (stopped) *stopped = r.stopped;
    return PITH_OK;
}

enum pith_status pith_block_forward(const struct pith_pass *p, const struct pith_block *b, float *x,
                                    size_t n, bool *stopped, struct pith_error *err)
{
    const struct pith_nodes all = pith_nodes_begin(p, b, x, n);
    const struct pith_kv_span alone = {.start = p->start, .n = n};
    if (stopped) *stopped = false;
    PITH_TRY(check_room(p, p->spans ? p->span : &alone, p->spans ? p->spans : 1, err));
    return pith_nodes_run(p, b, &all, stopped, err);
}

enum pith_status pith_module_forward(const struct pith_pass *p, const struct pith_block *b,
                                     uint32_t site, const float *x, size_t n, float *out,
                                     struct pith_error *err)
{
    const struct pith_site_spec *s = &b->plan->site[site];
    struct pith_nodes part = pith_nodes_begin(p, b, NULL, n);
    part.from = s->from;
    part.to = s->to;
    part.reg[b->plan->node[s->from].in] = (float *)(uintptr_t)x; /* only read */
    part.reg[s->result] = out;
    return pith_nodes_run(p, b, &part, NULL, err);
}
