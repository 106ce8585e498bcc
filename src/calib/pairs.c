#include "calib/pairs.h"

#include "base/grow.h"
#include "base/mem.h"
#include "calib/relay.h"

#include <math.h>
#include <string.h>

/* --- stored outputs --------------------------------------------------------------------------- */

uint64_t pith_pairs_floats(const struct pith_guide *g, size_t tokens)
{
    const struct pith_plans *plans = &g->model->plans;
    uint64_t most = 0;
    for (uint32_t k = 0; k < plans->kinds && g->block; k++) {
        const struct pith_layer_plan *l = &plans->kind[k];
        uint64_t rows = 0;
        for (uint32_t i = 0; i < l->linears; i++) {
            const uint32_t expert = l->linear[i].expert;
            if (expert == PITH_NO_PART) rows += l->linear[i].rows;
            else if (expert == 0) rows += (uint64_t)plans->taken * l->linear[i].rows;
        }
        most = rows > most ? rows : most;
    }
    return most * tokens;
}

void pith_pairs_free(struct pith_pairs *p)
{
    pith_free(p->rows);
    *p = (struct pith_pairs){0};
}

struct scaling {
    const struct pith_tape_gave *gave;
    float *to; /* [n][rows] */
};

/* A token's gradients, times the norm of what the linear read. */
static void scale_row(void *ctx, size_t i, unsigned thread)
{
    const struct scaling *s = ctx;
    const size_t rows = s->gave->rows, cols = s->gave->cols;
    const float *x = s->gave->x + i * cols, *d = s->gave->d + i * rows;
    double squares = 0;
    (void)thread;
    for (size_t j = 0; j < cols; j++) squares += (double)x[j] * (double)x[j];
    const float by = (float)sqrt(squares);
    for (size_t j = 0; j < rows; j++) s->to[i * rows + j] = d[j] * by;
}

enum pith_status pith_pairs_keep(const struct pith_guide *g, const struct pith_tape_gave *gave,
                                 struct pith_error *err)
{
    enum { SOME = 64 };
    struct pith_pairs *p = g->pairs;
    const uint64_t floats = (uint64_t)gave->n * gave->rows;
    void *more = pith_grow(p->rows, p->count, &p->most, SOME, sizeof *p->rows);
    if (!more) return pith_fail_nomem(err, "what is felt of outputs");
    p->rows = more;
    if (p->floats - p->used < floats) return pith_fail_nomem(err, "what is felt of outputs");
    struct scaling s = {gave, p->room + p->used};
    pith_pool_run(pith_backend_pool(g->backend), gave->n, scale_row, &s);
    p->rows[p->count++] = (struct pith_pairs_rows){gave->linear, gave->n, (size_t)p->used};
    p->used += floats;
    return PITH_OK;
}

/* Block [n][n] of the linear's outputs from number `first` on grows by its stored outputs. */
static void pairs_add(const struct pith_guide *g, uint32_t linear, uint32_t first, size_t n,
                      float *to)
{
    const struct pith_pairs *p = g->pairs;
    for (size_t k = 0; k < p->count; k++) {
        const struct pith_pairs_rows *r = &p->rows[k];
        if (r->linear != linear) continue;
        const size_t end = k + 1 < p->count ? p->rows[k + 1].at : (size_t)p->used;
        const size_t rows = (end - r->at) / r->n;
        for (size_t i = 0; i < r->n; i++)
            memcpy(g->scratch + i * n, p->room + r->at + i * rows + first, n * sizeof *to);
        pith_syrk(g->backend, to, n, g->scratch, r->n, 1.0f / (float)g->tokens);
    }
}

/* --- the baton -------------------------------------------------------------------------------- */

/* A linear's pairs, block by block of each group of its rows. */
static enum pith_status pass_pairs(const struct pith_guide *g, uint32_t layer, uint32_t linear,
                                   struct pith_ranks *ranks, struct pith_error *err)
{
    const uint32_t rows = pith_plan(&g->model->plans, layer)->linear[linear].rows;
    for (uint32_t k = 0; k < g->groups; k++) {
        const uint32_t from = pith_rows_from(g->groups, k, rows),
                       count = pith_rows_from(g->groups, k + 1, rows) - from;
        float *group = pith_guide_outputs(g, layer, linear) +
                       pith_outputs_of(rows, g->block, g->groups, k);
        for (uint32_t at = 0; at < count; at += g->block) {
            const size_t n = count - at < g->block ? count - at : g->block;
            float *to = group + pith_outputs_at(count, g->block, at);
            PITH_TRY(pith_relay_pass(ranks, PITH_RELAY_RECEIVE, to, n * n * sizeof *to, err));
            pairs_add(g, linear, from + at, n, to);
            PITH_TRY(pith_relay_pass(ranks, PITH_RELAY_SEND, to, n * n * sizeof *to, err));
        }
    }
    return PITH_OK;
}

enum pith_status pith_pairs_meet(const struct pith_guide *g, uint32_t layer,
                                 struct pith_ranks *ranks, struct pith_error *err)
{
    const struct pith_layer_plan *l = pith_plan(&g->model->plans, layer);
    if (!g->pairs) return PITH_OK;
    for (uint32_t i = 0; i < l->linears; i++) PITH_TRY(pass_pairs(g, layer, i, ranks, err));
    for (uint32_t i = 0; i < l->linears; i++) {
        const size_t floats = pith_outputs_of(l->linear[i].rows, g->block, g->groups, g->groups);
        PITH_TRY(pith_relay_pass(ranks, PITH_RELAY_SHARE, pith_guide_outputs(g, layer, i),
                                 floats * sizeof(float), err));
    }
    g->pairs->used = g->pairs->count = 0;
    return PITH_OK;
}
