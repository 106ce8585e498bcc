#include "quantize/ranks/division.h"

#include "base/mem.h"
#include "quantize/ranks/route.h"
#include "quantize/site/error_limits.h"
#include "quantize/site/inputs.h"
#include "quantize/work.h"

#include <string.h>

/* --- who has which rows ----------------------------------------------------------------------- */

/* A rank's part of a linear is a multiple of so many rows; 0: one rank has all of it. */
static uint32_t unit_of(const struct pith_recipe *recipe, const struct pith_choice *c)
{
    const struct pith_round_job job = {
        .grid = c->grid, .options = recipe->round_options, .rows = c->rows, .cols = c->cols};
    return c->keeps ? c->rows : pith_round_cut(recipe->round, &job, recipe->split);
}

static void divide(const struct pith_division *d, unsigned ranks)
{
    const uint32_t count = d->site->count;
    const bool expert = d->site->expert != PITH_NO_PART;
    struct pith_spread_part l[PITH_SPREAD_MOST];
    for (uint32_t i = 0; i < count && !expert && count <= PITH_SPREAD_MOST; i++)
        l[i] = (struct pith_spread_part){pith_choice_changes(&d->choice[i]) ? d->choice[i].rows : 0,
                                         unit_of(&d->work->run->job->recipe, &d->choice[i])};
    if (!expert && count <= PITH_SPREAD_MOST) {
        pith_spread_rows(l, count, ranks, d->first);
        return;
    }
    const unsigned owner = expert ? pith_relay_owner_of(ranks, d->site->expert) : 0;
    for (uint32_t i = 0; i < count; i++)
        pith_spread_whole(d->choice[i].rows, ranks, owner, d->first + (size_t)i * (ranks + 1));
}

enum pith_status pith_division_open(struct pith_work *w, const struct pith_site_spec *site,
                                    struct pith_division *d, struct pith_error *err)
{
    const unsigned ranks = pith_ranks_count(w->run->ranks);
    *d = (struct pith_division){.work = w,
                                .site = site,
                                .choice = pith_job_choice(w->run->job, w->layer, site->first),
                                .ranks = w->run->ranks};
    if (!d->ranks) return PITH_OK;
    d->first = pith_zalloc(site->count, (ranks + 1) * sizeof *d->first);
    if (!d->first) return pith_fail_nomem(err, site->name);
    divide(d, ranks);
    return PITH_OK;
}

void pith_division_close(struct pith_division *d)
{
    pith_free(d->first);
    d->first = NULL;
}

static const uint32_t *rows_from(const struct pith_division *d, uint32_t i)
{
    return d->first + (size_t)i * (pith_ranks_count(d->ranks) + 1);
}

/* The rank that has all rows of linear i, or PITH_TO_ALL: several have some. */
static unsigned owner_of(const struct pith_division *d, uint32_t i)
{
    return d->first ? pith_rows_owner(rows_from(d, i), pith_ranks_count(d->ranks)) : 0;
}

uint32_t pith_division_batch(const struct pith_division *d)
{
    return d->ranks && d->site->expert == PITH_NO_PART ? d->site->count : 1;
}

bool pith_division_has(const struct pith_division *d, uint32_t i)
{
    const unsigned owner = owner_of(d, i);
    return owner == PITH_TO_ALL || owner == pith_ranks_own(d->ranks);
}

bool pith_division_whole(const struct pith_division *d, uint32_t i)
{
    return owner_of(d, i) == pith_ranks_own(d->ranks);
}

struct pith_ranks *pith_division_factorers(const struct pith_division *d)
{
    const bool several = d->first && d->site->expert == PITH_NO_PART &&
                         pith_rows_workers(d->first, d->site->count, pith_ranks_count(d->ranks)) >
                             1;
    return several ? d->ranks : NULL;
}

bool pith_division_factors(const struct pith_division *d)
{
    return !d->first || pith_division_factorers(d) ||
           pith_rows_some(d->first, d->site->count, pith_ranks_count(d->ranks),
                          pith_ranks_own(d->ranks));
}

/* --- rounding --------------------------------------------------------------------------------- */

enum pith_status pith_division_round(const struct pith_division *d, uint32_t i,
                                     const struct pith_rounder *rounder,
                                     const struct pith_round_job *job, struct pith_rounded *out,
                                     struct pith_error *err)
{
    if (pith_division_whole(d, i)) return pith_round(rounder, job, &out->q, &out->made.report, err);
    const uint32_t *mine = rows_from(d, i) + pith_ranks_own(d->ranks);
    struct pith_round_job some = *job;
    out->lost.loss = pith_alloc(job->rows, 2 * sizeof *out->lost.loss);
    if (!out->lost.loss) return pith_fail_nomem(err, "what rows lose");
    out->lost.nearest = out->lost.loss + job->rows;
    some.lost = &out->lost;
    const struct pith_round_span span = {mine[0], mine[1] - mine[0]};
    return pith_round_some(rounder, &some, span, &out->q, &out->made.report, err);
}

/* --- rows become everyone's ------------------------------------------------------------------- */

/* An array of a matrix: so many bytes for each `group` rows. */
struct rows {
    void *data; /* NULL: the matrix has none */
    size_t bytes;
    uint32_t group;
};

enum { ROWS_PARTS = 8 };
static void rows_of(const struct pith_qmat *q, const struct pith_round_lost *lost,
                    struct rows out[ROWS_PARTS])
{
    const size_t groups = q->groups, levels = pith_qmat_level_count(q);
    const struct rows part[ROWS_PARTS] = {
        {q->codes, q->stride, 1},
        {q->scales, groups * sizeof *q->scales, q->row_group},
        {q->zeros, groups, q->row_group},
        {q->offsets, groups * sizeof *q->offsets, q->row_group},
        {q->outer, q->cols / PITH_KBLOCK * sizeof *q->outer, 1},
        {q->levels, levels / q->rows * sizeof *q->levels, 1},
        {lost->loss, sizeof *lost->loss, 1},
        {lost->nearest, sizeof *lost->nearest, 1},
    };
    memcpy(out, part, sizeof part);
}

/* Bytes of it before a row at which a rank's part begins, or the last ends. */
static size_t bytes_before(const struct rows *part, uint32_t row)
{
    return (row + part->group - 1) / part->group * part->bytes;
}

static enum pith_status share_rows(struct pith_ranks *ranks, const struct rows *part,
                                   const uint32_t *first, struct pith_error *err)
{
    const unsigned count = pith_ranks_count(ranks);
    if (!part->data) return PITH_OK;
    size_t *edges = pith_alloc(count + 1, sizeof *edges);
    if (!edges) return pith_fail_nomem(err, "whose rows are whose");
    for (unsigned k = 0; k <= count; k++) edges[k] = bytes_before(part, first[k]);
    const enum pith_status s = pith_ranks_share_runs(ranks, part->data, edges, err);
    pith_free(edges);
    return s;
}

/* Which groups columns are in, where that is stored: the same in every part. */
static enum pith_status share_order(struct pith_ranks *ranks, unsigned from, struct pith_qmat *q,
                                    struct pith_error *err)
{
    bool ordered = q->g_idx;
    PITH_TRY(pith_ranks_share(ranks, from, &ordered, sizeof ordered, err));
    if (!ordered) return PITH_OK;
    if (!q->g_idx) q->g_idx = pith_alloc(q->cols, sizeof *q->g_idx);
    if (!q->g_idx) return pith_fail_nomem(err, "group indices");
    return pith_ranks_share(ranks, from, q->g_idx, q->cols * sizeof *q->g_idx, err);
}

static enum pith_status join_rows(const struct pith_division *d, uint32_t i, struct pith_rounded *m,
                                  struct pith_error *err)
{
    struct pith_ranks *ranks = d->ranks;
    const uint32_t *first = rows_from(d, i);
    struct pith_qmat *q = &m->q;
    struct pith_round_report *report = &m->made.report;
    unsigned from = 0;
    struct rows part[ROWS_PARTS];
    rows_of(q, &m->lost, part);
    while (first[from] == first[from + 1]) from++; /* the first that has rows */
    for (size_t p = 0; p < ROWS_PARTS; p++) PITH_TRY(share_rows(ranks, &part[p], first, err));
    PITH_TRY(share_order(ranks, from, q, err));
    PITH_TRY(pith_ranks_share(ranks, from, report, sizeof *report, err));
    PITH_TRY(pith_ranks_share(ranks, from, &m->lost.times, sizeof m->lost.times, err));
    report->loss = pith_round_mean(m->lost.loss, q->rows, m->lost.times);
    report->nearest_loss = pith_round_mean(m->lost.nearest, q->rows, m->lost.times);
    return pith_work_settle(d->work, &d->choice[i], q, err);
}

enum pith_status pith_rounded_share(const struct pith_run *r, const struct pith_choice *c,
                                    unsigned owner, struct pith_rounded *m, struct pith_error *err)
{
    const struct pith_route route = {r->ranks, owner, PITH_TO_ALL};
    const struct pith_stats none = {0};
    float of[2] = {m->q.input.scale, m->q.input.zero};
    PITH_TRY(pith_route_qmat(&route, &m->q, err));
    PITH_TRY(pith_route_bytes(&route, &m->made, sizeof m->made, err));
    PITH_TRY(pith_route_bytes(&route, of, sizeof of, err));
    if (owner == pith_ranks_own(r->ranks)) return PITH_OK;
    m->q.input = pith_inputs_make(r->job, c, &none);
    m->q.input.scale = of[0];
    m->q.input.zero = of[1];
    return PITH_OK;
}

/* --- measures --------------------------------------------------------------------------------- */

/* Of a whole linear, each by another rank: its hash, which takes twice as long, and its distance
 * from the input's. */
enum measure { HASH, DISTANCE, MEASURES };

/* The rank that takes it, of the nth divided linear of the site. The first linear's is another rank
 * for each site. */
static unsigned measurer(const struct pith_division *d, unsigned nth, enum measure m)
{
    const unsigned ranks = pith_ranks_count(d->ranks), at = nth * MEASURES;
    const uint32_t site = (uint32_t)(d->site - d->work->plan->site);
    return (site + at + at / ranks + m) % ranks;
}

static enum pith_status measure(const struct pith_division *d, uint32_t i, unsigned nth,
                                struct pith_rounded *m, struct pith_error *err)
{
    const struct pith_choice *c = &d->choice[i];
    const unsigned own = pith_ranks_own(d->ranks);
    const struct pith_weight made = {.rows = c->rows, .cols = c->cols, .quant = &m->q};
    if (own == measurer(d, nth, DISTANCE))
        PITH_TRY(pith_work_distance(d->work, c, &made, &m->made.relative_error, err));
    if (own != measurer(d, nth, HASH)) return PITH_OK;
    const enum pith_status s =
        pith_weights_digest(d->work->run->job->backend, &made, m->made.sha256, err);
    return s == PITH_OK ? s : pith_fail_in(err, s, c->module);
}

static enum pith_status share_measures(const struct pith_division *d, uint32_t i, unsigned nth,
                                       struct pith_rounded *m, struct pith_error *err)
{
    struct pith_linear_result *made = &m->made;
    PITH_TRY(
        pith_ranks_share(d->ranks, measurer(d, nth, HASH), made->sha256, sizeof made->sha256, err));
    PITH_TRY(pith_ranks_share(d->ranks, measurer(d, nth, DISTANCE), &made->relative_error,
                              sizeof made->relative_error, err));
    return pith_judge(d->work->run->job, &d->choice[i], made->relative_error, err);
}

/* --- the steps -------------------------------------------------------------------------------- */

static bool is_divided(const struct pith_division *d, uint32_t i)
{
    return d->choice[i].grid.format && owner_of(d, i) == PITH_TO_ALL;
}

enum pith_status pith_division_join(const struct pith_division *d, struct pith_rounded *made,
                                    struct pith_error *err)
{
    struct pith_phases *phases = &d->work->run->phases;
    unsigned nth = 0;
    if (!d->ranks || d->site->expert != PITH_NO_PART) return PITH_OK;
    for (uint32_t i = 0; i < d->site->count; i++)
        if (is_divided(d, i)) PITH_TRY(join_rows(d, i, &made[i], err));
    pith_phases_begin(phases);
    for (uint32_t i = 0; i < d->site->count; i++)
        if (is_divided(d, i)) PITH_TRY(measure(d, i, nth++, &made[i], err));
    pith_phases_mark(phases, PITH_PHASE_ERROR);
    for (uint32_t i = 0; i < d->site->count; i++)
        if (d->choice[i].grid.format && !is_divided(d, i))
            PITH_TRY(
                pith_rounded_share(d->work->run, &d->choice[i], owner_of(d, i), &made[i], err));
    return PITH_OK;
}

enum pith_status pith_division_share(const struct pith_division *d, struct pith_rounded *made,
                                     struct pith_error *err)
{
    unsigned nth = 0;
    for (uint32_t i = 0; d->ranks && i < d->site->count; i++)
        if (is_divided(d, i)) PITH_TRY(share_measures(d, i, nth++, &made[i], err));
    return PITH_OK;
}
