/* Linears whose rows several ranks round: each rank its own, into a matrix of the whole; then rows
 * go round, with what each of them loses, so that all have the matrix and the report that one rank
 * would have made. What is measured of the whole is found by one rank for each measure. */
#include "quantize/work.h"

#include "base/mem.h"
#include "quantize/site/error_limits.h"

#include <string.h>

unsigned pith_work_owner(const struct pith_work *w, const uint32_t *first, uint32_t i)
{
    const unsigned ranks = pith_ranks_count(w->run->ranks);
    return ranks == 1 ? 0 : pith_rows_owner(first + (size_t)i * (ranks + 1), ranks);
}

enum pith_status pith_work_cut(const struct pith_work *w, const struct pith_round_job *job,
                               const struct pith_rounder *rounder, const uint32_t *first,
                               struct pith_rounded *out, struct pith_error *err)
{
    const unsigned own = pith_ranks_own(w->run->ranks);
    struct pith_round_job mine = *job;
    out->lost.loss = pith_alloc(job->rows, 2 * sizeof *out->lost.loss);
    if (!out->lost.loss) return pith_fail_nomem(err, "what rows lose");
    out->lost.nearest = out->lost.loss + job->rows;
    mine.lost = &out->lost;
    const struct pith_round_span span = {first[own], first[own + 1] - first[own]};
    return pith_round_some(rounder, &mine, span, &out->q, &out->made.report, err);
}

/* Of something that has so many bytes a row of scales, or a row: those of each rank, to all. */
struct rows {
    void *data;
    size_t bytes;
    uint32_t group; /* rows that they are of */
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

/* Bytes of it before a row, with which a part begins, or all ends. */
static size_t bytes_before(const struct rows *part, uint32_t row)
{
    return (row + part->group - 1) / part->group * part->bytes;
}

static enum pith_status share_rows(const struct pith_work *w, const struct rows *part,
                                   const uint32_t *first, struct pith_error *err)
{
    struct pith_ranks *ranks = w->run->ranks;
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
static enum pith_status share_order(const struct pith_work *w, unsigned from, struct pith_qmat *q,
                                    struct pith_error *err)
{
    struct pith_ranks *ranks = w->run->ranks;
    bool ordered = q->g_idx;
    PITH_TRY(pith_ranks_share(ranks, from, &ordered, sizeof ordered, err));
    if (!ordered) return PITH_OK;
    if (!q->g_idx) q->g_idx = pith_alloc(q->cols, sizeof *q->g_idx);
    if (!q->g_idx) return pith_fail_nomem(err, "group indices");
    return pith_ranks_share(ranks, from, q->g_idx, q->cols * sizeof *q->g_idx, err);
}

static enum pith_status join_one(struct pith_work *w, const struct pith_choice *c,
                                 const uint32_t *first, struct pith_rounded *m,
                                 struct pith_error *err)
{
    struct pith_ranks *ranks = w->run->ranks;
    struct pith_qmat *q = &m->q;
    struct pith_round_report *report = &m->made.report;
    unsigned from = 0;
    struct rows part[ROWS_PARTS];
    rows_of(q, &m->lost, part);
    while (first[from] == first[from + 1]) from++; /* the first that has rows */
    for (size_t i = 0; i < ROWS_PARTS; i++) PITH_TRY(share_rows(w, &part[i], first, err));
    PITH_TRY(share_order(w, from, q, err));
    PITH_TRY(pith_ranks_share(ranks, from, report, sizeof *report, err));
    PITH_TRY(pith_ranks_share(ranks, from, &m->lost.times, sizeof m->lost.times, err));
    report->loss = pith_round_mean(m->lost.loss, q->rows, m->lost.times);
    report->nearest_loss = pith_round_mean(m->lost.nearest, q->rows, m->lost.times);
    return pith_work_settle(w, c, q, err);
}

/* Measures of the whole, each by another rank: the hash, which takes twice as long, and the
 * distance. Sites begin with one rank after the other. */
enum measure { HASH, DISTANCE, MEASURES };

static unsigned measurer(unsigned ranks, uint32_t site, unsigned nth, enum measure m)
{
    const unsigned at = nth * MEASURES;
    return (site + at + at / ranks + m) % ranks;
}

static enum pith_status measure_one(struct pith_work *w, const struct pith_choice *c,
                                    const unsigned by[MEASURES], struct pith_rounded *m,
                                    struct pith_error *err)
{
    const unsigned own = pith_ranks_own(w->run->ranks);
    const struct pith_weight made = {.rows = c->rows, .cols = c->cols, .quant = &m->q};
    if (own == by[DISTANCE])
        PITH_TRY(pith_work_distance(w, c, &made, &m->made.relative_error, err));
    if (own != by[HASH]) return PITH_OK;
    const enum pith_status s =
        pith_weights_digest(w->run->job->backend, &made, m->made.sha256, err);
    return s == PITH_OK ? s : pith_fail_in(err, s, c->module);
}

static enum pith_status share_measures(struct pith_work *w, const struct pith_choice *c,
                                       const unsigned by[MEASURES], struct pith_rounded *m,
                                       struct pith_error *err)
{
    struct pith_ranks *ranks = w->run->ranks;
    struct pith_linear_result *made = &m->made;
    PITH_TRY(pith_ranks_share(ranks, by[HASH], made->sha256, sizeof made->sha256, err));
    PITH_TRY(pith_ranks_share(ranks, by[DISTANCE], &made->relative_error,
                              sizeof made->relative_error, err));
    return pith_judge(w->run->job, c, made->relative_error, err);
}

enum step { ROWS, OWN_MEASURES, ALL_MEASURES };

static enum pith_status take_step(struct pith_work *w, const struct pith_apart *cut, enum step step,
                                  struct pith_error *err)
{
    const unsigned ranks = pith_ranks_count(w->run->ranks);
    unsigned nth = 0;
    pith_phases_begin(&w->run->phases);
    for (uint32_t i = 0; i < cut->count; i++) {
        const struct pith_choice *c = &cut->choice[i];
        struct pith_rounded *m = &cut->made[i];
        if (!c->grid.format || pith_work_owner(w, cut->first, i) != PITH_TO_ALL) continue;
        const unsigned by[MEASURES] = {measurer(ranks, cut->site, nth, HASH),
                                       measurer(ranks, cut->site, nth, DISTANCE)};
        if (step == ROWS)
            PITH_TRY(join_one(w, c, cut->first + i * (size_t)(ranks + 1), m, err));
        else if (step == OWN_MEASURES) PITH_TRY(measure_one(w, c, by, m, err));
        else PITH_TRY(share_measures(w, c, by, m, err));
        nth++;
    }
    if (step == OWN_MEASURES) pith_phases_mark(&w->run->phases, PITH_PHASE_ERROR);
    return PITH_OK;
}

enum pith_status pith_work_join(struct pith_work *w, const struct pith_apart *cut,
                                struct pith_error *err)
{
    PITH_TRY(take_step(w, cut, ROWS, err));
    return take_step(w, cut, OWN_MEASURES, err);
}

enum pith_status pith_work_share(struct pith_work *w, const struct pith_apart *cut,
                                 struct pith_error *err)
{
    return take_step(w, cut, ALL_MEASURES, err);
}
