/* A layer's program, run: one function a kind of node. */
#include "model/model.h"

#include "backend/input.h"
#include "model/rope.h"

/* The program at work. */
struct run {
    const struct pith_pass *pass;
    const struct pith_block *block;
    float *const *reg;
    size_t n;
    uint32_t site; /* whose input `in` is; PITH_NO_PART: none yet */
    bool met;      /* the first site's input was tapped and rotated before */
    bool stopped;
    struct pith_site_input in;
};

/* Rotates a site's input where its matrix is made for that, before the tap looks at it; only where
 * one linear reads it, in place. */
static void hadamard_input(struct run *r, const struct pith_linear_weights *l, float *x)
{
    const struct pith_input rotation = {.hadamard = l->w.dense ? l->hadamard
                                                               : pith_weight_input(&l->w).hadamard};
    if (rotation.hadamard > 1) pith_input_apply(r->pass->backend, &rotation, x, r->n, l->w.cols, x);
}

/* The first linear of a site has its input made ready, and the tap told. */
static void meet_site(struct run *r, const struct pith_node *node, uint32_t site)
{
    const struct pith_pass *p = r->pass;
    const struct pith_site_spec *s = &r->block->plan->site[site];
    float *x = r->reg[node->in];
    const bool own = node->u.linear.work == node->in && s->count == 1;
    if (own && !r->met) hadamard_input(r, &r->block->linear[s->first], x);
    if (p->tap && !r->met && p->tap(p->tap_ctx, site, x, r->n, s->dim)) r->stopped = true;
    r->met = false;
    r->site = site;
    r->in = (struct pith_site_input){.x = x,
                                     .n = r->n,
                                     .cols = s->dim,
                                     .work = r->reg[node->u.linear.work],
                                     .hadamard_done = own};
}

static enum pith_status run_linear(struct run *r, const struct pith_node *node,
                                   struct pith_error *err)
{
    const struct pith_linear_weights *l = &r->block->linear[node->u.linear.linear];
    const uint32_t site = r->block->plan->linear[node->u.linear.linear].site;
    (void)err;
    if (site != r->site) meet_site(r, node, site);
    if (!r->stopped) pith_linear_site(r->pass->backend, &l->w, l->bias, &r->in, r->reg[node->out]);
    return PITH_OK;
}

static enum pith_status run_norm(struct run *r, const struct pith_node *node,
                                 struct pith_error *err)
{
    (void)err;
    pith_rmsnorm(r->pass->backend, r->reg[node->in], r->n * node->u.norm.heads, node->u.norm.dim,
                 r->block->vector[node->u.norm.vector], r->pass->model->shape.eps,
                 r->reg[node->out]);
    return PITH_OK;
}

/* Fills the scratch's cos and sin for these rows unless they are there from the block before. */
static void prepare_rope(const struct pith_pass *p, size_t n)
{
    struct pith_scratch *s = p->scratch;
    if (s->rope_model == p->model && s->rope_start == p->start && s->rope_rows >= n) return;
    const struct pith_model *m = p->model;
    pith_rope_table(m->inv_freq, m->shape.head_dim / 2, m->rope_factor, p->start, n, s->cos,
                    s->sin);
    s->rope_model = m;
    s->rope_start = p->start;
    s->rope_rows = n;
}

static enum pith_status run_rope(struct run *r, const struct pith_node *node,
                                 struct pith_error *err)
{
    const struct pith_pass *p = r->pass;
    const size_t heads = node->u.rope.heads, dim = p->model->shape.head_dim;
    (void)err;
    prepare_rope(p, r->n);
    pith_rope(p->backend, r->reg[node->in], r->n, heads * dim, heads, dim, p->scratch->cos,
              p->scratch->sin);
    return PITH_OK;
}

/* Rounds new keys and values, in place, to the grid of the cache. */
static void round_cache(const struct run *r, const struct pith_node *node)
{
    const struct pith_kv *kv = r->pass->kv;
    float *const part[] = {r->reg[node->u.attend.k], r->reg[node->u.attend.v]};
    for (int i = 0; i < 2 && kv->grid.format; i++) {
        const struct pith_input in = {.grid = kv->grid, .scale = r->block->kv_scale[i]};
        pith_input_apply(r->pass->backend, &in, part[i], r->n * kv->kv_heads, kv->head_dim,
                         part[i]);
    }
}

static enum pith_status check_room(const struct pith_pass *p, size_t n, struct pith_error *err)
{
    const struct pith_kv *kv = p->kv;
    if (p->kv_layer >= kv->layers || p->start > kv->capacity || n > kv->capacity - p->start)
        return pith_fail(err, PITH_LIMIT, "the KV cache of %zu tokens is full", kv->capacity);
    return PITH_OK;
}

static enum pith_status run_attend(struct run *r, const struct pith_node *node,
                                   struct pith_error *err)
{
    const struct pith_pass *p = r->pass;
    PITH_TRY(check_room(p, r->n, err));
    round_cache(r, node);
    const struct pith_cache cache = pith_kv_layer(p->kv, p->kv_layer);
    pith_cache_store(p->backend, &cache, p->start, r->n, r->reg[node->u.attend.k],
                     r->reg[node->u.attend.v]);
    const struct pith_attention a = {.n = r->n,
                                     .start = p->start,
                                     .heads = p->model->shape.heads,
                                     .window = node->u.attend.window,
                                     .scale = node->u.attend.scale,
                                     .cache = &cache,
                                     .q = r->reg[node->in],
                                     .out = r->reg[node->out],
                                     .work = p->kv->work,
                                     .work_floats = p->kv->work_floats};
    pith_attention(p->backend, &a);
    return PITH_OK;
}

static enum pith_status run_gate(struct run *r, const struct pith_node *node,
                                 struct pith_error *err)
{
    (void)err;
    pith_silu_mul(r->pass->backend, r->reg[node->in], r->reg[node->u.gate.up],
                  r->n * node->u.gate.dim);
    return PITH_OK;
}

static enum pith_status run_add(struct run *r, const struct pith_node *node, struct pith_error *err)
{
    (void)err;
    pith_add(r->pass->backend, r->reg[node->in], r->reg[node->out],
             r->n * r->pass->model->shape.hidden);
    return PITH_OK;
}

typedef enum pith_status run_fn(struct run *r, const struct pith_node *node,
                                struct pith_error *err);
static run_fn *const runs[PITH_NODE_KINDS] = {
#define PITH_NODE(kind, run) run_##run,
#include "model/nodes.def"
#undef PITH_NODE
};

struct pith_nodes pith_nodes_begin(const struct pith_pass *p, const struct pith_block *b, float *x,
                                   size_t n)
{
    struct pith_nodes r = {.to = b->plan->nodes, .n = n};
    for (int i = 0; i < PITH_LAYER_REGS; i++) r.reg[i] = p->scratch->reg[i];
    r.reg[PITH_REG_STREAM] = x;
    return r;
}

enum pith_status pith_nodes_run(const struct pith_pass *p, const struct pith_block *b,
                                const struct pith_nodes *nodes, bool *stopped,
                                struct pith_error *err)
{
    struct run r = {.pass = p,
                    .block = b,
                    .reg = nodes->reg,
                    .n = nodes->n,
                    .site = PITH_NO_PART,
                    .met = nodes->no_tap_first};
    if (stopped) *stopped = false;
    if (r.n > p->scratch->rows)
        return pith_fail(err, PITH_ARG, "%zu tokens in a work space for %zu", r.n,
                         p->scratch->rows);
    for (uint32_t i = nodes->from; i < nodes->to && !r.stopped; i++) {
        const struct pith_node *node = &b->plan->node[i];
        PITH_TRY(runs[node->kind](&r, node, err));
    }
    if (stopped) *stopped = r.stopped;
    return PITH_OK;
}

enum pith_status pith_block_forward(const struct pith_pass *p, const struct pith_block *b, float *x,
                                    size_t n, bool *stopped, struct pith_error *err)
{
    const struct pith_nodes all = pith_nodes_begin(p, b, x, n);
    if (stopped) *stopped = false;
    PITH_TRY(check_room(p, n, err));
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
