#include "choose/sense_routes.h"

#include "base/arena.h"
#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <string.h>

/* --- routers ---------------------------------------------------------------------------------- */

enum pith_status pith_routes_open(struct pith_routes *r, const struct pith_plans *p,
                                  struct pith_error *err)
{
    *r = (struct pith_routes){0};
    for (uint32_t l = 0; l < p->layers; l++)
        if (pith_plan_experts(pith_plan(p, l))) r->routers++;
    if (r->routers == 0) return PITH_OK;
    r->router = pith_zalloc(r->routers, sizeof *r->router);
    if (!r->router) return pith_fail_nomem(err, "routers");
    for (uint32_t l = 0, i = 0; l < p->layers; l++)
        if (pith_plan_experts(pith_plan(p, l))) r->router[i++].layer = l;
    return PITH_OK;
}

void pith_routes_free(struct pith_routes *r)
{
    pith_free(r->router);
    *r = (struct pith_routes){0};
}

struct pith_router_curve *pith_routes_of(const struct pith_routes *r, uint32_t layer)
{
    for (uint32_t i = 0; i < r->routers; i++)
        if (r->router[i].layer == layer) return &r->router[i];
    return NULL;
}

/* Whether a linear comes behind the mixture of its layer, or is part of it. */
static bool is_behind(const struct pith_layer_plan *l, uint32_t linear)
{
    const struct pith_node *experts = pith_plan_experts(l);
    if (linear == PITH_NO_PART) return false;
    if (l->linear[linear].expert != PITH_NO_PART) return true;
    for (const struct pith_node *n = experts; n && n < l->node + l->nodes; n++)
        if (n->kind == PITH_NODE_LINEAR && n->u.linear.linear == linear) return true;
    return false;
}

uint32_t pith_routes_from(const struct pith_routes *r, const struct pith_plans *p, uint32_t layer,
                          uint32_t linear)
{
    const uint32_t first = layer + is_behind(pith_plan(p, layer), linear);
    uint32_t i = 0;
    while (i < r->routers && r->router[i].layer < first) i++;
    return i;
}

/* --- curves ----------------------------------------------------------------------------------- */

double pith_router_variance(size_t point)
{
    return pow(10, (double)point / 4 - 6);
}

/* The piece of the curve that holds a variance: where it begins, and its slope. */
struct piece {
    double x, y, slope;
};

static struct piece piece_of(const struct pith_router_curve *c, double variance)
{
    struct piece p = {0, 0, 0};
    for (size_t i = 0; i < PITH_ROUTER_POINTS; i++) {
        const double x = pith_router_variance(i);
        p.slope = (c->kld[i] - p.y) / (x - p.x);
        if (variance < x) return p;
        p.x = x;
        p.y = c->kld[i];
    }
    p.slope = 0;
    return p;
}

double pith_router_kld(const struct pith_router_curve *c, double variance)
{
    const struct piece p = piece_of(c, variance);
    return p.y + p.slope * (variance - p.x);
}

double pith_router_slope(const struct pith_router_curve *c, double variance)
{
    return piece_of(c, variance).slope;
}

double pith_routes_kld(const struct pith_routes *r, uint32_t from, double variance)
{
    double sum = 0;
    for (uint32_t i = from; i < r->routers; i++) sum += pith_router_kld(&r->router[i], variance);
    return sum;
}

/* The corner behind a point of the majorant: where the line from that point rises most. */
static size_t next_corner(const struct pith_router_curve *c, double x, double y, size_t from)
{
    size_t best = from;
    double steepest = -INFINITY;
    for (size_t i = from; i < PITH_ROUTER_POINTS; i++) {
        const double slope = (c->kld[i] - y) / (pith_router_variance(i) - x);
        if (slope >= steepest) steepest = slope, best = i;
    }
    return best;
}

void pith_route_settle(struct pith_router_curve *c, double tokens)
{
    double x = 0, y = 0;
    for (size_t i = 0; i < PITH_ROUTER_POINTS; i++) c->kld[i] /= tokens;
    for (size_t i = 0; i < PITH_ROUTER_POINTS;) {
        const size_t corner = next_corner(c, x, y, i);
        const double to = pith_router_variance(corner);
        for (; i < corner; i++)
            c->kld[i] = y + (c->kld[corner] - y) * (pith_router_variance(i) - x) / (to - x);
        x = to;
        y = c->kld[corner];
        i = corner + 1;
    }
}

/* --- a layer ---------------------------------------------------------------------------------- */

static void layout(struct pith_arena *a, const struct pith_model *m, size_t rows,
                   struct pith_route_work *w)
{
    w->rivals.rival = pith_arena_take(a, rows, sizeof *w->rivals.rival);
    w->rivals.change = pith_arena_take_rows(a, rows, m->shape.hidden, sizeof(float));
    w->rivals.weight = pith_arena_take(a, rows, sizeof(float));
    w->rivals.row = pith_arena_take(a, rows, sizeof *w->rivals.row);
    w->d_margin = pith_arena_take(a, rows, sizeof(float));
}

uint64_t pith_route_work_bytes(const struct pith_model *m, size_t rows)
{
    struct pith_arena a = {0};
    struct pith_route_work w;
    if (!m->plans.experts) return 0;
    layout(&a, m, rows, &w);
    return pith_arena_bytes(&a);
}

enum pith_status pith_route_work_init(struct pith_route_work *w, const struct pith_model *m,
                                      size_t rows, struct pith_error *err)
{
    struct pith_arena a = {0};
    *w = (struct pith_route_work){0};
    for (size_t i = 0; i < PITH_ROUTER_POINTS; i++) w->variance[i] = pith_router_variance(i);
    if (!m->plans.experts) return PITH_OK;
    layout(&a, m, rows, w);
    if (!pith_arena_open(&a)) return pith_fail_nomem(err, "routes");
    layout(&a, m, rows, w);
    w->memory = a.base;
    return PITH_OK;
}

void pith_route_work_free(struct pith_route_work *w)
{
    pith_free(w->memory);
    *w = (struct pith_route_work){0};
}

bool pith_route_look(struct pith_route_work *w, struct pith_tape *t, const struct pith_block *b,
                     uint64_t seed)
{
    const struct pith_rival *rival = w->rivals.rival;
    struct pith_rng rng;
    double sum = 0;
    size_t some = 0;
    if (!pith_tape_find_rivals(t, b, &w->rivals)) return false;
    w->rows = t->n;
    for (size_t i = 0; i < w->rows; i++) {
        if (!isfinite(rival[i].margin)) continue;
        sum += (double)rival[i].margin;
        some++;
    }
    w->mean = some && sum > 0 ? sum / (double)some : 1;
    pith_rng_seed(&rng, seed);
    for (size_t i = 0; i < w->rows; i++)
        w->d_margin[i] = (float)((pith_rng_below(&rng, 2) ? 1 : -1) / w->mean);
    return true;
}

void pith_route_feel(struct pith_route_work *w, const struct pith_routes *r,
                     const struct pith_tape_read *read, bool sways)
{
    const uint32_t next = (uint32_t)(w->curve - r->router) + 1, behind = r->routers - next;
    if (sways && behind == 0) return;
    for (size_t i = 0; i < w->rows; i++) {
        const float *change = w->rivals.change + i * read->width, *d = read->d + i * read->width;
        const double margin = (double)w->rivals.rival[i].margin / w->mean;
        double dot = 0;
        if (!isfinite(margin)) continue;
        for (size_t j = 0; j < read->width; j++) dot += (double)change[j] * (double)d[j];
        const double cost = sways ? pith_routes_kld(r, next, dot * dot / behind) : dot * dot / 2;
        double *to = w->log ? w->log + i * PITH_ROUTER_POINTS : w->curve->kld;
        for (size_t k = 0; k < PITH_ROUTER_POINTS; k++)
            to[k] += cost / 2 * erfc(margin / sqrt(2 * w->variance[k]));
    }
}
