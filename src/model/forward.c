#include "model/model.h"

#include "backend/input.h"
#include "model/rope.h"

#include <math.h>

/* Tells the tap about a site's input; true when it wants no more. */
static bool tapped(const struct pith_pass *p, enum pith_site site, const float *x, size_t n)
{
    if (!p->tap) return false;
    return p->tap(p->tap_ctx, site, x, n, pith_site_dim(&p->model->shape, site));
}

/* The input of a site, whose linears may each want it rounded; `work` has room for that, and is x
 * itself where a site has one linear and nobody else reads x. */
static struct pith_site_input site_input(const struct pith_pass *p, enum pith_site site,
                                         const float *x, size_t n, float *work)
{
    return (struct pith_site_input){
        .x = x, .n = n, .cols = pith_site_dim(&p->model->shape, site), .work = work};
}

static void linear(const struct pith_pass *p, const struct pith_block *b, enum pith_role role,
                   struct pith_site_input *in, float *y)
{
    const struct pith_linear_weights *l = &b->linear[role];
    pith_linear_site(p->backend, &l->w, l->bias, in, y);
}

/* Rotates the input of o or down where its matrix is made for that, before the tap looks at it. */
static void hadamard_input(const struct pith_pass *p, const struct pith_linear_weights *l, float *x,
                           size_t n)
{
    const struct pith_input rotation = {.hadamard = l->w.dense ? l->hadamard
                                                               : pith_weight_input(&l->w).hadamard};
    if (rotation.hadamard > 1) pith_input_apply(p->backend, &rotation, x, n, l->w.cols, x);
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

/* Normalises (Qwen3) and rotates the heads of one of q and k, in place. */
static void place_heads(const struct pith_pass *p, float *x, size_t n, uint32_t heads,
                        const float *norm)
{
    const struct pith_shape *s = &p->model->shape;
    if (norm) pith_rmsnorm(p->backend, x, n * heads, s->head_dim, norm, s->eps, x);
    pith_rope(p->backend, x, n, (size_t)heads * s->head_dim, heads, s->head_dim, p->scratch->cos,
              p->scratch->sin);
}

/* Rounds new keys and values, in place, to the grid of the cache. */
static void round_cache(const struct pith_pass *p, const struct pith_block *b, size_t n)
{
    float *const part[] = {p->scratch->k, p->scratch->v};
    for (int i = 0; i < 2 && p->kv->grid.format; i++) {
        const struct pith_input in = {.grid = p->kv->grid, .scale = b->kv_scale[i]};
        pith_input_apply(p->backend, &in, part[i], n * p->kv->kv_heads, p->kv->head_dim, part[i]);
    }
}

static enum pith_status check_room(const struct pith_pass *p, size_t n, struct pith_error *err)
{
    const struct pith_kv *kv = p->kv;
    if (n > p->scratch->rows)
        return pith_fail(err, PITH_ARG, "%zu tokens in a work space for %zu", n, p->scratch->rows);
    if (p->kv_layer >= kv->layers || p->start > kv->capacity || n > kv->capacity - p->start)
        return pith_fail(err, PITH_LIMIT, "the KV cache of %zu tokens is full", kv->capacity);
    return PITH_OK;
}

enum pith_status pith_block_attention(const struct pith_pass *p, const struct pith_block *b,
                                      const float *normed, size_t n, float *out, bool *stopped,
                                      struct pith_error *err)
{
    const struct pith_shape *s = &p->model->shape;
    struct pith_scratch *w = p->scratch;
    if (stopped) *stopped = false;
    PITH_TRY(check_room(p, n, err));
    if (tapped(p, PITH_SITE_QKV, normed, n)) {
        if (stopped) *stopped = true;
        return PITH_OK;
    }
    struct pith_site_input in = site_input(p, PITH_SITE_QKV, normed, n, out);
    linear(p, b, PITH_ROLE_Q, &in, w->q);
    linear(p, b, PITH_ROLE_K, &in, w->k);
    linear(p, b, PITH_ROLE_V, &in, w->v);
    prepare_rope(p, n);
    place_heads(p, w->q, n, s->heads, b->norm[PITH_NORM_Q]);
    place_heads(p, w->k, n, s->kv_heads, b->norm[PITH_NORM_K]);
    round_cache(p, b, n);
    const struct pith_cache cache = pith_kv_layer(p->kv, p->kv_layer);
    pith_cache_store(p->backend, &cache, p->start, n, w->k, w->v);
    const struct pith_attention a = {.n = n,
                                     .start = p->start,
                                     .heads = s->heads,
                                     .window = b->layer >= s->window_from_layer ? s->window : 0,
                                     .scale = (float)(1 / sqrt((double)s->head_dim)),
                                     .cache = &cache,
                                     .q = w->q,
                                     .out = w->att,
                                     .work = p->kv->work,
                                     .work_floats = p->kv->work_floats};
    pith_attention(p->backend, &a);
    hadamard_input(p, &b->linear[PITH_ROLE_O], w->att, n);
    if (tapped(p, PITH_SITE_O, w->att, n)) {
        if (stopped) *stopped = true;
        return PITH_OK;
    }
    in = site_input(p, PITH_SITE_O, w->att, n, w->att);
    in.hadamard_done = true;
    linear(p, b, PITH_ROLE_O, &in, out);
    return PITH_OK;
}

void pith_block_mlp(const struct pith_pass *p, const struct pith_block *b, const float *normed,
                    size_t n, float *out, bool *stopped)
{
    struct pith_scratch *w = p->scratch;
    bool stop = tapped(p, PITH_SITE_GATE_UP, normed, n);
    if (!stop) {
        struct pith_site_input in = site_input(p, PITH_SITE_GATE_UP, normed, n, out);
        linear(p, b, PITH_ROLE_GATE, &in, w->gate);
        linear(p, b, PITH_ROLE_UP, &in, w->up);
        pith_silu_mul(p->backend, w->gate, w->up, n * p->model->shape.ffn);
        hadamard_input(p, &b->linear[PITH_ROLE_DOWN], w->gate, n);
        stop = tapped(p, PITH_SITE_DOWN, w->gate, n);
    }
    if (!stop) {
        struct pith_site_input in = site_input(p, PITH_SITE_DOWN, w->gate, n, w->gate);
        in.hadamard_done = true;
        linear(p, b, PITH_ROLE_DOWN, &in, out);
    }
    if (stopped) *stopped = stop;
}

enum pith_status pith_block_forward(const struct pith_pass *p, const struct pith_block *b, float *x,
                                    size_t n, bool *stopped, struct pith_error *err)
{
    const struct pith_shape *s = &p->model->shape;
    struct pith_scratch *w = p->scratch;
    bool stop = false;
    if (stopped) *stopped = false;
    PITH_TRY(check_room(p, n, err));
    pith_rmsnorm(p->backend, x, n, s->hidden, b->norm[PITH_NORM_INPUT], s->eps, w->norm);
    PITH_TRY(pith_block_attention(p, b, w->norm, n, w->out, &stop, err));
    if (!stop) {
        pith_add(p->backend, w->out, x, n * s->hidden);
        pith_rmsnorm(p->backend, x, n, s->hidden, b->norm[PITH_NORM_POST], s->eps, w->norm);
        pith_block_mlp(p, b, w->norm, n, w->out, &stop);
    }
    if (!stop) pith_add(p->backend, w->out, x, n * s->hidden);
    if (stopped) *stopped = stop;
    return PITH_OK;
}
