#include "calib/grads.h"

#include "base/arena.h"
#include "base/mem.h"

#include <string.h>

/* --- stored rows ------------------------------------------------------------------------------ */

/* What one window keeps at most, in floats and in products. */
struct stored {
    size_t floats, products;
};

/* A linear of all tokens; an expert's of those that take it: of each kind as many as are taken. */
static void count_linears(const struct pith_grads_room *r, struct stored *k)
{
    for (uint32_t i = 0; i < r->plan->linears; i++) {
        const struct pith_linear_spec *l = &r->plan->linear[i];
        const size_t taken = l->expert == PITH_NO_PART ? 1
                             : l->expert == 0          ? r->model->shape.moe.taken
                                                       : 0;
        const bool bias = r->biases && l->bias;
        k->floats += taken * r->length * ((size_t)l->rows * (bias ? 2 : 1) + l->cols);
        k->products += bias ? 2 : 1;
    }
}

/* Attention over latents has a product a head, of what it takes in and of what it gives. */
static void count_latents(const struct pith_grads_room *r, struct stored *k)
{
    for (uint32_t i = 0; i < r->plan->nodes; i++) {
        const struct pith_node *n = &r->plan->node[i];
        if (n->kind != PITH_NODE_ABSORB && n->kind != PITH_NODE_EXPAND) continue;
        const size_t rows = n->kind == PITH_NODE_ABSORB ? n->u.latent.nope : n->u.latent.value;
        k->floats += n->u.latent.heads * r->length * (rows + n->u.latent.rank);
        k->products += n->u.latent.heads;
    }
}

static struct stored count_rows(const struct pith_grads_room *r)
{
    struct stored k = {0};
    count_linears(r, &k);
    count_latents(r, &k);
    return k;
}

static void layout(struct pith_arena *a, const struct pith_grads_room *r, struct pith_grads *g)
{
    const struct stored k = count_rows(r);
    g->floats = r->windows * k.floats;
    g->most = r->windows * k.products;
    g->room = pith_arena_take_rows(a, r->windows, k.floats, sizeof *g->room);
    g->product = pith_arena_take_rows(a, r->windows, k.products, sizeof *g->product);
}

enum pith_status pith_grads_fit(struct pith_grads *g, const struct pith_grads_room *room,
                                struct pith_error *err)
{
    struct pith_arena a = {0};
    const uint64_t bytes = pith_grads_bytes(room);
    if (bytes > g->bytes) {
        pith_free(g->memory);
        g->memory = NULL;
        g->bytes = 0;
        layout(&a, room, g);
        if (!pith_arena_open(&a)) return pith_fail_nomem(err, "what windows gave");
        g->memory = a.base;
        g->bytes = bytes;
    }
    a = (struct pith_arena){.base = g->memory, .size = (size_t)g->bytes};
    layout(&a, room, g);
    pith_grads_begin(g);
    return PITH_OK;
}

enum pith_status pith_grads_open(struct pith_grads *g, struct pith_backend *be,
                                 struct pith_ranks *ranks, const struct pith_grads_room *room,
                                 struct pith_error *err)
{
    *g = (struct pith_grads){.backend = be, .ranks = ranks};
    return pith_grads_fit(g, room, err);
}

void pith_grads_close(struct pith_grads *g)
{
    pith_free(g->memory);
    *g = (struct pith_grads){0};
}

uint64_t pith_grads_bytes(const struct pith_grads_room *room)
{
    struct pith_grads g;
    struct pith_arena a = {0};
    layout(&a, room, &g);
    return pith_arena_bytes(&a);
}

void pith_grads_begin(struct pith_grads *g)
{
    g->used = g->products = 0;
    g->full = false;
}

/* Rows [n][width] of the list, close together. */
static const float *keep_rows(struct pith_grads *g, const float *x, size_t step, size_t n,
                              size_t width)
{
    float *at = g->room + g->used;
    for (size_t i = 0; width && i < n; i++)
        memcpy(at + i * width, x + i * step, width * sizeof *at);
    g->used += n * width;
    return at;
}

void pith_grads_keep(void *ctx, const struct pith_tape_product *p)
{
    struct pith_grads *g = ctx;
    struct pith_tape_product stored = *p;
    if (p->n == 0) return;
    g->full |= g->products == g->most || g->floats - g->used < p->n * (p->rows + p->cols);
    if (g->full) return;
    stored.y = keep_rows(g, p->y, p->y_step, p->n, p->rows);
    stored.x = keep_rows(g, p->x, p->x_step, p->n, p->cols);
    stored.y_step = p->rows;
    stored.x_step = p->cols;
    g->product[g->products++] = stored;
}

/* --- the baton -------------------------------------------------------------------------------- */

/* Rows [first, first + rows) of a linear's gradient, or its bias's: then cols is 0. */
struct panel {
    uint32_t linear;
    size_t first, rows, cols;
    float *grad; /* [rows][cols] */
};

static size_t panel_bytes(const struct panel *p)
{
    return p->rows * (p->cols ? p->cols : 1) * sizeof *p->grad;
}

static void add_panel(const struct pith_grads *g, const struct panel *at)
{
    for (size_t i = 0; i < g->products; i++) {
        const struct pith_tape_product *p = &g->product[i];
        const size_t end = at->first + at->rows, last = p->first + p->rows;
        const size_t from = p->first > at->first ? p->first : at->first;
        const size_t to = last < end ? last : end;
        if (p->linear == at->linear && p->cols == at->cols && from < to)
            pith_tape_add(g->backend, p, from - p->first, to - from,
                          at->grad + (from - at->first) * p->cols);
    }
}

/* As many rows that panels are enough for all ranks to be at work most of the time. */
static size_t panel_rows(const struct pith_layer_plan *l, const struct pith_linear_spec *of,
                         float *const *w, unsigned ranks)
{
    enum { A_RANK = 6, LEAST = 128 };
    size_t all = 0;
    for (uint32_t i = 0; i < l->linears; i++)
        if (w[i]) all += (size_t)l->linear[i].rows * l->linear[i].cols;
    const size_t rows = all / ((size_t)A_RANK * ranks) / of->cols;
    return rows < LEAST ? LEAST : rows / LEAST * LEAST;
}

static enum pith_status pass_panel(const struct pith_grads *g, const struct panel *at,
                                   struct pith_error *err)
{
    const size_t bytes = panel_bytes(at);
    PITH_TRY(pith_relay_pass(g->ranks, PITH_RELAY_RECEIVE, at->grad, bytes, err));
    add_panel(g, at);
    return pith_relay_pass(g->ranks, PITH_RELAY_SEND, at->grad, bytes, err);
}

static enum pith_status pass_linear(const struct pith_grads *g, const struct pith_layer_plan *l,
                                    float *const *w, uint32_t linear, struct pith_error *err)
{
    const struct pith_linear_spec *of = &l->linear[linear];
    const size_t rows = panel_rows(l, of, w, pith_ranks_count(g->ranks));
    for (size_t first = 0; first < of->rows; first += rows) {
        const struct panel at = {.linear = linear,
                                 .first = first,
                                 .rows = of->rows - first < rows ? of->rows - first : rows,
                                 .cols = of->cols,
                                 .grad = w[linear] + first * of->cols};
        PITH_TRY(pass_panel(g, &at, err));
    }
    return PITH_OK;
}

enum pith_status pith_grads_pass(struct pith_grads *g, const struct pith_layer_plan *plan,
                                 const struct pith_grads_sums *sums, struct pith_error *err)
{
    if (g->full) return pith_fail_nomem(err, "what windows gave");
    for (uint32_t i = 0; i < plan->linears; i++) {
        const struct panel bias = {.linear = i,
                                   .rows = plan->linear[i].rows,
                                   .grad = sums->bias ? sums->bias[i] : NULL};
        if (sums->w[i]) PITH_TRY(pass_linear(g, plan, sums->w, i, err));
        if (bias.grad) PITH_TRY(pass_panel(g, &bias, err));
    }
    return PITH_OK;
}

enum pith_status pith_grads_meet(struct pith_grads *g, const struct pith_layer_plan *plan,
                                 const struct pith_grads_sums *sums, struct pith_error *err)
{
    PITH_TRY(pith_grads_pass(g, plan, sums, err));
    for (uint32_t i = 0; i < plan->linears; i++) {
        const struct panel w = {.rows = plan->linear[i].rows,
                                .cols = plan->linear[i].cols,
                                .grad = sums->w[i]};
        const struct panel bias = {.rows = w.rows, .grad = sums->bias ? sums->bias[i] : NULL};
        if (w.grad)
            PITH_TRY(pith_relay_pass(g->ranks, PITH_RELAY_SHARE, w.grad, panel_bytes(&w), err));
        if (bias.grad)
            PITH_TRY(
                pith_relay_pass(g->ranks, PITH_RELAY_SHARE, bias.grad, panel_bytes(&bias), err));
    }
    return PITH_OK;
}
