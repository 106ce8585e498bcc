#include "calib/relay.h"

#include "base/file.h"
#include "base/mem.h"
#include "calib/gather.h"

#include <string.h>

/* The rank that has that window of `all`. */
static unsigned holder(const struct pith_relay *relay, size_t all, size_t window)
{
    unsigned rank = 0;
    while (pith_ranks_from(relay->ranks, rank + 1, all) <= window) rank++;
    return rank;
}

enum pith_status pith_relay_window(const struct pith_relay *relay, size_t all, size_t window,
                                   float *out, size_t floats, struct pith_error *err)
{
    if (pith_ranks_alone(relay->ranks)) return PITH_OK;
    return pith_ranks_share(relay->ranks, holder(relay, all, window), out, floats * sizeof *out,
                            err);
}

/* --- stored rows ------------------------------------------------------------------------------ */

/* Those of a site follow those of the sites before, token by token. */
static float *rows_of(const struct pith_gather *g, uint32_t site, size_t token)
{
    float *at = g->relay->rows;
    for (uint32_t i = 0; i < site - g->first; i++) at += g->here * g->stats[i].dim;
    return at + (token - g->from) * g->stats[site - g->first].dim;
}

/* Those that the model as it was has in their place, of a single site. */
static float *other_of(const struct pith_gather *g, size_t token)
{
    return rows_of(g, g->first, token) + g->here * g->stats[0].dim;
}

void pith_gather_keep(const struct pith_gather *g, uint32_t site, const float *x, size_t n)
{
    const struct pith_stats *st = &g->stats[site - g->first];
    memcpy(rows_of(g, site, g->seen), x, n * st->dim * sizeof *x);
    if (st->drift) memcpy(other_of(g, g->seen), g->other, n * st->dim * sizeof *x);
}

enum pith_status pith_gather_spread(struct pith_gather *g, const struct pith_relay *relay,
                                    const struct pith_acts *acts,
                                    const struct pith_gather_plan *plan, struct pith_error *err)
{
    size_t width = 0;
    if (pith_ranks_alone(relay->ranks)) return PITH_OK;
    for (uint32_t i = 0; i < g->count; i++) width += g->stats[i].dim;
    if (plan->needs & PITH_NEED_DRIFT) width *= 2;
    if (width > relay->width)
        return pith_fail(err, PITH_UNSUPPORTED, "these statistics are not shared between ranks");
    g->relay = relay;
    g->from = g->seen = acts->first * acts->length;
    g->here = acts->windows * acts->length;
    return PITH_OK;
}

/* --- the baton -------------------------------------------------------------------------------- */

enum pith_status pith_relay_pass(struct pith_ranks *r, enum pith_relay_way way, void *data,
                                 size_t bytes, struct pith_error *err)
{
    const unsigned own = pith_ranks_own(r), count = pith_ranks_count(r);
    if (way == PITH_RELAY_SHARE) return pith_ranks_share(r, count - 1, data, bytes, err);
    if (way == PITH_RELAY_RECEIVE)
        return own == 0 ? PITH_OK : pith_ranks_receive(r, own - 1, data, bytes, err);
    return own + 1 == count ? PITH_OK : pith_ranks_send(r, own + 1, data, bytes, err);
}

/* What is not a Hessian: the sums, the ends, the samples. */
static enum pith_status pass_sums(const struct pith_gather *g, uint32_t i, enum pith_relay_way way,
                                  struct pith_error *err)
{
    struct pith_ranks *r = g->relay->ranks;
    struct pith_stats *st = &g->stats[i];
    struct pith_gather_sums *sums = &g->sums[i];
    uint64_t counts[2] = {st->tokens, st->sample_count};
    PITH_TRY(pith_relay_pass(r, way, counts, sizeof counts, err));
    PITH_TRY(pith_relay_pass(r, way, &sums->mass, sizeof sums->mass, err));
    st->tokens = counts[0];
    st->sample_count = (size_t)counts[1];
    const struct {
        void *data;
        size_t bytes;
    } part[] = {{sums->absolute, st->dim * sizeof(double)},
                {sums->squares, st->views * st->dim * sizeof(double)},
                {st->lo, st->dim * sizeof(float)},
                {st->hi, st->dim * sizeof(float)},
                {st->samples, st->sample_count * st->dim * sizeof(float)}};
    for (size_t k = 0; k < sizeof part / sizeof part[0]; k++)
        if (part[k].data) PITH_TRY(pith_relay_pass(r, way, part[k].data, part[k].bytes, err));
    return PITH_OK;
}

static void add_guided_squares(const struct pith_gather *g, uint32_t i, const float *x, size_t n)
{
    const struct pith_stats *st = &g->stats[i];
    for (uint32_t v = 0; g->view && g->sums[i].squares && v < st->views; v++) {
        (void)pith_gather_weigh(g, st, v, x, n);
        pith_gather_add_weighed(g, st, g->sums[i].squares + v * st->dim, n);
    }
}

static enum pith_status relay_sums(struct pith_gather *g, const struct pith_acts *acts, uint32_t i,
                                   struct pith_error *err)
{
    PITH_TRY(pass_sums(g, i, PITH_RELAY_RECEIVE, err));
    for (size_t w = 0; w < acts->windows; w++) {
        g->seen = g->from + w * acts->length;
        const float *x = rows_of(g, g->first + i, g->seen);
        pith_gather_add(g, g->first + i, x, acts->length);
        pith_gather_limit(g, x, acts->length, g->stats[i].dim);
        add_guided_squares(g, i, x, acts->length);
    }
    PITH_TRY(pass_sums(g, i, PITH_RELAY_SEND, err));
    return pass_sums(g, i, PITH_RELAY_SHARE, err);
}

/* Rows [first, first + rows) of the upper triangle, of one view. */
struct panel {
    size_t first, rows;
    uint32_t view;
};

static float *hessian_of(const struct pith_stats *st, const struct panel *p)
{
    return st->hessian + (size_t)p->view * st->dim * st->dim;
}

/* Its rows from the diagonal on, one behind the other, into `packed` or from there. */
static void copy_panel(const struct pith_stats *st, const struct panel *p, float *packed, bool out)
{
    const size_t d = st->dim;
    for (size_t i = p->first; i < p->first + p->rows; packed += d - i, i++) {
        float *row = hessian_of(st, p) + i * d + i;
        memcpy(out ? packed : row, out ? row : packed, (d - i) * sizeof *row);
    }
}

/* A panel on its way; ranks that neither have it to give nor get it copy nothing. */
static enum pith_status pass_relay_panel(const struct pith_gather *g, const struct pith_stats *st,
                                         const struct panel *p, enum pith_relay_way way,
                                         float *packed, struct pith_error *err)
{
    const unsigned own = pith_ranks_own(g->relay->ranks);
    const bool last = own + 1 == pith_ranks_count(g->relay->ranks);
    const bool gives = (way == PITH_RELAY_SEND && !last) || (way == PITH_RELAY_SHARE && last);
    const bool gets = (way == PITH_RELAY_RECEIVE && own > 0) || (way == PITH_RELAY_SHARE && !last);
    const size_t end = p->first + p->rows, n = p->rows * (2 * st->dim - p->first - end + 1) / 2;
    if (gives) copy_panel(st, p, packed, true);
    PITH_TRY(pith_relay_pass(g->relay->ranks, way, packed, n * sizeof *packed, err));
    if (gets) copy_panel(st, p, packed, false);
    return PITH_OK;
}

static enum pith_status relay_panel(struct pith_gather *g, const struct pith_acts *acts, uint32_t i,
                                    const struct panel *p, float *packed, struct pith_error *err)
{
    const struct pith_stats *st = &g->stats[i];
    const size_t d = st->dim;
    const float alpha = (float)(g->alpha * g->weight);
    const struct pith_syrk_part part = {hessian_of(st, p), d, p->first, p->rows};
    PITH_TRY(pass_relay_panel(g, st, p, PITH_RELAY_RECEIVE, packed, err));
    const double start = pith_clock();
    for (size_t w = 0; w < acts->windows; w++) {
        g->seen = g->from + w * acts->length;
        const float *x = rows_of(g, g->first + i, g->seen);
        pith_gather_limit(g, x, acts->length, d);
        x = pith_gather_weigh(g, st, p->view, x, acts->length);
        if (p->rows == d) pith_syrk(g->backend, part.h, d, x, acts->length, alpha);
        else pith_syrk_rows(g->backend, &part, x, acts->length, alpha);
    }
    g->hessian_seconds += pith_clock() - start;
    return pass_relay_panel(g, st, p, PITH_RELAY_SEND, packed, err);
}

static enum pith_status relay_hessian(struct pith_gather *g, const struct pith_acts *acts,
                                      uint32_t i, struct pith_error *err)
{
    const struct pith_stats *st = &g->stats[i];
    /* Where operands are rounded for the whole matrix, it goes round as one. */
    const bool whole = pith_backend_mode(g->backend) == PITH_MODE_BF16;
    const unsigned ranks = pith_ranks_count(g->relay->ranks);
    const size_t d = st->dim, rows = whole ? d : pith_ranks_panel(ranks, d);
    float *packed = pith_alloc_aligned(rows * d, sizeof *packed);
    enum pith_status s = packed ? PITH_OK : pith_fail_nomem(err, "a panel of a Hessian");
    struct panel p = {0};
    for (p.view = 0; p.view < st->views; p.view++)
        for (p.first = 0; p.first < d && s == PITH_OK; p.first += rows) {
            p.rows = d - p.first < rows ? d - p.first : rows;
            s = relay_panel(g, acts, i, &p, packed, err);
        }
    for (p.view = 0; p.view < st->views; p.view++) {
        for (p.first = 0; p.first < d && s == PITH_OK; p.first += rows) {
            p.rows = d - p.first < rows ? d - p.first : rows;
            s = pass_relay_panel(g, st, &p, PITH_RELAY_SHARE, packed, err);
        }
        if (s == PITH_OK) pith_syrk(g->backend, hessian_of(st, &p), d, g->relay->rows, 0, g->alpha);
    }
    pith_free(packed);
    return s;
}

/* The same of the drift, which is not symmetric. */
static enum pith_status pass_drift(const struct pith_gather *g, const struct pith_stats *st,
                                   const struct panel *p, enum pith_relay_way way,
                                   struct pith_error *err)
{
    const size_t d = st->dim;
    for (uint32_t v = 0; v < st->views; v++)
        PITH_TRY(pith_relay_pass(g->relay->ranks, way, st->drift + (v * d + p->first) * d,
                                 p->rows * d * sizeof *st->drift, err));
    return PITH_OK;
}

static enum pith_status relay_drift(struct pith_gather *g, const struct pith_acts *acts,
                                    const struct pith_stats *st, struct pith_error *err)
{
    const size_t d = st->dim, rows = pith_ranks_panel(pith_ranks_count(g->relay->ranks), d);
    struct panel p = {0};
    for (; p.first < d; p.first += rows) {
        p.rows = d - p.first < rows ? d - p.first : rows;
        PITH_TRY(pass_drift(g, st, &p, PITH_RELAY_RECEIVE, err));
        for (size_t w = 0; w < acts->windows; w++) {
            g->seen = g->from + w * acts->length;
            const float *x = rows_of(g, g->first, g->seen);
            pith_gather_limit(g, x, acts->length, d);
            pith_gather_add_drift(g, st,
                                  &(struct pith_gather_drift){x,
                                                              other_of(g, g->seen), acts->length,
                                                              p.first, p.rows});
        }
        PITH_TRY(pass_drift(g, st, &p, PITH_RELAY_SEND, err));
    }
    p = (struct panel){.rows = d};
    return pass_drift(g, st, &p, PITH_RELAY_SHARE, err);
}

enum pith_status pith_gather_meet(struct pith_gather *g, const struct pith_acts *acts,
                                  struct pith_error *err)
{
    for (uint32_t i = 0; g->relay && i < g->count; i++) {
        PITH_TRY(relay_sums(g, acts, i, err));
        if (g->stats[i].hessian) PITH_TRY(relay_hessian(g, acts, i, err));
        if (g->stats[i].drift) PITH_TRY(relay_drift(g, acts, &g->stats[i], err));
    }
    return PITH_OK;
}
